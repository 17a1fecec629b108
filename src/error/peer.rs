//! A peer's fault.

use std::fmt;
use std::sync::Arc;

use transom_launch::notice;

use super::ErrorClass;

/// Another rank died, left or gave up.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// The process ended without leaving the job.
    #[error("rank {rank} died (process {pid}{})", OnHost(.host))]
    Died {
        /// Rank in the world communicator.
        rank: u32,
        /// Its PID.
        pid: u32,
        /// Its host, if that may differ from this rank's.
        host: Option<Arc<str>>,
    },
    /// The process has started another program (exec), and so left the job.
    #[error("rank {rank} has left the job: its process ({pid}) has started another program (exec)")]
    Replaced {
        /// Rank in the world communicator.
        rank: u32,
        /// Its PID.
        pid: u32,
    },
    /// The process had ended when this rank first needed it, and the launcher does not say why.
    #[error("rank {rank} is gone (process {pid}): it died, or it left the job early")]
    Gone {
        /// Rank in the world communicator.
        rank: u32,
        /// Its PID.
        pid: u32,
    },
    /// The rank does not answer: it died, or the connection to it is broken.
    #[error("rank {rank} does not answer: {reason}")]
    Silent {
        /// Rank in the world communicator.
        rank: u32,
        /// The device's reason.
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
        /// The cause.
        cause: AbortCause,
    },
    /// Data that a rank wrote for others is malformed: it was overwritten, or the rank runs another
    /// version of Transom.
    #[error(
        "{what} of rank {rank} makes no sense: it was overwritten, or another version of transom \
         runs there"
    )]
    Garbled {
        /// The rank, as far as it can be determined.
        rank: u32,
        /// The malformed data.
        what: &'static str,
    },
    /// A collective operation failed on another rank.
    #[error("rank {rank} failed: {message}")]
    Failed {
        /// Rank in the communicator of the collective.
        rank: u32,
        /// The text of that rank's own error.
        message: String,
        /// That rank's own error class.
        class: ErrorClass,
    },
    /// Others go on after a death without this rank.
    #[error("this rank was left out: {reason}")]
    Excluded {
        /// The first of them, in the communicator that called.
        rank: u32,
        /// Who they are.
        reason: String,
    },
    /// Too few ranks took part in going on after a death.
    #[error("too few ranks can go on: {reason}")]
    Missing {
        /// The first that did not answer, in the communicator that called.
        rank: u32,
        /// Who did not answer, and how long this rank waited.
        reason: String,
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
            | Self::Failed { rank, .. }
            | Self::Excluded { rank, .. }
            | Self::Missing { rank, .. } => *rank,
        }
    }

    /// The cause to report to the other ranks.
    pub(crate) fn cause(&self) -> AbortCause {
        match self {
            Self::Died { .. } => AbortCause::Died,
            Self::Replaced { .. } => AbortCause::Replaced,
            Self::Gone { .. } => AbortCause::Gone,
            Self::Left { .. } => AbortCause::Left,
            Self::Silent { .. } => AbortCause::Silent,
            Self::Aborted { cause, .. } => *cause,
            Self::Failed { .. }
            | Self::Garbled { .. }
            | Self::Excluded { .. }
            | Self::Missing { .. } => AbortCause::Aborted,
        }
    }
}

/// The causes, their codes in abort words, and their texts about a rank.
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
    /// The rank panicked.
    Panicked = 1, "panicked";
    /// The rank was found dead.
    Died = notice::DIED, "died";
    /// The rank called abort.
    Aborted = notice::ABORTED, "called abort";
    /// The rank left the job while others still needed it.
    Left = notice::LEFT, "left the job early";
    /// The rank could not begin or end an epoch of a window.
    EpochFailed = 5, "could not begin or end an epoch";
    /// The rank no longer answered.
    Silent = 6, "did not answer any more";
    /// The rank could not take its part in a collective call.
    CollectiveFailed = 7, "could not take its part in a collective call";
    /// The rank read malformed data from another rank.
    FoundGarbled = 8, "read from another what makes no sense";
    /// The rank had already ended when it was first needed.
    Gone = 9, "was gone";
    /// The rank's RDMA device or port failed.
    DeviceFailed = 10, "could not use its RDMA device any more";
    /// The rank's process started another program.
    Replaced = notice::REPLACED, "started another program in its process (exec)";
}
