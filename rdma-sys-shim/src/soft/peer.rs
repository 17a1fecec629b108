//! The process behind a segment: whether it runs, and how its memory and files are reached.
//!
//! A PID may be reused for another process after the first one has ended, and it stays the same if a process starts
//! another program (exec).
//!
//! So a process holds a record lock on the memory file of its segment, from before it publishes its address. The kernel
//! drops the lock when the process ends or starts another program, and not before: it stays while any thread runs, and
//! a forked child does not have it. It also drops it when the process closes any descriptor of the file, so a process
//! never opens its own segment. Peers open the file for each check, so that none of their descriptors is taken
//! permanently.
//!
//! What is found by PID is checked each time:
//! - Memory: the origin reads the peer's nonce before a transfer by the kernel. The check is valid for one tick of the
//!   coarse clock (some milliseconds), because the kernel does not reuse a PID within a tick. If the tick is over when
//!   the transfer ends, the origin reads the nonce again before the transfer counts. If the peer's first thread has
//!   ended, the ID of another thread is used.
//! - Files: a descriptor below `/proc/PID/fd` counts only with the device and inode that were published.
//!
//! Two risks remain. If the peer starts another program, the origin may write to that program's memory until the tick
//! is over. If the origin is preempted between check and call, it may write to a process that got the PID meanwhile;
//! then it gets an error. `/proc/PID/mem` is bound to the process, but ignores page protection.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::DEVICE;
use super::memory_file::{self, FileId};
use super::process::{self, ProcessId};
use super::slots::Unanswered;
use crate::cross_memory::{self, Stopped};
use crate::device::cancellation::Cancellation;
use crate::primitive::milliseconds;
use crate::{Direction, Error, RemoteAddress, Result};

/// The byte of the segment that carries the lock.
fn lock(kind: libc::c_int) -> libc::flock {
    // SAFETY: all fields are integers, for which zero is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_len = 1;
    lock
}

/// Takes the lock on this process's segment.
pub(crate) fn hold(segment: &File) -> Result<()> {
    let lock = lock(libc::F_WRLCK);
    // SAFETY: the descriptor is open, and the structure is live and only read.
    match unsafe { libc::fcntl(segment.as_raw_fd(), libc::F_SETLK, &raw const lock) } {
        0 => Ok(()),
        _ => Err(Error::last_os("fcntl(F_SETLK) on a memory file")),
    }
}

/// Whether another process holds the lock on this segment. If the system does not say, returns true.
fn is_held(segment: &File) -> bool {
    let mut lock = lock(libc::F_WRLCK);
    // SAFETY: the descriptor is open, and the structure is live.
    let asked = unsafe { libc::fcntl(segment.as_raw_fd(), libc::F_GETLK, &raw mut lock) };
    asked != 0 || lock.l_type != libc::F_UNLCK as libc::c_short
}

/// A word in the memory of a process that identifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nonce {
    pub(crate) value: u64,
    pub(crate) address: u64,
}

pub(crate) struct PeerProcess {
    id: ProcessId,
    /// This process.
    own: ProcessId,
    nonce: Nonce,
    /// The peer's descriptor of its segment, and the identity of that file. `None`: the peer is this process.
    segment: Option<(RawFd, FileId)>,
    /// The thread or process number that last led to the peer's memory. The upper half is the tick of [`milliseconds`]
    /// at that time; 0: never.
    known: AtomicU64,
    cancellation: Cancellation,
}

impl PeerProcess {
    /// `own` is this process, `segment` the peer's. Without `segment`, the peer is this process.
    pub(crate) fn new(
        id: ProcessId,
        own: ProcessId,
        nonce: Nonce,
        segment: Option<(RawFd, FileId)>,
    ) -> Self {
        Self {
            id,
            own,
            nonce,
            segment,
            known: AtomicU64::new(0),
            cancellation: Cancellation::default(),
        }
    }

