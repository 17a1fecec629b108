//! The names of the host's `mpi.h`. Each is here once: `build.rs` makes tables in C of these lists, and `constants.rs`
//! declares the same tables in Rust. So neither order nor length can differ.

/// Constants by type, each with the function that returns it.
macro_rules! constants {
    ($make:ident) => {
        $make! {
            c_int:
                MPI_PROC_NULL proc_null, MPI_LOCK_SHARED lock_shared, MPI_LOCK_EXCLUSIVE lock_exclusive,
                MPI_MODE_NOCHECK mode_nocheck, MPI_MODE_NOSTORE mode_nostore, MPI_MODE_NOPUT mode_noput,
                MPI_MODE_NOPRECEDE mode_noprecede, MPI_MODE_NOSUCCEED mode_nosucceed, MPI_WIN_BASE win_base,
                MPI_WIN_SIZE win_size, MPI_WIN_DISP_UNIT win_disp_unit, MPI_WIN_CREATE_FLAVOR win_create_flavor,
                MPI_WIN_MODEL win_model, MPI_WIN_FLAVOR_CREATE win_flavor_create,
                MPI_WIN_FLAVOR_ALLOCATE win_flavor_allocate, MPI_WIN_FLAVOR_DYNAMIC win_flavor_dynamic,
                MPI_WIN_FLAVOR_SHARED win_flavor_shared, MPI_WIN_UNIFIED win_unified,
                MPI_THREAD_MULTIPLE thread_multiple, MPI_KEYVAL_INVALID keyval_invalid, MPI_MAX_INFO_KEY max_info_key,
                MPI_ANY_SOURCE any_source, MPI_ANY_TAG any_tag, MPI_ORDER_C order_c,
                MPI_DISTRIBUTE_BLOCK distribute_block, MPI_DISTRIBUTE_CYCLIC distribute_cyclic,
                MPI_DISTRIBUTE_DFLT_DARG distribute_dflt_darg, MPI_ERR_IN_STATUS error_in_status;
            MPI_Comm:
                MPI_COMM_SELF comm_self, MPI_COMM_WORLD comm_world, MPI_COMM_NULL comm_null;
            MPI_Win: MPI_WIN_NULL win_null;
            MPI_Info: MPI_INFO_NULL info_null;
            MPI_Group: MPI_GROUP_NULL group_null;
            MPI_Request: MPI_REQUEST_NULL request_null;
            MPI_Errhandler:
                MPI_ERRORS_ARE_FATAL errors_are_fatal, MPI_ERRORS_RETURN errors_return, MPI_ERRORS_ABORT errors_abort;
            MPI_Datatype: MPI_BYTE byte, MPI_DATATYPE_NULL datatype_null;
        }
    };
}

/// Transom's error classes, and MPI's.
macro_rules! error_classes {
    ($make:ident) => {
        $make! {
            Arg MPI_ERR_ARG, Assert MPI_ERR_ASSERT, Base MPI_ERR_BASE, Buffer MPI_ERR_BUFFER, Comm MPI_ERR_COMM,
            Count MPI_ERR_COUNT, Disp MPI_ERR_DISP, Group MPI_ERR_GROUP, Info MPI_ERR_INFO,
            InfoValue MPI_ERR_INFO_VALUE, LockType MPI_ERR_LOCKTYPE, NoMem MPI_ERR_NO_MEM, Op MPI_ERR_OP,
            Other MPI_ERR_OTHER, ProcAborted MPI_ERR_PROC_ABORTED, Rank MPI_ERR_RANK, RmaAttach MPI_ERR_RMA_ATTACH,
            RmaConflict MPI_ERR_RMA_CONFLICT, RmaFlavor MPI_ERR_RMA_FLAVOR, RmaRange MPI_ERR_RMA_RANGE,
            RmaShared MPI_ERR_RMA_SHARED, RmaSync MPI_ERR_RMA_SYNC, Size MPI_ERR_SIZE, Truncate MPI_ERR_TRUNCATE,
            Type MPI_ERR_TYPE, Win MPI_ERR_WIN,
        }
    };
}

/// Transom's operations, and MPI's.
macro_rules! operations {
    ($make:ident) => {
        $make! {
            Sum MPI_SUM, Prod MPI_PROD, Min MPI_MIN, Max MPI_MAX, Band MPI_BAND, Bor MPI_BOR, Bxor MPI_BXOR,
            Land MPI_LAND, Lor MPI_LOR, Lxor MPI_LXOR, Minloc MPI_MINLOC, Maxloc MPI_MAXLOC, Replace MPI_REPLACE,
            NoOp MPI_NO_OP,
        }
    };
}

