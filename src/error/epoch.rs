//! The epochs that a window can be found in.

use std::fmt;

use crate::terms::LockKind;

/// The state in which a call found the window while it needed another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EpochState {
    /// No access epoch is open.
    None,
    /// A fence epoch is open.
    Fence,
    /// A fence epoch is open, and this rank has called an operation in it.
    FenceUsed,
    /// Locks of single targets are held.
    Locks,
    /// This target is locked already.
    Locked(u32),
    /// This target is not locked.
    NotLocked(u32),
    /// An epoch of `lock_all` is open.
    LockAll,
    /// An access epoch of `start` is open.
    Started,
    /// An access epoch of `start` is open, and this rank is not one of its targets.
    NotStarted(u32),
    /// An exposure epoch of `post` is open.
    Exposed,
    /// No exposure epoch of `post` is open.
    NotExposed,
    /// A rank waits in a collective call of the window for another rank.
    InCollective {
        /// The rank that is in the call.
        rank: u32,
        /// The call.
        call: &'static str,
        /// A rank that has not entered the call.
        awaited: u32,
    },
    /// The lock in question is of this kind and at this rank.
    LockOf(LockKind, u32),
    /// `local_mut` of a lock has lent this rank's own part as a slice.
    OwnPartLent,
    /// A session is open, or was opened and not closed.
    Session,
}

impl fmt::Display for EpochState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no epoch is open"),
            Self::Fence => f.write_str("a fence epoch is open"),
            Self::FenceUsed => f.write_str("this one has"),
            Self::Locks => f.write_str("locks of single targets are held"),
            Self::Locked(rank) => write!(f, "rank {rank} is locked already"),
            Self::NotLocked(rank) => write!(f, "rank {rank} is not locked"),
            Self::LockAll => f.write_str("lock_all is in force"),
            Self::Started => f.write_str("an access epoch of start is open"),
            Self::NotStarted(rank) => write!(f, "rank {rank} is not in the group of start"),
            Self::Exposed => f.write_str("an exposure epoch of post is open"),
            Self::NotExposed => f.write_str("no exposure epoch of post is open"),
            Self::InCollective {
                rank,
                call,
                awaited,
            } => write!(
                f,
                "rank {rank} is in {call}, where it waits for rank {awaited}"
            ),
            Self::Session => {
                f.write_str("a session was opened, which close, an epoch or free ends")
            }
            Self::OwnPartLent => f.write_str("local_mut lends that until its lock is unlocked"),
            Self::LockOf(LockKind::Shared, rank) => {
                write!(f, "this is a shared lock of rank {rank}")
            }
            Self::LockOf(LockKind::Exclusive, rank) => {
                write!(f, "this is an exclusive lock of rank {rank}")
            }
        }
    }
}
