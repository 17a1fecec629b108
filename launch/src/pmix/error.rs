//! What can be wrong with PMIx.

use std::fmt;
use std::time::Duration;

use crate::bootstrap::Ranks;
use crate::environment::{EnvironmentError, describe};

/// A launcher offers PMIx, and it is unusable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PmixError {
    /// A variable that says how to start is malformed.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// The library is not there, or is no PMIx.
    #[error(
        "the launcher offers PMIx (found: {found}), but its library cannot be used, looked for as \
         {names} where the system's loader looks: {reason}; install it (Debian: libpmix2), name its \
         folder in LD_LIBRARY_PATH, or start the job with `transom run`, `mpiexec.hydra` or `srun \
         --mpi=pmi2`"
    )]
    NoLibrary {
        /// The variables that were looked at, with their values.
        found: String,
        /// What was looked for.
        names: &'static str,
        /// The loader's words.
        reason: String,
    },
    /// The library's structs may be others than those that are passed to it.
    #[error(
        "the library of PMIx says that it is {version:?}, which is not known to work (known: 3 to 6); \
         put another one before it in LD_LIBRARY_PATH, or start the job with `transom run`, \
         `mpiexec.hydra` or `srun --mpi=pmi2`"
    )]
    Version {
        /// What it says.
        version: String,
    },
    /// The launcher's server does not take this process.
    #[error(
        "the launcher offers PMIx (found: {found}), but PMIx_Init said {status}; its server is gone, or \
         this is a child process of a rank, which inherits the variables but is not expected; set TRANSOM_SIZE=1 for a job of one rank"
    )]
    NotTaken {
        /// The variables that were looked at, with their values.
        found: String,
        /// What it said.
        status: Status,
    },
    /// A call failed.
    #[error("{call} said {status}: the launcher's server of PMIx refused it, or is gone")]
    Refused {
        /// The call.
        call: &'static str,
        /// What it said.
        status: Status,
    },
    /// The server says what cannot be.
    #[error("the launcher's server of PMIx answered {call} with {answer}")]
    Malformed {
        /// The call.
        call: &'static str,
        /// What is wrong with its answer.
        answer: String,
    },
    /// A collective call ended although not all ranks had come to it.
    #[error(
        "PMIx_Fence said {status}, but nothing came of {}: it ended, or failed, before it joined the \
         job", Ranks(.ranks)
    )]
    Missing {
        /// Who did not come.
        ranks: Vec<u32>,
        /// What the call said, success maybe.
        status: Status,
    },
    /// The ranks do not come together.
    #[error(
        "{call} has not ended for {timeout:?}{}; where ranks start so far apart, raise \
         TRANSOM_START_TIMEOUT (seconds; 0: wait for ever)", also(.awaited)
    )]
    NoReply {
        /// The call that was under way.
        call: &'static str,
        /// How long it was waited for.
        timeout: Duration,
        /// Ranks of which nothing has come, as far as known. There may be more.
        awaited: Vec<u32>,
    },
    /// More than one rank's part of an allgather may be, or nothing.
    #[error("{len} bytes of rank {rank} do not fit (legal: 1 to {max})")]
    Length {
        /// Whose they are.
        rank: u32,
        /// How many they are.
        len: usize,
        /// The most.
        max: usize,
    },
    /// No thread could be made to wait in.
    #[error("making a thread for {call}: {source} (raise `ulimit -u`)")]
    Thread {
        /// The call that was to be made there.
        call: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
}

impl PmixError {
    /// Adds to the error of a call that has not ended the ranks of which nothing has come.
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
    /// The library's word for it.
    pub text: String,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text, self.code)
    }
}

/// The variables that offer PMIx, for an error.
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
