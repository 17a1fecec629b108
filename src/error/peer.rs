//! A peer's fault.

use std::fmt;
use std::sync::Arc;

use transom_launch::notice;

use super::ErrorClass;

/// Another rank died, left or gave up.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// The process is gone, without having said so.
    #[error("rank {rank} died (process {pid}{})", OnHost(.host))]
    Died {
        /// Rank in the world communicator.
        rank: u32,
        /// Its process.
        pid: u32,
        /// The host that it ran on, where that may be another one than this rank's.
        host: Option<Arc<str>>,
    },
    /// The process has started another program (exec), with which it left the job.
    #[error("rank {rank} has left the job: its process ({pid}) has started another program (exec)")]
    Replaced {
        /// Rank in the world communicator.
        rank: u32,
        /// Its process.
        pid: u32,
    },
    /// The process was gone when this rank first needed it, and the launcher does not say why.
    #[error("rank {rank} is gone (process {pid}): it died, or it left the job early")]
    Gone {
        /// Rank in the world communicator.
        rank: u32,
        /// Its process.
        pid: u32,
    },
    /// The rank does not answer: it died, or the way to it is broken.
    #[error("rank {rank} does not answer: {reason}")]
    Silent {
        /// Rank in the world communicator.
        rank: u32,
        /// What the device says about it.
        reason: String,
    },
    /// The rank finished its part of the job while others still needed it.
    #[error("rank {rank} has left the job")]
    Left {
        /// Rank in the world communicator.
        rank: u32,
    },
    /// A rank gave up (an error, a panic or an abort) and told the others.
    #[error("the job was aborted because rank {rank} {cause}")]
    Aborted {
        /// Rank in the world communicator of the rank that failed first.
        rank: u32,
        /// What it did.
        cause: AbortCause,
    },
    /// What a rank wrote for others to read makes no sense: it was overwritten, or another version
    /// of Transom runs there.
    #[error(
        "{what} of rank {rank} makes no sense: it was overwritten, or another version of transom \
         runs there"
    )]
    Garbled {
        /// The rank, as far as it can be told.
        rank: u32,
        /// What it is.
        what: &'static str,
    },
    /// A collective operation failed on another rank.
    #[error("rank {rank} failed: {message}")]
    Failed {
        /// Rank in the communicator of the collective.
        rank: u32,
        /// That rank's own error, in words.
        message: String,
        /// That rank's own error class.
        class: ErrorClass,
    },
}

struct OnHost<'a>(&'a Option<Arc<str>>);

impl fmt::Display for OnHost<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(host) => write!(f, " on {host}"),
            None => Ok(()),
        }
    }
}

impl PeerError {
    /// Local. The rank at fault.
    #[must_use]
    pub fn rank(&self) -> u32 {
        match self {
            Self::Died { rank, .. }
            | Self::Replaced { rank, .. }
            | Self::Gone { rank, .. }
            | Self::Left { rank }
            | Self::Silent { rank, .. }
            | Self::Aborted { rank, .. }
            | Self::Garbled { rank, .. }
            | Self::Failed { rank, .. } => *rank,
        }
    }

    /// What to tell the others.
    pub(crate) fn cause(&self) -> AbortCause {
        match self {
            Self::Died { .. } => AbortCause::Died,
            Self::Replaced { .. } => AbortCause::Replaced,
            Self::Gone { .. } => AbortCause::Gone,
            Self::Left { .. } => AbortCause::Left,
            Self::Silent { .. } => AbortCause::Silent,
            Self::Aborted { cause, .. } => *cause,
            Self::Failed { .. } | Self::Garbled { .. } => AbortCause::Aborted,
        }
    }
}

/// Causes, their codes in abort words, and what they say of a rank.
macro_rules! causes {
    ($($(#[$doc:meta])* $cause:ident = $code:expr, $text:literal;)*) => {
        /// Why a rank made the others stop.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum AbortCause {
            $($(#[$doc])* $cause = $code,)*
        }

        impl AbortCause {
            pub(crate) fn from_code(code: u8) -> Self {
                match code {
                    $(code if code == Self::$cause as u8 => Self::$cause,)*
                    _ => Self::Aborted,
                }
            }
        }

        impl fmt::Display for AbortCause {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$cause => $text,)*
                })
            }
        }
    };
}

causes! {
    /// It panicked.
    Panicked = 1, "panicked";
    /// It was found dead.
    Died = notice::DIED, "died";
    /// It called abort.
    Aborted = notice::ABORTED, "called abort";
    /// It left the job while others still needed it.
    Left = notice::LEFT, "left the job early";
    /// It could not begin or end an epoch of a window.
    EpochFailed = 5, "could not begin or end an epoch";
    /// It did not answer any more.
    Silent = 6, "did not answer any more";
    /// It could not take its part in a collective call.
    CollectiveFailed = 7, "could not take its part in a collective call";
    /// What another rank wrote for it to read made no sense.
    FoundGarbled = 8, "read from another what makes no sense";
    /// It was not there any more when it was first needed.
    Gone = 9, "was gone";
    /// Its RDMA device or port failed.
    DeviceFailed = 10, "could not use its RDMA device any more";
    /// Its process started another program.
    Replaced = notice::REPLACED, "started another program in its process (exec)";
}
