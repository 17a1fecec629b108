//! MPI's error classes.

/// MPI's error classes, as far as one-sided communication uses them (MPI-4.1, sections 9.4 and
/// 12.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::CheckedBitPattern)]
#[non_exhaustive]
#[repr(u8)]
pub enum ErrorClass {
    /// An argument that no other class is for.
    Arg = 1,
    /// An assertion that the call does not take.
    Assert,
    /// Memory that is not mapped, or was not handed out by `alloc_mem`.
    Base,
    /// A null buffer.
    Buffer,
    /// A communicator or window whose ranks are out of step, since an earlier collective call
    /// failed.
    Comm,
    /// Lengths that differ, or leave 64 bits.
    Count,
    /// A displacement unit.
    Disp,
    /// A rank of a group that is not one of the window.
    Group,
    /// Never: hints may differ between ranks.
    Info,
    /// A malformed hint.
    InfoValue,
    /// Never: [`LockKind`](crate::LockKind) has no illegal values.
    LockType,
    /// Out of memory.
    NoMem,
    /// An operation that the type or the call does not allow.
    Op,
    /// The system or a device refused.
    Other,
    /// Another rank died, left or gave up.
    ProcAborted,
    /// A rank that is none, or comes twice.
    Rank,
    /// Memory that is attached already, or is not.
    RmaAttach,
    /// Never: conflicting accesses are not looked for (MPI-4.1, section 12.7 leaves their outcome
    /// undefined).
    RmaConflict,
    /// A window that was made by another call than this one needs.
    RmaFlavor,
    /// A target's memory that is too small, or not attached.
    RmaRange,
    /// Ranks that cannot load from and store to each other's memory.
    RmaShared,
    /// An epoch that is not open, or must not be.
    RmaSync,
    /// A size of memory.
    Size,
    /// Never: data of more elements than there is room for is of class `Type`, as data of other
    /// elements is.
    Truncate,
    /// A datatype that does not fit the call or the other side.
    Type,
    /// Never: a freed window is moved out of, so that nothing can name it.
    Win,
}

impl ErrorClass {
    pub(crate) fn from_code(code: u8) -> Self {
        bytemuck::checked::try_cast(code).unwrap_or(Self::Other)
    }
}
