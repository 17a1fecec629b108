//! The constants of the host's header, compiled from `constants.c` and the header that `build.rs` makes of `table.rs`.

use std::ffi::c_int;

use crate::mpi_h::{
    MPI_Comm, MPI_Datatype, MPI_Errhandler, MPI_Group, MPI_Info, MPI_Op, MPI_Request, MPI_Status,
    MPI_Win,
};
use transom::{BasicType, ErrorClass, Op};

/// Functions of C that return constants. Their names are those of the standard, after `transom_`.
macro_rules! functions {
    ($($ty:ty: $($constant:ident $name:ident),+;)+) => {$($(
        #[inline(always)]
        pub(crate) fn $name() -> $ty {
            unsafe extern "C" {
                #[link_name = concat!("transom_", stringify!($constant))]
                safe static CONSTANT: $ty;
            }
            CONSTANT
        }
    )+)+};
}
constants!(functions);
functions! {
    c_int: abi abi;
    *mut MPI_Status: STATUS_IGNORE status_ignore, STATUSES_IGNORE statuses_ignore;
    usize: status_size status_size, status_error status_error;
}

macro_rules! define_combiner {
    ($($name:ident $mpi:ident,)+) => {
        /// How a datatype was made.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Combiner {
            $($name,)+
        }

        const COMBINERS: [Combiner; [$(stringify!($name)),+].len()] = [$(Combiner::$name),+];
    };
}
combiners!(define_combiner);

impl Combiner {
    pub(crate) fn of(number: c_int) -> Option<Self> {
        let at = transom_combiners.iter().position(|&c| c == number)?;
        Some(COMBINERS[at])
    }
}

macro_rules! define_kind {
    ($($kind:ident [$($ty:ident)+]: $($mpi:ident)+ $(, optional $($optional:ident)+)?;)+) => {
        /// The kind of the elements of a predefined datatype.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {
            $($kind,)+
        }

        /// Transom's types of each kind, by size.
        const KINDS: [(Kind, &[BasicType]); [$(stringify!($kind)),+].len()] =
            [$((Kind::$kind, &[$(BasicType::$ty),+])),+];

        /// The kinds of the datatypes in the table.
        const DATATYPES: &[Kind] =
            &[$($(kind!($kind $mpi),)+ $($(kind!($kind $optional),)+)?)+];
    };
}
macro_rules! kind {
    ($kind:ident $mpi:ident) => {
        Kind::$kind
    };
}
datatypes!(define_kind);

// Each type of Transom belongs to one of the kinds.
const _: () = {
    let mut ty = 0;
    while ty < BasicType::ALL.len() {
        let mut found = false;
        let mut kind = 0;
        while kind < KINDS.len() {
            let types = KINDS[kind].1;
            let mut at = 0;
            while at < types.len() {
                found |= types[at] as u8 == BasicType::ALL[ty] as u8;
                at += 1;
            }
            kind += 1;
        }
        assert!(found, "table.rs lacks a type of BasicType");
        ty += 1;
    }
};

impl Kind {
    /// Transom's type whose elements have this number of bytes.
    pub(crate) fn of_size(self, size: usize) -> Option<BasicType> {
        let (_, types) = KINDS.iter().find(|(kind, _)| *kind == self)?;
        types.iter().copied().find(|ty| ty.size() == size)
    }
}

macro_rules! names {
    ($($name:ident $mpi:ident,)+) => { [$(stringify!($name)),+] };
}
macro_rules! classes {
    ($($name:ident $mpi:ident,)+) => { [$(ErrorClass::$name),+] };
}
macro_rules! ops {
    ($($name:ident $mpi:ident,)+) => { [$(Op::$name),+] };
}

const CLASSES: [ErrorClass; error_classes!(names).len()] = error_classes!(classes);
/// All of Transom's operations.
const OPERATIONS: [Op; Op::ALL.len()] = operations!(ops);

unsafe extern "C" {
    safe static transom_error_classes: [c_int; CLASSES.len()];
    safe static transom_operations: [MPI_Op; OPERATIONS.len()];
    safe static transom_combiners: [c_int; COMBINERS.len()];
    safe static transom_datatypes: [MPI_Datatype; DATATYPES.len()];
}

/// The host's number for this class.
pub(crate) fn error_class(class: ErrorClass) -> c_int {
    let known = |wanted| CLASSES.iter().position(|&class| class == wanted);
    let at = known(class).or_else(|| known(ErrorClass::Other));
    at.map_or(0, |at| transom_error_classes[at])
}

/// The operation, if it is a predefined one that accumulates accept.
#[inline]
pub(crate) fn op(handle: MPI_Op) -> Option<Op> {
    let at = transom_operations.iter().position(|&op| op == handle)?;
    Some(OPERATIONS[at])
}

/// The operation, if it is one of the most frequent: sum, replace or no-op.
#[inline(always)]
pub(crate) fn quick_op(handle: MPI_Op) -> Option<Op> {
    let is = |place: usize| handle == transom_operations[place];
    if is(const { place(Op::Sum) }) {
        Some(Op::Sum)
    } else if is(const { place(Op::Replace) }) {
        Some(Op::Replace)
    } else if is(const { place(Op::NoOp) }) {
        Some(Op::NoOp)
    } else {
        None
    }
}

const fn place(op: Op) -> usize {
    let mut at = 0;
    while OPERATIONS[at] as usize != op as usize {
        at += 1;
    }
    at
}

/// The predefined datatypes. Some of them may be null.
pub(crate) fn predefined() -> impl Iterator<Item = (MPI_Datatype, Kind)> {
    let datatypes = transom_datatypes.iter().copied();
    datatypes.zip(DATATYPES.iter().copied())
}
