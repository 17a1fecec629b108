//! The signals that a user sends to the launcher for the job.

use std::fs::File;
use std::io::{self, Read as _};
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};

use crate::sys::check;

const WATCHED: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGTSTP];

/// Blocks these signals in this thread until it is dropped, and queues them in a descriptor.
pub(super) struct Signals {
    queue: File,
    before: libc::sigset_t,
}

impl Signals {
    pub(super) fn take() -> io::Result<Self> {
        if is_ignored(libc::SIGCHLD) {
            // Otherwise the kernel would reap the ranks, and their exit statuses would be lost.
            // SAFETY: the default action is a valid one.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        }
        let set = set_of(
            WATCHED
                .iter()
                .copied()
                .filter(|&signal| !is_ignored(signal)),
        );
        let before = change_mask(libc::SIG_BLOCK, &set)?;
        // SAFETY: the pointer is to a live, initialised set.
        let queue = check(unsafe {
            libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        });
        match queue {
            Ok(fd) => Ok(Self {
                // SAFETY: the kernel has just made this descriptor, and nothing else owns it.
                queue: unsafe { File::from_raw_fd(fd) },
                before,
            }),
            Err(error) => {
                let _ = change_mask(libc::SIG_SETMASK, &before);
                Err(error)
            }
        }
    }

    /// The original mask, which the ranks get back.
    pub(super) fn mask_before(&self) -> libc::sigset_t {
        self.before
    }

    /// The next signal in the queue.
    pub(super) fn next(&self) -> io::Result<Option<i32>> {
        let mut bytes = [0_u8; size_of::<libc::signalfd_siginfo>()];
        match (&self.queue).read(&mut bytes) {
            Ok(_) => {
                // `ssi_signo` comes first.
                let number = u32::from_ne_bytes(bytes[..4].try_into().expect("four bytes"));
                Ok(Some(number.cast_signed()))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Stops this process as the terminal's stop key would, until it is continued.
    pub(super) fn stop_here(&self) -> io::Result<()> {
        let stop = set_of([libc::SIGTSTP]);
        // SAFETY: raise takes an integer; the signal is pending until the mask lets it through.
        check(unsafe { libc::raise(libc::SIGTSTP) })?;
        change_mask(libc::SIG_UNBLOCK, &stop)?;
        change_mask(libc::SIG_BLOCK, &stop)?;
        Ok(())
    }
}

impl AsRawFd for Signals {
    fn as_raw_fd(&self) -> RawFd {
        self.queue.as_raw_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // This cannot fail: the mask was valid before.
        let _ = change_mask(libc::SIG_SETMASK, &self.before);
    }
}

/// Blocks every signal that can be blocked. Returns the previous mask.
pub(super) fn block_all() -> io::Result<libc::sigset_t> {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigfillset initialises the set that it is given.
    let set = unsafe {
        libc::sigfillset(set.as_mut_ptr());
        set.assume_init()
    };
    change_mask(libc::SIG_BLOCK, &set)
}

/// Restores this thread's previous signal mask. Async-signal-safe.
pub(super) fn restore(mask: &libc::sigset_t) -> io::Result<()> {
    change_mask(libc::SIG_SETMASK, mask).map(drop)
}

fn change_mask(how: i32, set: &libc::sigset_t) -> io::Result<libc::sigset_t> {
    let mut before = MaybeUninit::uninit();
    // SAFETY: both pointers are to live sets.
    match unsafe { libc::pthread_sigmask(how, set, before.as_mut_ptr()) } {
        // SAFETY: pthread_sigmask has succeeded, so it has written the old mask.
        0 => Ok(unsafe { before.assume_init() }),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

fn set_of(signals: impl IntoIterator<Item = i32>) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set, and sigaddset is given valid signal numbers.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// A signal that the caller has ignored (`nohup`, a shell's background job) stays ignored.
fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action, sigaction only writes the old one, for which there is room;
    // all-zero is a valid value.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// The usual name of a signal.
pub(super) fn name(signal: i32) -> &'static str {
    match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        _ => "another signal",
    }
}
