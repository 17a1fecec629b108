//! What can be wrong with PMIx.

use std::fmt;
use std::time::Duration;

use crate::bootstrap::Ranks;
use crate::environment::{EnvironmentError, describe};

/// A launcher offers PMIx, but it is unusable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PmixError {
    /// A variable that says how to start is malformed.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// The library does not exist, or is not PMIx.
    #[error(
        "the launcher offers PMIx (found: {found}), but its library cannot be used, looked for as \
         {names} where the system's loader looks: {reason}; install it (Debian: libpmix2), name its \
         folder in LD_LIBRARY_PATH, or start the job with `transom run`, `mpiexec.hydra` or `srun \
         --mpi=pmi2`"
    )]
    NoLibrary {
        /// The variables that were read, with their values.
        found: String,
        /// The names of the library that were tried.
        names: &'static str,
        /// The loader's message.
        reason: String,
    },
    /// The library's structs may differ from those that this crate passes to it.
    #[error(
        "the library of PMIx says that it is {version:?}, which is not known to work (known: 3 to 6); \
         put another one before it in LD_LIBRARY_PATH, or start the job with `transom run`, \
         `mpiexec.hydra` or `srun --mpi=pmi2`"
    )]
    Version {
        /// The library's version, as it reports it.
        version: String,
    },
    /// The launcher's server does not accept this process.
    #[error(
        "the launcher offers PMIx (found: {found}), but PMIx_Init said {status}; its server is gone, or \
         this is a child process of a rank, which inherits the variables but is not expected; set TRANSOM_SIZE=1 for a job of one rank"
    )]
    NotTaken {
        /// The variables that were read, with their values.
        found: String,
        /// What the server returned.
        status: Status,
    },
    /// A call failed.
    #[error("{call} said {status}: the launcher's server of PMIx refused it, or is gone")]
    Refused {
        /// The call.
        call: &'static str,
        /// The status that it returned.
        status: Status,
    },
    /// The server's answer is impossible.
    #[error("the launcher's server of PMIx answered {call} with {answer}")]
    Malformed {
        /// The call.
        call: &'static str,
        /// Why its answer is impossible.
        answer: String,
    },
    /// A collective call ended although some ranks had not entered it.
    #[error(
        "PMIx_Fence said {status}, but nothing came of {}: it ended, or failed, before it joined the \
         job", Ranks(.ranks)
    )]
    Missing {
        /// The ranks that did not enter it.
        ranks: Vec<u32>,
        /// What the call returned, possibly success.
        status: Status,
    },
    /// A call did not end in time.
    #[error(
        "{call} has not ended for {timeout:?}{}; where ranks start so far apart, raise \
         TRANSOM_START_TIMEOUT (seconds; 0: wait for ever)", also(.awaited)
    )]
    NoReply {
        /// The call that did not end.
        call: &'static str,
        /// How long this rank waited.
        timeout: Duration,
        /// The ranks that are known to have published nothing. There may be more.
        awaited: Vec<u32>,
    },
    /// A rank's block of an allgather is empty, or too long.
    #[error("{len} bytes of rank {rank} do not fit (legal: 1 to {max})")]
    Length {
        /// The rank.
        rank: u32,
        /// The length of its block.
        len: usize,
        /// The longest legal block.
        max: usize,
    },
    /// No thread could be started for a call.
    #[error("making a thread for {call}: {source} (raise `ulimit -u`)")]
    Thread {
        /// The call.
        call: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
}

impl PmixError {
    /// Adds the ranks that have published nothing to the error of a call that did not end.
    pub(super) fn awaiting(mut self, who: impl FnOnce() -> Vec<u32>) -> Self {
        if let Self::NoReply { awaited, .. } = &mut self {
            *awaited = who();
        }
        self
    }
}

/// What a call of PMIx returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The number: 0 is success.
    pub code: i32,
    /// The library's name for it.
    pub text: String,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text, self.code)
    }
}

/// The variables by which a launcher offers PMIx, for an error.
pub(super) fn found() -> String {
    let names = ["PMIX_RANK", "PMIX_NAMESPACE", "PMIX_VERSION", "PMI_FD"];
    describe(&names, |name| std::env::var_os(name))
}

fn also(ranks: &[u32]) -> String {
    match ranks {
        [] => String::new(),
        ranks => format!(
            ", and nothing has come of {}, late or gone before it joined the job",
            Ranks(ranks)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partial() -> Status {
        Status {
            code: -52,
            text: "PARTIAL SUCCESS".to_owned(),
        }
    }

    #[test]
    fn missing_ranks_are_named() {
        let missing = |ranks: &[u32]| {
            let ranks = ranks.to_vec();
            let status = partial();
            PmixError::Missing { ranks, status }.to_string()
        };
        assert!(missing(&[3]).starts_with(
            "PMIx_Fence said PARTIAL SUCCESS (-52), but nothing came of rank 3: it ended"
        ));
        assert!(missing(&[1, 4]).contains(" of ranks 1, 4: "));
        let many: Vec<u32> = (0..1000).collect();
        assert!(missing(&many).contains(" of ranks 0-999: "));
    }

    #[test]
    fn who_is_awaited_is_named_where_that_is_known() {
        let silent = |awaited: &[u32]| {
            let error = PmixError::NoReply {
                call: "PMIx_Fence",
                timeout: Duration::from_secs(2),
                awaited: awaited.to_vec(),
            };
            error.to_string()
        };
        assert!(silent(&[]).starts_with("PMIx_Fence has not ended for 2s; where"));
        assert!(
            silent(&[7])
                .contains("for 2s, and nothing has come of rank 7, late or gone before it joined")
        );
        assert!(silent(&[7]).contains("TRANSOM_START_TIMEOUT"));
    }
}
