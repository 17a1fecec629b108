//! MPI's error classes.

/// The error classes of MPI that one-sided communication uses (MPI-4.1, sections 9.4 and 12.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::CheckedBitPattern)]
#[non_exhaustive]
#[repr(u8)]
pub enum ErrorClass {
    /// An argument that belongs to no other class.
    Arg = 1,
    /// An assertion that the call does not accept.
    Assert,
    /// Memory that is not mapped, or was not allocated by `alloc_mem`.
    Base,
    /// A null buffer.
    Buffer,
    /// A communicator or window whose ranks are out of step, because an earlier collective call
    /// failed.
    Comm,
    /// Lengths that differ or exceed 64 bits.
    Count,
    /// A displacement unit.
    Disp,
    /// A rank of a group that is not in the window.
    Group,
    /// Never: hints may differ between ranks.
    Info,
    /// A malformed hint.
    InfoValue,
    /// Never: [`LockKind`](crate::LockKind) has no illegal values.
    LockType,
    /// Out of memory.
    NoMem,
    /// An operation that is not defined for the type, or not allowed in the call.
    Op,
    /// The system or a device refused.
    Other,
    /// Another rank died, left or gave up.
    ProcAborted,
    /// A number that is not a rank, or occurs twice.
    Rank,
    /// Memory that is already attached, or is not attached.
    RmaAttach,
    /// Never: conflicting accesses are not detected (MPI-4.1, section 12.7 leaves their outcome
    /// undefined).
    RmaConflict,
    /// A window of another flavor than the call needs.
    RmaFlavor,
    /// An access outside a target's memory or outside its attached memory.
    RmaRange,
    /// Ranks that cannot load from and store to each other's memory.
    RmaShared,
    /// An epoch that is not open but should be, or the reverse.
    RmaSync,
    /// An invalid size of memory.
    Size,
    /// Never: data with too many elements is of class `Type`, like data with other elements.
    Truncate,
    /// A datatype that does not fit the call or the other side.
    Type,
    /// Never: freeing a window consumes it.
    Win,
}

impl ErrorClass {
    pub(crate) fn from_code(code: u8) -> Self {
        bytemuck::checked::try_cast(code).unwrap_or(Self::Other)
    }
}
