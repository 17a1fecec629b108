/* What mpi.h defines by macros and enumerations, whose values differ from host to host. The Rust side is
 * constants.rs, which names each again. */
/* Open MPI's handles are addresses in its library. A preloaded library is also in processes without it, such as shells
 * that start the program. */
#define OMPI_DECLSPEC __attribute__((weak))
#include <mpi.h>
#include <stddef.h>

#if MPI_VERSION < 3 || (MPI_VERSION == 3 && MPI_SUBVERSION < 1)
#error "Transom goes in front of an MPI of version 3.1 or later; the mpi.h of MPICC is of an older one"
#endif

/* As mpi_h.rs has them. */
#ifdef HANDLES_ARE_NUMBERS
typedef int handle;
#else
typedef void *handle;
#endif
_Static_assert(sizeof(MPI_Comm) == sizeof(handle) && sizeof(MPI_Datatype) == sizeof(handle) &&
               sizeof(MPI_Errhandler) == sizeof(handle) && sizeof(MPI_Group) == sizeof(handle) &&
               sizeof(MPI_Info) == sizeof(handle) && sizeof(MPI_Op) == sizeof(handle) &&
               sizeof(MPI_Request) == sizeof(handle) && sizeof(MPI_Win) == sizeof(handle), "handles");
_Static_assert(sizeof(MPI_Aint) == sizeof(void *) && sizeof(MPI_Count) == 8, "widths");

#define NUMBER(name) const int transom_##name = MPI_##name;
#define HANDLE(type, name) const type transom_##name = MPI_##name;

/* Whose mpi.h this is: a place in loaded::ABIS. As mpi/install tells them apart: an MPI's own may define MPI_ABI_VERSION
 * as well, and that of the ABI which comes with MPICH defines MPICH. */
#if defined(OMPI_MAJOR_VERSION)
const int transom_abi = 1;
#elif defined(MPICH_NUMVERSION) || defined(I_MPI_NUMVERSION) || defined(MVAPICH_VERSION) || defined(MVAPICH2_VERSION)
const int transom_abi = 0;
#elif defined(MPI_ABI_VERSION)
const int transom_abi = 2;
#else
const int transom_abi = -1;
#endif

NUMBER(PROC_NULL)
NUMBER(LOCK_SHARED)
NUMBER(LOCK_EXCLUSIVE)
NUMBER(MODE_NOCHECK)
NUMBER(MODE_NOSTORE)
NUMBER(MODE_NOPUT)
NUMBER(MODE_NOPRECEDE)
NUMBER(MODE_NOSUCCEED)
NUMBER(WIN_BASE)
NUMBER(WIN_SIZE)
NUMBER(WIN_DISP_UNIT)
NUMBER(WIN_CREATE_FLAVOR)
NUMBER(WIN_MODEL)
NUMBER(WIN_FLAVOR_CREATE)
NUMBER(WIN_FLAVOR_ALLOCATE)
NUMBER(WIN_FLAVOR_DYNAMIC)
NUMBER(WIN_FLAVOR_SHARED)
NUMBER(WIN_UNIFIED)
NUMBER(THREAD_MULTIPLE)
NUMBER(KEYVAL_INVALID)
NUMBER(MAX_INFO_KEY)
NUMBER(ANY_SOURCE)
NUMBER(ANY_TAG)
NUMBER(ORDER_C)
NUMBER(DISTRIBUTE_BLOCK)
NUMBER(DISTRIBUTE_CYCLIC)
NUMBER(DISTRIBUTE_DFLT_DARG)
NUMBER(ERR_IN_STATUS)

