//! What the host's header defines, compiled from `constants.c`.

use std::ffi::c_int;

use crate::mpi_h::{
    MPI_Comm, MPI_Datatype, MPI_Errhandler, MPI_Group, MPI_Info, MPI_Op, MPI_Request, MPI_Status,
    MPI_Win,
};
use transom::{ErrorClass, Op};

/// Constants of C under the names that they have in the standard, without `MPI_`.
macro_rules! constants {
    ($($ty:ty: $($name:ident $symbol:ident),+;)+) => {
        unsafe extern "C" {
            $($(safe static $symbol: $ty;)+)+
        }
        $($(
            #[inline(always)]
            pub(crate) fn $name() -> $ty {
                $symbol
            }
        )+)+
    };
}

constants! {
    c_int:
        proc_null transom_PROC_NULL,
        lock_shared transom_LOCK_SHARED,
        lock_exclusive transom_LOCK_EXCLUSIVE,
        mode_nocheck transom_MODE_NOCHECK,
        mode_nostore transom_MODE_NOSTORE,
        mode_noput transom_MODE_NOPUT,
        mode_noprecede transom_MODE_NOPRECEDE,
        mode_nosucceed transom_MODE_NOSUCCEED,
        win_base transom_WIN_BASE,
        win_size transom_WIN_SIZE,
        win_disp_unit transom_WIN_DISP_UNIT,
        win_create_flavor transom_WIN_CREATE_FLAVOR,
        win_model transom_WIN_MODEL,
        win_flavor_create transom_WIN_FLAVOR_CREATE,
        win_flavor_allocate transom_WIN_FLAVOR_ALLOCATE,
        win_flavor_dynamic transom_WIN_FLAVOR_DYNAMIC,
        win_flavor_shared transom_WIN_FLAVOR_SHARED,
        win_unified transom_WIN_UNIFIED,
        thread_multiple transom_THREAD_MULTIPLE,
        keyval_invalid transom_KEYVAL_INVALID,
        max_info_key transom_MAX_INFO_KEY,
        any_source transom_ANY_SOURCE,
        any_tag transom_ANY_TAG,
        order_c transom_ORDER_C,
        distribute_block transom_DISTRIBUTE_BLOCK,
        distribute_cyclic transom_DISTRIBUTE_CYCLIC,
        distribute_dflt_darg transom_DISTRIBUTE_DFLT_DARG,
        error_in_status transom_ERR_IN_STATUS,
        abi transom_abi;
    MPI_Comm: comm_self transom_COMM_SELF, comm_world transom_COMM_WORLD, comm_null transom_COMM_NULL;
    MPI_Win: win_null transom_WIN_NULL;
    MPI_Info: info_null transom_INFO_NULL;
    MPI_Group: group_null transom_GROUP_NULL;
    MPI_Request: request_null transom_REQUEST_NULL;
    MPI_Errhandler: errors_are_fatal transom_ERRORS_ARE_FATAL, errors_return transom_ERRORS_RETURN,
        errors_abort transom_ERRORS_ABORT;
    MPI_Datatype: byte transom_BYTE, datatype_null transom_DATATYPE_NULL;
    *mut MPI_Status: status_ignore transom_STATUS_IGNORE, statuses_ignore transom_STATUSES_IGNORE;
    usize: status_size transom_status_size, status_error transom_status_error;
}

/// How a datatype was made, in the order of the table in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combiner {
    Named,
    Dup,
    Contiguous,
    Vector,
    Hvector,
    Indexed,
    Hindexed,
    IndexedBlock,
    HindexedBlock,
    Struct,
    Subarray,
    Darray,
    Resized,
    F90Real,
    F90Complex,
    F90Integer,
}

const COMBINERS: [Combiner; 16] = [
    Combiner::Named,
    Combiner::Dup,
    Combiner::Contiguous,
    Combiner::Vector,
    Combiner::Hvector,
    Combiner::Indexed,
    Combiner::Hindexed,
    Combiner::IndexedBlock,
    Combiner::HindexedBlock,
    Combiner::Struct,
    Combiner::Subarray,
    Combiner::Darray,
    Combiner::Resized,
    Combiner::F90Real,
    Combiner::F90Complex,
    Combiner::F90Integer,
];

impl Combiner {
    pub(crate) fn of(number: c_int) -> Option<Self> {
        let at = transom_combiners.iter().position(|&c| c == number)?;
        Some(COMBINERS[at])
    }
}

/// What the elements of a predefined datatype are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Signed,
    Unsigned,
    Float,
    Complex,
    /// C's, and not Fortran's that has as many bytes.
    LongDouble,
    LongComplex,
    Logical,
    Bytes,
    /// Moved only.
    Opaque,
    FloatInt,
    DoubleInt,
    LongInt,
    TwoInt,
    ShortInt,
    LongDoubleInt,
    /// Fortran's pairs of a value and an index of the same type.
    TwiceFloat,
}

const KINDS: [Kind; 16] = [
    Kind::Signed,
    Kind::Unsigned,
    Kind::Float,
    Kind::Complex,
    Kind::LongDouble,
    Kind::LongComplex,
    Kind::Logical,
    Kind::Bytes,
    Kind::Opaque,
    Kind::FloatInt,
    Kind::DoubleInt,
    Kind::LongInt,
    Kind::TwoInt,
    Kind::ShortInt,
    Kind::LongDoubleInt,
    Kind::TwiceFloat,
];

#[repr(C)]
struct Predefined {
    handle: MPI_Datatype,
    kind: c_int,
}

unsafe extern "C" {
    safe static transom_error_classes: [c_int; 27];
    safe static transom_ops: [MPI_Op; Op::ALL.len()];
    safe static transom_combiners: [c_int; COMBINERS.len()];
    safe static transom_predefined_len: usize;
    static transom_predefined: [Predefined; 0];
}

/// The number by which the host knows this class.
pub(crate) fn error_class(class: ErrorClass) -> c_int {
    transom_error_classes[class as usize]
}

/// The operation, if it is a predefined one that accumulates take.
#[inline]
pub(crate) fn op(handle: MPI_Op) -> Option<Op> {
    let at = transom_ops.iter().position(|&op| op == handle)?;
    Some(Op::ALL[at])
}

/// The operation, if it is one that is often called by and takes one instruction.
#[inline(always)]
pub(crate) fn quick_op(handle: MPI_Op) -> Option<Op> {
    let [sum, .., replace, no_op] = &transom_ops;
    if handle == *sum {
        Some(Op::Sum)
    } else if handle == *replace {
        Some(Op::Replace)
    } else if handle == *no_op {
        Some(Op::NoOp)
    } else {
        None
    }
}

/// The predefined datatypes, of which some may be null.
pub(crate) fn predefined() -> impl Iterator<Item = (MPI_Datatype, Kind)> {
    // SAFETY: the table has this length, and its kinds are numbers of `KINDS`: it is part of this library.
    let table = unsafe {
        std::slice::from_raw_parts(
            (&raw const transom_predefined).cast::<Predefined>(),
            transom_predefined_len,
        )
    };
    let entry = |entry: &Predefined| (entry.handle, KINDS[entry.kind as usize]);
    table.iter().map(entry)
}