    /// The same process; waits for its threads end when `cancellation` says so.
    pub(crate) fn until(self, cancellation: &Cancellation) -> Self {
        Self {
            cancellation: cancellation.clone(),
            ..self
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.id.pid
    }

    /// The numbers of this process and of the peer.
    pub(crate) fn pids(&self) -> [u32; 2] {
        [self.own.pid, self.id.pid]
    }

    /// This process.
    pub(crate) fn own(&self) -> ProcessId {
        self.own
    }

    /// False once the process has begun to end, or has started another program.
    pub(crate) fn runs(&self) -> bool {
        let Some((fd, id)) = self.segment else {
            return true;
        };
        // A process that ends keeps the lock while its memory is freed.
        self.id.exists()
            && match memory_file::open_peer_file(self.id.pid, fd, id) {
                Ok(segment) => is_held(&segment),
                // If no descriptor is free, or the file is not accessible now, the state is unknown.
                Err(error) => error.kind() != io::ErrorKind::NotFound,
            }
    }

    pub(crate) fn liveness(&self) -> Result<()> {
        match self.runs() {
            true => Ok(()),
            false => Err(self.gone()),
        }
    }

    /// For a wait for an action of a thread of the process: fails if the process does not run, or the job was aborted.
    /// A long wait is logged, at growing intervals.
    pub(crate) fn awaited(&self) -> impl FnMut() -> std::result::Result<(), Unanswered> {
        const FIRST: Duration = Duration::from_secs(10);
        let (mut begun, mut next) = (None, FIRST);
        move || {
            if begun.get_or_insert_with(Instant::now).elapsed() >= next {
                let (seconds, pid) = (next.as_secs(), self.id.pid);
                tracing::warn!("has waited {seconds} s for an answer of process {pid}");
                next *= 2;
            }
            match self.runs() {
                false => Err(Unanswered::Gone),
                true if self.cancellation.is_due() => Err(Unanswered::Cancelled),
                true => Ok(()),
            }
        }
    }

    /// The error of a request that got no answer.
    pub(crate) fn unanswered(&self, why: &Unanswered) -> Error {
        match why {
            Unanswered::Garbled => Error::Unreachable {
                device: DEVICE,
                pid: self.id.pid,
                reason: "a request to it was overwritten in shared memory".to_owned(),
            },
            Unanswered::Gone | Unanswered::NoAgent => self.gone(),
            Unanswered::Cancelled => Error::Cancelled { pid: self.id.pid },
        }
    }

    /// The error of an operation on a process that does not run.
    pub(crate) fn gone(&self) -> Error {
        let pid = self.id.pid;
        match self.id.exists() {
            true => Error::PeerReplaced { pid },
            false => Error::PeerGone { pid },
        }
    }

    /// The error of a refused access to memory of the process.
    pub(crate) fn refusal(
        &self,
        need: &'static str,
        at: RemoteAddress,
        len: u64,
        reason: &'static str,
    ) -> Error {
        Error::RemoteAccess {
            need,
            address: at.address,
            len,
            pid: self.id.pid,
            host: None,
            rkey: at.rkey,
            reason,
        }
    }

    /// Opens a memory file of the process: its descriptor `fd`, if that refers to `file`.
    pub(crate) fn open(&self, fd: RawFd, file: FileId) -> Result<File> {
        let pid = self.id.pid;
        memory_file::open_peer_file(pid, fd, file).map_err(|error| match self.runs() {
            true => Error::os(format!("opening /proc/{pid}/fd/{fd}"), error),
            false => self.gone(),
        })
    }

    /// Tests whether the kernel lets this process access the peer's memory.
    pub(crate) fn try_reach(&self) -> std::result::Result<(), Stopped> {
        self.find(milliseconds()).map(|_| ())
    }

    /// Calls `transfer` with a number by which the kernel finds the memory of the process. The number led there within
    /// the present tick of [`milliseconds`], and the kernel does not reuse a number within a tick. If the tick is over
    /// at the end, the number is tested again before the transfer counts as done. If that thread has ended and others
    /// run, `transfer` is repeated.
    pub(crate) fn reach(
        &self,
        mut transfer: impl FnMut(u32) -> std::result::Result<(), Stopped>,
    ) -> std::result::Result<(), Stopped> {
        let known = self.known.load(Ordering::Relaxed);
        let (mut number, when) = (known as u32, (known >> u32::BITS) as u32);
        let mut now = milliseconds();
        if when != now {
            number = self.find(now)?;
        }
        let mut done = transfer(number);
        if let Err(Stopped::Gone) = done {
            now = milliseconds();
            number = self.find(now)?;
            done = transfer(number);
        }
        // After a fault, the process may have started another program.
        let is_doubtful = matches!(done, Err(Stopped::Fault)) || milliseconds() != now;
        match is_doubtful.then(|| self.leads_there(number)) {
            None | Some(Ok(())) => done,
            Some(Err(Stopped::Gone)) => {
                let next = self.find(milliseconds())?;
                match number == self.id.pid {
                    // Only the first thread has ended. While others run, no other process gets its number.
                    true => done,
                    false => transfer(next),
                }
            }
            Some(Err(stopped)) => Err(stopped),
        }
    }

    /// The number of the process, or of another running thread if the first one has ended: then the kernel finds no
    /// memory by the number of the first.
    #[cold]
    fn find(&self, now: u32) -> std::result::Result<u32, Stopped> {
        let before = self.known.load(Ordering::Relaxed) as u32;
        let number = match self.leads_there(self.id.pid) {
            Ok(()) => self.id.pid,
            Err(Stopped::Gone) if before != 0 && self.leads_there(before).is_ok() => before,
            Err(Stopped::Gone) => process::threads(self.id.pid)
                .map_err(Stopped::Failed)?
                .into_iter()
                .find(|&thread| self.leads_there(thread).is_ok())
                .ok_or(Stopped::Gone)?,
            Err(stopped) => return Err(stopped),
        };
        let known = u64::from(now) << u32::BITS | u64::from(number);
        self.known.store(known, Ordering::Relaxed);
        Ok(number)
    }

    /// Fails if a number does not lead to the memory of the process, which holds the nonce at its address.
    fn leads_there(&self, number: u32) -> std::result::Result<(), Stopped> {
        let mut seen = 0u64;
        // SAFETY: `seen` is a local of eight bytes.
        unsafe {
            let (here, there) = ((&raw mut seen).cast(), self.nonce.address);
            match cross_memory::transfer(number, Direction::Read, here, there, size_of::<u64>()) {
                Ok(()) if seen == self.nonce.value => Ok(()),
                // The memory of another process with this number, or of another program.
                Ok(()) | Err(Stopped::Fault) => Err(Stopped::Gone),
                stopped => stopped,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