HANDLE(MPI_Comm, COMM_SELF)
HANDLE(MPI_Comm, COMM_WORLD)
HANDLE(MPI_Comm, COMM_NULL)
HANDLE(MPI_Win, WIN_NULL)
HANDLE(MPI_Info, INFO_NULL)
HANDLE(MPI_Group, GROUP_NULL)
HANDLE(MPI_Request, REQUEST_NULL)
HANDLE(MPI_Errhandler, ERRORS_ARE_FATAL)
HANDLE(MPI_Errhandler, ERRORS_RETURN)
/* Since MPI-4. */
#ifndef MPI_ERRORS_ABORT
#define MPI_ERRORS_ABORT MPI_ERRHANDLER_NULL
#endif
HANDLE(MPI_Errhandler, ERRORS_ABORT)
HANDLE(MPI_Datatype, BYTE)
HANDLE(MPI_Datatype, DATATYPE_NULL)
MPI_Status *const transom_STATUS_IGNORE = MPI_STATUS_IGNORE;
MPI_Status *const transom_STATUSES_IGNORE = MPI_STATUSES_IGNORE;
const size_t transom_status_size = sizeof(MPI_Status);
const size_t transom_status_error = offsetof(MPI_Status, MPI_ERROR);

/* In the order of ErrorClass. */
#ifndef MPI_ERR_PROC_ABORTED
#define MPI_ERR_PROC_ABORTED MPI_ERR_OTHER
#endif
const int transom_error_classes[] = {
    MPI_SUCCESS,          MPI_ERR_ARG,        MPI_ERR_ASSERT,       MPI_ERR_BASE,
    MPI_ERR_BUFFER,       MPI_ERR_COMM,       MPI_ERR_COUNT,        MPI_ERR_DISP,
    MPI_ERR_GROUP,        MPI_ERR_INFO,       MPI_ERR_INFO_VALUE,   MPI_ERR_LOCKTYPE,
    MPI_ERR_NO_MEM,       MPI_ERR_OP,         MPI_ERR_OTHER,        MPI_ERR_PROC_ABORTED,
    MPI_ERR_RANK,         MPI_ERR_RMA_ATTACH, MPI_ERR_RMA_CONFLICT, MPI_ERR_RMA_FLAVOR,
    MPI_ERR_RMA_RANGE,    MPI_ERR_RMA_SHARED, MPI_ERR_RMA_SYNC,     MPI_ERR_SIZE,
    MPI_ERR_TRUNCATE,     MPI_ERR_TYPE,       MPI_ERR_WIN,
};

/* In the order of transom::Op::ALL. */
const MPI_Op transom_ops[] = {
    MPI_SUM, MPI_PROD, MPI_MIN,  MPI_MAX,    MPI_BAND,   MPI_BOR,     MPI_BXOR,
    MPI_LAND, MPI_LOR, MPI_LXOR, MPI_MINLOC, MPI_MAXLOC, MPI_REPLACE, MPI_NO_OP,
};

/* In the order of constants::Combiner. */
const int transom_combiners[] = {
    MPI_COMBINER_NAMED,         MPI_COMBINER_DUP,
    MPI_COMBINER_CONTIGUOUS,    MPI_COMBINER_VECTOR,
    MPI_COMBINER_HVECTOR,       MPI_COMBINER_INDEXED,
    MPI_COMBINER_HINDEXED,      MPI_COMBINER_INDEXED_BLOCK,
    MPI_COMBINER_HINDEXED_BLOCK, MPI_COMBINER_STRUCT,
    MPI_COMBINER_SUBARRAY,      MPI_COMBINER_DARRAY,
    MPI_COMBINER_RESIZED,       MPI_COMBINER_F90_REAL,
    MPI_COMBINER_F90_COMPLEX,   MPI_COMBINER_F90_INTEGER,
};

