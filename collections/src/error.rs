//! The errors of this crate.

use std::fmt;

use transom::ErrorClass;

/// Why a call failed: misuse of a collection, or an error of the windows under it.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum Error {
    /// A window or a communicator failed, for example because a rank died.
    #[error(transparent)]
    Transom(#[from] transom::Error),
    /// Nothing was accessed.
    #[error("{operation}: index {index} is not one of a collection of {len} elements")]
    IndexOutOfRange {
        operation: &'static str,
        index: usize,
        len: usize,
    },
    /// Two lists that must have the same length.
    #[error("{operation}: {ours} elements, and {theirs} {side}")]
    LengthsDiffer {
        operation: &'static str,
        ours: usize,
        theirs: usize,
        side: &'static str,
    },
    /// Ranks describe the same new collection differently. Every rank gets this error.
    #[error("{operation}: rank {rank} has {theirs}, and rank {ours_rank} has {ours}")]
    RanksDiffer {
        operation: &'static str,
        ours_rank: u32,
        ours: String,
        rank: u32,
        theirs: String,
    },
    /// The part is full, and nothing was inserted. The operation says how to make room.
    #[error("{operation}: the part of rank {rank} is full: it has room for {capacity}")]
    Full {
        operation: &'static str,
        rank: u32,
        capacity: usize,
    },
    /// An argument that is never legal.
    #[error("{operation}: {what}")]
    BadArgument {
        operation: &'static str,
        what: String,
    },
    /// The function that the call `within` runs has used the same map. The thread would wait for itself. Nothing was
    /// accessed.
    #[error("{operation}: the function of {within} uses the map that it was called for")]
    Reentered {
        operation: &'static str,
        within: &'static str,
    },
    /// Another rank failed, and so the call failed on every rank.
    #[error("{operation}: rank {rank} failed: {message}")]
    RankFailed {
        operation: &'static str,
        rank: u32,
        message: String,
    },
    /// No memory for the result of a call. Nothing was accessed.
    #[error("{operation}: no memory for {bytes} bytes")]
    NoMemory {
        operation: &'static str,
        bytes: usize,
    },
    /// A file could not be read or written.
    #[error("{operation}: {path}: {what}")]
    File {
        operation: &'static str,
        path: String,
        what: String,
    },
}

/// Shown if `main` returns the error.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The result of calls of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Local. MPI's class of the error.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Transom(error) => error.class(),
            Self::IndexOutOfRange { .. } => ErrorClass::RmaRange,
            Self::LengthsDiffer { .. } => ErrorClass::Count,
            Self::RanksDiffer { .. } | Self::BadArgument { .. } => ErrorClass::Arg,
            Self::Reentered { .. } => ErrorClass::RmaSync,
            Self::Full { .. } => ErrorClass::Size,
            Self::NoMemory { .. } => ErrorClass::NoMem,
            Self::RankFailed { .. } | Self::File { .. } => ErrorClass::Other,
        }
    }
}
