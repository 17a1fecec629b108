//! MPI's error classes.

/// MPI's error classes, as far as one-sided communication uses them (MPI-4.1, sections 9.4 and
/// 12.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
#[allow(missing_docs, reason = "MPI's own names")]
pub enum ErrorClass {
    Arg = 1,
    Assert,
    Base,
    Buffer,
    Comm,
    Count,
    Disp,
    Group,
    Info,
    InfoValue,
    LockType,
    NoMem,
    Op,
    Other,
    ProcAborted,
    Rank,
    RmaAttach,
    RmaConflict,
    RmaFlavor,
    RmaRange,
    RmaShared,
    RmaSync,
    Size,
    Truncate,
    Type,
    Win,
}

impl ErrorClass {
    const ALL: [Self; 26] = [
        Self::Arg,
        Self::Assert,
        Self::Base,
        Self::Buffer,
        Self::Comm,
        Self::Count,
        Self::Disp,
        Self::Group,
        Self::Info,
        Self::InfoValue,
        Self::LockType,
        Self::NoMem,
        Self::Op,
        Self::Other,
        Self::ProcAborted,
        Self::Rank,
        Self::RmaAttach,
        Self::RmaConflict,
        Self::RmaFlavor,
        Self::RmaRange,
        Self::RmaShared,
        Self::RmaSync,
        Self::Size,
        Self::Truncate,
        Self::Type,
        Self::Win,
    ];

    pub(crate) fn from_code(code: u8) -> Self {
        Self::ALL
            .into_iter()
            .find(|class| *class as u8 == code)
            .unwrap_or(Self::Other)
    }
}
