//! Why the launcher could not start a job or run it to its end.

use std::io;

use super::MAX_RANKS;

/// The launcher itself failed. No rank is left running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The number of ranks is not legal.
    #[error("{ranks} ranks cannot be started (legal: 1 to {MAX_RANKS})")]
    Ranks {
        /// The number of ranks that the caller asked for.
        ranks: u32,
    },
    /// The machine's limits do not allow this many ranks.
    #[error("{ranks} ranks need {need} {what}, but the limit is {limit}; {remedy}")]
    Limit {
        /// The number of ranks that the caller asked for.
        ranks: u32,
        /// What the ranks need.
        what: &'static str,
        /// How many of it they need.
        need: u64,
        /// How many of it the limit allows.
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
        /// The number of ranks that the caller asked for.
        ranks: u32,
        /// How many cores there are.
        cores: usize,
    },
    /// The program cannot be run.
    #[error("cannot run {program:?}: {reason}")]
    Program {
        /// The program, as given.
        program: String,
        /// Why it cannot be run.
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
    /// Writing the ranks' output to standard output or standard error failed.
    #[error("cannot write to {stream}: {source}; the job was ended")]
    Output {
        /// The stream.
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
        /// What the launcher tried to do.
        what: &'static str,
        /// The call.
        call: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A call to the operating system failed.
    #[error("{what}: {source}")]
    System {
        /// What the launcher tried to do.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

impl LaunchError {
    /// The exit code that a shell would give: 127 if the program does not exist, 126 if it cannot be run, 2 if the
    /// request cannot be met, otherwise 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Program { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::Program { .. } => 126,
            Self::Ranks { .. } | Self::Limit { .. } | Self::Cores { .. } => 2,
            _ => 1,
        }
    }

    /// The error of a failed system call. It names the call if the call is forbidden.
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
