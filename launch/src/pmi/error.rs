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
        /// What was being done.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The environment speaks of a launcher that cannot be talked to.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// The launcher hung up.
    #[error("the launcher closed the connection during {request}: it died or is ending the job")]
    Closed {
        /// The request that was under way.
        request: &'static str,
    },
    /// The launcher does not answer. It may wait itself, for a rank that is gone.
    #[error(
        "the launcher has not answered {request} for {timeout:?}: it is stuck, or a rank ended \
         before it joined the job and the launcher did not end the others (`srun \
         --kill-on-bad-exit=1` does); where ranks start so far apart, raise \
         TRANSOM_START_TIMEOUT (seconds; 0: wait for ever)"
    )]
    NoReply {
        /// The request that was under way.
        request: &'static str,
        /// How long it was waited for.
        timeout: Duration,
    },
    /// Hydra waits for a rank that will not come.
    #[error(
        "{request}: a rank on this node ended before it joined the job, with exit code 0, which the \
         launcher takes for success"
    )]
    Missing {
        /// The request that was under way.
        request: &'static str,
    },
    /// The launcher understood a request and said no.
    #[error("the launcher refused {request}: {reason}")]
    Refused {
        /// The request.
        request: &'static str,
        /// The launcher's words.
        reason: String,
    },
    /// The launcher's reply is not the one that PMI-1.1 asks for.
    #[error("the launcher answered {request} with {reply:?}, which is not PMI-1.1")]
    Malformed {
        /// The request.
        request: &'static str,
        /// The reply, as received.
        reply: String,
    },
    /// Nobody has put this key, or no barrier has followed.
    #[error("the key-value space has no {key:?} ({reason}); it is put before the last barrier")]
    NoKey {
        /// The key.
        key: String,
        /// The launcher's words.
        reason: String,
    },
    /// What a rank published is not what this version publishes.
    #[error("rank {rank} published something else than this version of transom does")]
    BadBootstrapRecord {
        /// The rank.
        rank: u32,
    },
}
