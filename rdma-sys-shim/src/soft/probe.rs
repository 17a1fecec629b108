//! Trying what the soft device would like to use, without opening it.

use std::ffi::{CStr, CString};
use std::io::{self, PipeReader, PipeWriter, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::ptr;

use super::memory_file;
use crate::cross_memory::{self, Stopped};
use crate::{Direction, Error, Result};

const BEFORE: u64 = 1;
const AFTER: u64 = 2;

/// Tests whether two ranks may read each other's memory. It uses two children of this process, which are related as two
/// ranks of one launcher are.
///
/// # Errors
/// The kernel refuses, or no children can be made.
pub fn cross_memory_attach() -> Result<()> {
    let (ready, tell) = io::pipe().map_err(|error| Error::os("pipe", error))?;
    let launcher = std::process::id();
    // Both children have a copy of the word at this address.
    let mut word = BEFORE;
    let word = &raw mut word;
    // SAFETY: `hold` makes system calls and writes its copy of the word, which is live.
    let holder = unsafe { Child::fork(|| hold(word, launcher, &ready, &tell)) }?;
    drop(tell);
    // Returns when the holder has written, or is gone; in the second case the reader finds no process.
    let _ = { &ready }.read(&mut [0]);
    let pid = holder.pid as u32;
    // SAFETY: `attach` makes system calls and writes its own stack.
    let reader = unsafe { Child::fork(|| attach(pid, word as u64)) }?;
    reader.succeed("process_vm_readv of one child from another")
}

/// Tests whether a rank may map memory that another rank of this user and PID namespace has allocated. It uses a child
/// of this process.
///
/// # Errors
/// The kernel refuses, or no child can be made.
pub fn mapping() -> Result<()> {
    let file = memory_file::create(c"transom-probe", size_of::<u64>())?;
    let wrote = file.write_all_at(&AFTER.to_ne_bytes(), 0);
    wrote.map_err(|error| Error::os("writing to a memory file", error))?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let shown = CString::new(path.as_str()).unwrap_or_default();
    // SAFETY: `map` makes system calls, and reads what they mapped.
    let mapper = unsafe { Child::fork(|| map(&shown)) }?;
    mapper.succeed(format!("mapping {path} in another process"))
}

/// Maps a file and reads its word. Returns 0, or an errno.
fn map(path: &CStr) -> i32 {
    let failed = || {
        io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO)
    };
    // SAFETY: the path is a C string.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    if fd == -1 {
        return failed();
    }
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let base = unsafe {
        libc::mmap(
            ptr::null_mut(),
            size_of::<u64>(),
            rights,
            libc::MAP_SHARED,
            fd,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return failed();
    }
    // SAFETY: a whole page is mapped, for as long as this process lives.
    match unsafe { base.cast::<u64>().read_volatile() } {
        AFTER => 0,
        _ => libc::EIO,
    }
}

/// Writes the word, reports that, and lives until it is killed.
fn hold(word: *mut u64, launcher: u32, ready: &PipeReader, tell: &PipeWriter) -> i32 {
    // SAFETY: the word is this process's copy of a local variable of its parent.
    unsafe { word.write_volatile(AFTER) };
    // SAFETY: the calls take integers and one readable byte, and are async-signal-safe.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // Without Yama the call fails, and no permission is needed.
        libc::prctl(libc::PR_SET_PTRACER, launcher as libc::c_ulong, 0, 0, 0);
        libc::close(ready.as_raw_fd());
        libc::write(tell.as_raw_fd(), [0_u8].as_ptr().cast(), 1);
        loop {
            libc::pause();
        }
    }
}

/// Reads the word in the holder. Returns 0, or an errno.
fn attach(holder: u32, word: u64) -> i32 {
    let mut seen = BEFORE;
    let (local, len) = ((&raw mut seen).cast(), size_of::<u64>());
    // SAFETY: `seen` is writable and this function's own.
    match unsafe { cross_memory::transfer(holder, Direction::Read, local, word, len) } {
        Ok(()) if seen == AFTER => 0,
        Ok(()) => libc::EIO,
        Err(Stopped::Gone) => libc::ESRCH,
        Err(Stopped::Fault) => libc::EFAULT,
        Err(Stopped::Forbidden(error) | Stopped::Failed(error)) => {
            error.raw_os_error().unwrap_or(libc::EIO)
        }
    }
}

/// A child process; Drop kills it and waits for it.
struct Child {
    pid: libc::pid_t,
}

impl Child {
    /// Forks a child that runs `body` and exits with what it returns.
    ///
    /// # Safety
    /// `body` calls only async-signal-safe functions: this process may have other threads.
    unsafe fn fork(body: impl FnOnce() -> i32) -> Result<Self> {
        // SAFETY: the child runs `body`, by the caller's promise, and `_exit`.
        match unsafe { libc::fork() } {
            -1 => Err(Error::last_os("fork")),
            // SAFETY: `_exit` ends the child, and runs no code of its parent, such as destructors.
            0 => unsafe { libc::_exit(body()) },
            pid => Ok(Self { pid }),
        }
    }

    /// Turns an exit code other than 0, which is an errno, into an error of `call`.
    fn succeed(self, call: impl Into<String>) -> Result<()> {
        match self.wait() {
            0 => Ok(()),
            errno => Err(Error::os(call, io::Error::from_raw_os_error(errno))),
        }
    }

    /// The exit code; EIO if a signal ended the child.
    fn wait(self) -> i32 {
        let status = reap(self.pid);
        std::mem::forget(self);
        match libc::WIFEXITED(status) {
            true => libc::WEXITSTATUS(status),
            false => libc::EIO,
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: the child has not been waited for, so the number is still its own.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        reap(self.pid);
    }
}

fn reap(pid: libc::pid_t) -> libc::c_int {
    let mut status = -1;
    loop {
        // SAFETY: `status` is writable for the duration of the call.
        let done = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        if done == pid || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return status;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_agrees_with_a_transfer_and_leaves_no_child() {
        let word = 7_u64;
        let mut seen = 0_u64;
        let at = &raw const word as u64;
        // SAFETY: both words are live, and nobody else uses `seen`.
        let own = unsafe {
            let seen = (&raw mut seen).cast();
            cross_memory::transfer(std::process::id(), Direction::Read, seen, at, 8)
        };
        let yama = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
        let scope: u32 = yama.map_or(0, |text| text.trim().parse().unwrap());
        let probed = cross_memory_attach();
        // One's own memory can be read unless a filter forbids the call to everybody.
        if scope < 2 {
            assert_eq!(probed.is_ok(), own.is_ok(), "{probed:?} {own:?}");
        }
        if let Err(error) = probed {
            let error = error.to_string();
            assert!(
                error.starts_with("process_vm_readv of one child"),
                "{error}"
            );
        }
    }

    #[test]
    fn what_this_process_allocates_another_maps() {
        mapping().unwrap();
        assert_eq!(map(c"/proc/self/no/such"), libc::ENOENT);
    }

    #[test]
    fn a_reader_without_a_holder_says_so() {
        // SAFETY: the child only exits.
        let child = unsafe { Child::fork(|| 0) }.unwrap();
        let pid = child.pid as u32;
        assert_eq!(child.wait(), 0);
        assert_eq!(attach(pid, 4096), libc::ESRCH);
    }

    #[test]
    fn a_child_that_a_signal_ends_is_no_success() {
        // SAFETY: raising a signal is async-signal-safe.
        let child = unsafe { Child::fork(|| libc::raise(libc::SIGKILL)) }.unwrap();
        assert_eq!(child.wait(), libc::EIO);
    }
}
