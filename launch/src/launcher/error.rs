//! Why a job could not be started or seen through.

use std::io;

use super::MAX_RANKS;

/// The launcher itself failed. No rank is left running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// A number of ranks that cannot be.
    #[error("{ranks} ranks cannot be started (legal: 1 to {MAX_RANKS})")]
    Ranks {
        /// The number asked for.
        ranks: u32,
    },
    /// The machine's limits do not allow so many ranks.
    #[error("{ranks} ranks need {need} {what}, but the limit is {limit}; {remedy}")]
    Limit {
        /// The number asked for.
        ranks: u32,
        /// What they need.
        what: &'static str,
        /// How many of it.
        need: u64,
        /// How many there may be.
        limit: u64,
        /// What raises the limit.
        remedy: &'static str,
    },
    /// There are too few cores to bind each rank to one.
    #[error(
        "cannot bind {ranks} ranks to a core each: this process may run on {cores} of the machine's \
         cores; start fewer ranks, or do not bind them"
    )]
    Cores {
        /// The number asked for.
        ranks: u32,
        /// How many cores there are.
        cores: usize,
    },
    /// The program cannot be run.
    #[error("cannot run {program:?}: {reason}")]
    Program {
        /// The program, as given.
        program: String,
        /// What is wrong with it.
        reason: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A process could not be made.
    #[error("cannot start rank {rank}: {source}")]
    Spawn {
        /// The rank.
        rank: u32,
        /// The system's answer.
        source: io::Error,
    },
    /// Standard output or standard error does not take what the ranks write.
    #[error("cannot write to {stream}: {source}; the job was ended")]
    Output {
        /// Which of the two.
        stream: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A call to the operating system is forbidden, or this kernel has no such call.
    #[error(
        "{what}: {call} failed: {source}; a filter of system calls forbids it, or the kernel is older \
         than Linux 5.3: have the filter allow {call} (of a container, by a profile that \
         `--security-opt seccomp=` names)"
    )]
    Forbidden {
        /// What was tried.
        what: &'static str,
        /// The call.
        call: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A call to the operating system failed.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

impl LaunchError {
    /// The exit code that the shell would give: 127 for a program that is not there, 126 for one
    /// that cannot be run, 2 for a request that cannot be met, else 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Program { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::Program { .. } => 126,
            Self::Ranks { .. } | Self::Limit { .. } | Self::Cores { .. } => 2,
            _ => 1,
        }
    }

    /// The same, by one call, which is named where it is not allowed.
    pub(super) fn call(what: &'static str, call: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| match Self::is_forbidden(&source) {
            true => Self::Forbidden { what, call, source },
            false => Self::System { what, source },
        }
    }

    pub(super) fn is_forbidden(source: &io::Error) -> bool {
        let code = source.raw_os_error();
        [libc::EPERM, libc::EACCES, libc::ENOSYS]
            .map(Some)
            .contains(&code)
    }

    pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
