/* The macros and enumerations of mpi.h, whose values differ between hosts. Most of them are in the header that build.rs
 * makes of table.rs. */
/* Open MPI's handles are addresses in its library. A preloaded library is also in processes without it, such as shells
 * that start the program. */
#define OMPI_DECLSPEC __attribute__((weak))
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#if MPI_VERSION < 3 || (MPI_VERSION == 3 && MPI_SUBVERSION < 1)
#error "Transom goes in front of an MPI of version 3.1 or later; the mpi.h of MPICC is of an older one"
#endif

/* The same types as in mpi_h.rs. */
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

/* operations.rs knows the address by this. */
_Static_assert((uintptr_t)(MPI_IN_PLACE) + 1 <= 2, "MPI_IN_PLACE is 1 or -1");

/* The MPI of this mpi.h, as an index of loaded::ABIS. mpi/install uses the same tests. An MPI's own header may also
 * define MPI_ABI_VERSION, and the header of the ABI that comes with MPICH defines MPICH. */
#if defined(OMPI_MAJOR_VERSION)
const int transom_abi = 1;
#elif defined(MPICH_NUMVERSION) || defined(I_MPI_NUMVERSION) || defined(MVAPICH_VERSION) || defined(MVAPICH2_VERSION)
const int transom_abi = 0;
#elif defined(MPI_ABI_VERSION)
const int transom_abi = 2;
#else
const int transom_abi = -1;
#endif

/* Since MPI-4. */
#ifndef MPI_ERRORS_ABORT
#define MPI_ERRORS_ABORT MPI_ERRHANDLER_NULL
#endif
#ifndef MPI_ERR_PROC_ABORTED
#define MPI_ERR_PROC_ABORTED MPI_ERR_OTHER
#endif

MPI_Status *const transom_STATUS_IGNORE = MPI_STATUS_IGNORE;
MPI_Status *const transom_STATUSES_IGNORE = MPI_STATUSES_IGNORE;
const size_t transom_status_size = sizeof(MPI_Status);
const size_t transom_status_error = offsetof(MPI_Status, MPI_ERROR);

#include "table.h"
