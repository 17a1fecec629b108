//! What can be wrong with a launcher's key-value service.

use std::io;
use std::time::Duration;

use crate::environment::EnvironmentError;

/// A launcher's environment or key-value service is unusable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PmiError {
    /// The socket to the launcher failed.
    #[error("{what}: {source}")]
    Io {
        /// What the client was doing.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The environment names a launcher that cannot be reached.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// The launcher hung up.
    #[error("the launcher closed the connection during {request}: it died or is ending the job")]
    Closed {
        /// The request that had no reply.
        request: &'static str,
    },
    /// The launcher does not answer. It may be waiting for a rank that has ended.
    #[error(
        "the launcher has not answered {request} for {timeout:?}: it is stuck, or a rank ended \
         before it joined the job and the launcher did not end the others (`srun \
         --kill-on-bad-exit=1` does); where ranks start so far apart, raise \
         TRANSOM_START_TIMEOUT (seconds; 0: wait for ever)"
    )]
    NoReply {
        /// The request that had no reply.
        request: &'static str,
        /// How long the client waited.
        timeout: Duration,
    },
    /// Hydra waits for a rank that has already ended.
    #[error("{request}: a rank on this node ended before it joined the job")]
    Missing {
        /// The request that had no reply.
        request: &'static str,
    },
    /// The launcher understood a request and refused it.
    #[error("the launcher refused {request}: {reason}")]
    Refused {
        /// The request.
        request: &'static str,
        /// The launcher's reason.
        reason: String,
    },
    /// The launcher's reply does not conform to PMI-1.1.
    #[error("the launcher answered {request} with {reply:?}, which is not PMI-1.1")]
    Malformed {
        /// The request.
        request: &'static str,
        /// The reply, as received.
        reply: String,
    },
    /// No rank has put this key, or no barrier has followed.
    #[error("the key-value space has no {key:?} ({reason}); it is put before the last barrier")]
    NoKey {
        /// The key.
        key: String,
        /// The launcher's reason.
        reason: String,
    },
    /// What a rank published is not what this version publishes.
    #[error("rank {rank} published something else than this version of transom does")]
    BadBootstrapRecord {
        /// The rank.
        rank: u32,
    },
}
