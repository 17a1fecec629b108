//! The process group of the ranks, and the small process that ends it when the launcher dies.
//!
//! The warden is forked from the launcher and leads the group. It only waits on a pipe whose other end only the
//! launcher holds. When the launcher ends in any way, the kernel closes that end, and the warden kills the whole group:
//! ranks, their children, itself. `PR_SET_PDEATHSIG` does the same for a rank that has moved to another group, but not
//! for its children. A process that makes itself a daemon on purpose (`setsid` in a grandchild) escapes both.
//!
//! As long as the warden has not been reaped, the kernel does not reuse its PID, so signals to the
//! group cannot reach another process.

use std::io::{self, PipeWriter};
use std::os::fd::{AsRawFd, RawFd};

use super::signals;
use crate::sys::check;

/// Owns the group. Dropping it kills the remaining processes.
pub(super) struct Warden {
    group: libc::pid_t,
    _lifeline: PipeWriter,
}

impl Warden {
    pub(super) fn start() -> io::Result<Self> {
        let (watched, lifeline) = io::pipe()?;
        // No signal may reach the child before it has left the launcher's group.
        let mask = signals::block_all()?;
        // SAFETY: the child runs `keep_watch` alone, which keeps to async-signal-safe calls.
        let forked = check(unsafe { libc::fork() });
        if let Ok(0) = forked {
            // SAFETY: this is the forked child, in which no other thread runs.
            unsafe { keep_watch(watched.as_raw_fd()) }
        }
        signals::restore(&mask)?;
        let group = forked?;
        let warden = Self {
            group,
            _lifeline: lifeline,
        };
        // The child makes this call too. Whichever is first, the group exists before the ranks join it.
        // SAFETY: setpgid takes two integers.
        check(unsafe { libc::setpgid(group, group) })?;
        Ok(warden)
    }

    pub(super) fn group(&self) -> libc::pid_t {
        self.group
    }

    /// Signals every process in the group. The warden blocks all signals that can be blocked.
    pub(super) fn signal(&self, signal: i32) {
        // SAFETY: kill takes two integers, and the group is ours (see above). It fails only if no process is left in
        // the group.
        unsafe { libc::kill(-self.group, signal) };
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        // SAFETY: waitpid may be given a null status; the pid is our unreaped child's.
        while unsafe { libc::waitpid(self.group, std::ptr::null_mut(), 0) } == -1
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
}

/// The whole life of the warden. All signals are blocked.
///
/// # Safety
/// To be called only in a newly forked child: it closes every descriptor of the process.
unsafe fn keep_watch(lifeline: RawFd) -> ! {
    // SAFETY: these system calls take integers, and one takes a pointer to a live byte. All of them are
    // async-signal-safe, so it does not matter which locks other threads held at the fork.
    unsafe {
        // In the wrong group, `kill(0)` would end the launcher's.
        if libc::setpgid(0, 0) != 0 {
            libc::_exit(1);
        }
        // None of the launcher's descriptors may stay open here, in particular the other end of the pipe.
        if libc::dup2(lifeline, 0) != 0 {
            libc::_exit(1);
        }
        if libc::syscall(libc::SYS_close_range, 1, u32::MAX, 0) != 0 {
            let mut limit = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
            for fd in 1..limit.rlim_cur.min(1 << 20) as RawFd {
                libc::close(fd);
            }
        }
        libc::prctl(libc::PR_SET_NAME, c"transom-warden".as_ptr());
        let mut byte = 0_u8;
        while libc::read(0, (&raw mut byte).cast(), 1) > 0 {}
        libc::kill(0, libc::SIGKILL);
        libc::_exit(1);
    }
}