/// The calls that make datatypes.
macro_rules! combiners {
    ($make:ident) => {
        $make! {
            Named MPI_COMBINER_NAMED, Dup MPI_COMBINER_DUP, Contiguous MPI_COMBINER_CONTIGUOUS,
            Vector MPI_COMBINER_VECTOR, Hvector MPI_COMBINER_HVECTOR, Indexed MPI_COMBINER_INDEXED,
            Hindexed MPI_COMBINER_HINDEXED, IndexedBlock MPI_COMBINER_INDEXED_BLOCK,
            HindexedBlock MPI_COMBINER_HINDEXED_BLOCK, Struct MPI_COMBINER_STRUCT, Subarray MPI_COMBINER_SUBARRAY,
            Darray MPI_COMBINER_DARRAY, Resized MPI_COMBINER_RESIZED, F90Real MPI_COMBINER_F90_REAL,
            F90Complex MPI_COMBINER_F90_COMPLEX, F90Integer MPI_COMBINER_F90_INTEGER,
        }
    };
}

/// The predefined datatypes by the kinds of their elements. The host tells the width of an element, which selects one
/// of Transom's types in brackets. Some hosts lack the optional datatypes.
macro_rules! datatypes {
    ($make:ident) => {
        $make! {
            // The standard defines MPI_CHAR as text, but programs sum it.
            Signed [I8 I16 I32 I64]:
                MPI_CHAR MPI_SIGNED_CHAR MPI_WCHAR MPI_SHORT MPI_INT MPI_LONG MPI_LONG_LONG MPI_INT8_T MPI_INT16_T
                MPI_INT32_T MPI_INT64_T MPI_AINT MPI_OFFSET MPI_COUNT MPI_INTEGER MPI_CHARACTER MPI_INTEGER1
                MPI_INTEGER2 MPI_INTEGER4 MPI_INTEGER8;
            Unsigned [U8 U16 U32 U64]:
                MPI_UNSIGNED_CHAR MPI_UNSIGNED_SHORT MPI_UNSIGNED MPI_UNSIGNED_LONG MPI_UNSIGNED_LONG_LONG MPI_UINT8_T
                MPI_UINT16_T MPI_UINT32_T MPI_UINT64_T;
            Bytes [Byte]: MPI_BYTE MPI_PACKED;
            // Quadruple precision can only be moved.
            Float [F32 F64 Opaque16]: MPI_FLOAT MPI_DOUBLE MPI_REAL MPI_DOUBLE_PRECISION MPI_REAL4 MPI_REAL8;
            // The long double of C, and not the type of Fortran with as many bytes.
            LongDouble [LongDouble]: MPI_LONG_DOUBLE;
            Logical [Bool Logical2 Logical4 Logical8]:
                MPI_C_BOOL MPI_CXX_BOOL MPI_LOGICAL,
                optional MPI_LOGICAL1 MPI_LOGICAL2 MPI_LOGICAL4 MPI_LOGICAL8;
            Complex [ComplexF32 ComplexF64 Opaque32]:
                MPI_C_FLOAT_COMPLEX MPI_C_DOUBLE_COMPLEX MPI_CXX_FLOAT_COMPLEX MPI_CXX_DOUBLE_COMPLEX MPI_COMPLEX
                MPI_DOUBLE_COMPLEX MPI_COMPLEX8 MPI_COMPLEX16;
            LongComplex [ComplexLongDouble]: MPI_C_LONG_DOUBLE_COMPLEX MPI_CXX_LONG_DOUBLE_COMPLEX;
            FloatInt [FloatInt]: MPI_FLOAT_INT;
            DoubleInt [DoubleInt]: MPI_DOUBLE_INT;
            LongInt [LongInt]: MPI_LONG_INT;
            TwoInt [TwoInt]: MPI_2INT MPI_2INTEGER;
            ShortInt [ShortInt]: MPI_SHORT_INT;
            LongDoubleInt [LongDoubleInt]: MPI_LONG_DOUBLE_INT;
            // Pairs of Fortran. Their index has the type of the value.
            TwiceFloat [TwoFloat TwoDouble]: MPI_2REAL MPI_2DOUBLE_PRECISION;
            // These can only be moved. MPI_REAL16 also has 16 bytes, but is not a long double.
            Opaque [Opaque16 Opaque32]: MPI_REAL16, optional MPI_COMPLEX32 MPI_INTEGER16 MPI_2COMPLEX MPI_2DOUBLE_COMPLEX;
        }
    };
}