/* What the elements are; how wide they are, the host says. The numbers are constants::Kind's. */
enum kind {
    SIGNED, UNSIGNED, FLOATING, COMPLEX, LONG_DOUBLE, LONG_COMPLEX, LOGICAL, BYTES, OPAQUE, FLOAT_INT,
    DOUBLE_INT, LONG_INT, TWO_INT, SHORT_INT, LONG_DOUBLE_INT, TWICE_FLOATING,
};
struct predefined {
    MPI_Datatype handle;
    int kind;
};
const struct predefined transom_predefined[] = {
    /* Text by the standard; programs sum it. */
    {MPI_CHAR, SIGNED},
    {MPI_SIGNED_CHAR, SIGNED},
    {MPI_UNSIGNED_CHAR, UNSIGNED},
    {MPI_BYTE, BYTES},
    {MPI_PACKED, BYTES},
    {MPI_WCHAR, SIGNED},
    {MPI_SHORT, SIGNED},
    {MPI_UNSIGNED_SHORT, UNSIGNED},
    {MPI_INT, SIGNED},
    {MPI_UNSIGNED, UNSIGNED},
    {MPI_LONG, SIGNED},
    {MPI_UNSIGNED_LONG, UNSIGNED},
    {MPI_LONG_LONG, SIGNED},
    {MPI_UNSIGNED_LONG_LONG, UNSIGNED},
    {MPI_INT8_T, SIGNED},
    {MPI_INT16_T, SIGNED},
    {MPI_INT32_T, SIGNED},
    {MPI_INT64_T, SIGNED},
    {MPI_UINT8_T, UNSIGNED},
    {MPI_UINT16_T, UNSIGNED},
    {MPI_UINT32_T, UNSIGNED},
    {MPI_UINT64_T, UNSIGNED},
    {MPI_AINT, SIGNED},
    {MPI_OFFSET, SIGNED},
    {MPI_COUNT, SIGNED},
    {MPI_FLOAT, FLOATING},
    {MPI_DOUBLE, FLOATING},
    {MPI_LONG_DOUBLE, LONG_DOUBLE},
    {MPI_C_BOOL, LOGICAL},
    {MPI_C_FLOAT_COMPLEX, COMPLEX},
    {MPI_C_DOUBLE_COMPLEX, COMPLEX},
    {MPI_C_LONG_DOUBLE_COMPLEX, LONG_COMPLEX},
    {MPI_CXX_BOOL, LOGICAL},
    {MPI_CXX_FLOAT_COMPLEX, COMPLEX},
    {MPI_CXX_DOUBLE_COMPLEX, COMPLEX},
    {MPI_CXX_LONG_DOUBLE_COMPLEX, LONG_COMPLEX},
    {MPI_FLOAT_INT, FLOAT_INT},
    {MPI_DOUBLE_INT, DOUBLE_INT},
    {MPI_LONG_INT, LONG_INT},
    {MPI_2INT, TWO_INT},
    {MPI_SHORT_INT, SHORT_INT},
    {MPI_LONG_DOUBLE_INT, LONG_DOUBLE_INT},
    {MPI_INTEGER, SIGNED},
    {MPI_REAL, FLOATING},
    {MPI_DOUBLE_PRECISION, FLOATING},
    {MPI_COMPLEX, COMPLEX},
    {MPI_DOUBLE_COMPLEX, COMPLEX},
    {MPI_LOGICAL, LOGICAL},
    {MPI_CHARACTER, SIGNED},
#ifdef MPI_LOGICAL1
    {MPI_LOGICAL1, LOGICAL},
#endif
#ifdef MPI_LOGICAL2
    {MPI_LOGICAL2, LOGICAL},
#endif
#ifdef MPI_LOGICAL4
    {MPI_LOGICAL4, LOGICAL},
#endif
#ifdef MPI_LOGICAL8
    {MPI_LOGICAL8, LOGICAL},
#endif
    {MPI_2INTEGER, TWO_INT},
    {MPI_2REAL, TWICE_FLOATING},
    {MPI_2DOUBLE_PRECISION, TWICE_FLOATING},
    {MPI_INTEGER1, SIGNED},
    {MPI_INTEGER2, SIGNED},
    {MPI_INTEGER4, SIGNED},
    {MPI_INTEGER8, SIGNED},
    {MPI_REAL4, FLOATING},
    {MPI_REAL8, FLOATING},
    /* Of 16 bytes too, but no long double. */
    {MPI_REAL16, OPAQUE},
    {MPI_COMPLEX8, COMPLEX},
    {MPI_COMPLEX16, COMPLEX},
#ifdef MPI_COMPLEX32
    {MPI_COMPLEX32, OPAQUE},
#endif
#ifdef MPI_INTEGER16
    {MPI_INTEGER16, OPAQUE},
#endif
#ifdef MPI_2COMPLEX
    {MPI_2COMPLEX, OPAQUE},
#endif
#ifdef MPI_2DOUBLE_COMPLEX
    {MPI_2DOUBLE_COMPLEX, OPAQUE},
#endif
};
const size_t transom_predefined_len = sizeof transom_predefined / sizeof *transom_predefined;
