//! The machine's limits on descriptors and processes.

use std::io;

use super::{LaunchError, MAX_RANKS};
use crate::sys::check;

/// Each rank has two pipes, a socket and a pidfd.
const FDS_PER_RANK: u64 = 4;
/// The launcher's other descriptors, and those for starting one more rank.
const FDS_BESIDES: u64 = 64;

/// Raises the soft limit of open files to the hard limit, until it is dropped.
pub(super) struct OpenFiles {
    before: libc::rlimit,
}

impl OpenFiles {
    /// Raises the limit, and refuses a number of ranks that is known to be impossible.
    pub(super) fn raise(ranks: u32) -> Result<Self, LaunchError> {
        if ranks == 0 || ranks > MAX_RANKS {
            return Err(LaunchError::Ranks { ranks });
        }
        let check = |what, need, limit, remedy| match need > limit {
            true => Err(LaunchError::Limit {
                ranks,
                what,
                need,
                limit,
                remedy,
            }),
            false => Ok(()),
        };
        let before = get(libc::RLIMIT_NOFILE)?;
        check(
            "open files",
            u64::from(ranks) * FDS_PER_RANK + FDS_BESIDES,
            before.rlim_max,
            "raise the hard limit (ulimit -Hn), or start fewer",
        )?;
        // The limit of processes does not bind the superuser.
        // SAFETY: geteuid takes nothing and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            check(
                "processes",
                u64::from(ranks) + 2,
                get(libc::RLIMIT_NPROC)?.rlim_cur,
                "raise the limit (ulimit -u), or start fewer",
            )?;
        }
        let files = Self { before };
        let raised = libc::rlimit {
            rlim_cur: before.rlim_max,
            ..before
        };
        set_open_files(&raised).map_err(LaunchError::system("raising the limit of open files"))?;
        Ok(files)
    }

    /// The original limit, which the ranks get back.
    pub(super) fn original(&self) -> libc::rlimit {
        self.before
    }
}

impl Drop for OpenFiles {
    fn drop(&mut self) {
        // Lowering a soft limit is always allowed.
        let _ = set_open_files(&self.before);
    }
}

/// Async-signal-safe.
pub(super) fn set_open_files(limit: &libc::rlimit) -> io::Result<()> {
    // SAFETY: the pointer is to a live limit, which is only read.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, limit) })?;
    Ok(())
}

fn get(resource: libc::__rlimit_resource_t) -> Result<libc::rlimit, LaunchError> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a live limit, which is only written.
    check(unsafe { libc::getrlimit(resource, &raw mut limit) })
        .map_err(LaunchError::system("reading the resource limits"))?;
    Ok(limit)
}
