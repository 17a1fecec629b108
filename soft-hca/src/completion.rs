//! Completion queues, and the channels that tell of completions.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::abi::ibv_wc;

/// What a program waits for at a descriptor: a byte in a pipe for each.
pub(crate) struct EventQueue<T> {
    waiting: Mutex<VecDeque<T>>,
    reader: OwnedFd,
    writer: OwnedFd,
}

impl<T> EventQueue<T> {
    pub(crate) fn new() -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: two new descriptors, which nobody else closes.
        let [reader, writer] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        // A full pipe has enough to read.
        // SAFETY: an open descriptor.
        unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        Ok(Self {
            waiting: Mutex::default(),
            reader,
            writer,
        })
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    pub(crate) fn report(&self, what: T) {
        lock(&self.waiting).push_back(what);
        // SAFETY: one readable byte.
        unsafe { libc::write(self.writer.as_raw_fd(), [0_u8].as_ptr().cast(), 1) };
    }

    /// Waits for one, unless the program has made the descriptor non-blocking: then there is an error.
    pub(crate) fn take(&self) -> io::Result<T> {
        loop {
            let mut byte = [0_u8];
            // SAFETY: room for one byte.
            match unsafe { libc::read(self.descriptor(), byte.as_mut_ptr().cast(), 1) } {
                1 => {}
                _ => return Err(io::Error::last_os_error()),
            }
            // It may have been withdrawn.
            if let Some(found) = lock(&self.waiting).pop_front() {
                return Ok(found);
            }
        }
    }

    /// Withdraws events of what no longer exists.
    pub(crate) fn keep(&self, wanted: impl FnMut(&T) -> bool) {
        lock(&self.waiting).retain(wanted);
    }
}

/// The address of an object of the program, which is only passed back to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle(pub(crate) usize);

pub(crate) type Channel = EventQueue<Handle>;

/// What a completion frees: the places of a send queue up to this one.
pub(crate) struct Release {
    pub(crate) released: Arc<AtomicU32>,
    pub(crate) up_to: u32,
}

struct Entry {
    completion: ibv_wc,
    release: Option<Release>,
    modelled: u64,
}

pub(crate) struct CompletionQueue {
    capacity: usize,
    entries: Mutex<VecDeque<Entry>>,
    count: AtomicU32,
    channel: Option<Arc<Channel>>,
    /// What tells of the next completion: nothing, a solicited one, or any.
    armed: AtomicU32,
    handle: AtomicHandle,
}

type AtomicHandle = std::sync::atomic::AtomicUsize;

const ANY: u32 = 2;
const SOLICITED: u32 = 1;

impl CompletionQueue {
    pub(crate) fn new(capacity: usize, channel: Option<Arc<Channel>>) -> Self {
        Self {
            capacity,
            entries: Mutex::default(),
            count: AtomicU32::new(0),
            channel,
            armed: AtomicU32::new(0),
            handle: AtomicHandle::new(0),
        }
    }

    pub(crate) fn set_handle(&self, handle: usize) {
        self.handle.store(handle, Ordering::Release);
    }

    pub(crate) fn handle(&self) -> usize {
        self.handle.load(Ordering::Acquire)
    }

    /// Adds a completion, which is there at the time `modelled`. False if there is no room, and it is lost.
    pub(crate) fn add(
        &self,
        completion: ibv_wc,
        release: Option<Release>,
        solicited: bool,
        modelled: u64,
    ) -> bool {
        let mut entries = lock(&self.entries);
        if entries.len() == self.capacity {
            return false;
        }
        entries.push_back(Entry {
            completion,
            release,
            modelled,
        });
        self.count.store(entries.len() as u32, Ordering::Release);
        drop(entries);
        let wanted = self.armed.load(Ordering::Acquire);
        let tells = wanted == ANY || wanted == SOLICITED && (solicited || completion.status != 0);
        if tells
            && self.armed.swap(0, Ordering::AcqRel) != 0
            && let Some(channel) = &self.channel
        {
            channel.report(Handle(self.handle()));
        }
        true
    }

    /// Whether programs may sleep until a completion is there, and then poll once.
    pub(crate) fn has_channel(&self) -> bool {
        self.channel.is_some()
    }

    /// Takes completions that are there by the time `until` of the model. Returns their number, and when the latest is.
    pub(crate) fn poll(&self, into: &mut [ibv_wc], until: u64) -> (usize, u64) {
        if self.count.load(Ordering::Acquire) == 0 {
            return (0, 0);
        }
        let mut entries = lock(&self.entries);
        let (mut found, mut latest) = (0, 0);
        for place in into {
            let is_there = entries.front().is_some_and(|next| next.modelled <= until);
            let Some(entry) = is_there.then(|| entries.pop_front()).flatten() else {
                break;
            };
            if let Some(release) = entry.release {
                release.released.store(release.up_to, Ordering::Release);
            }
            *place = entry.completion;
            found += 1;
            latest = latest.max(entry.modelled);
        }
        self.count.store(entries.len() as u32, Ordering::Release);
        (found, latest)
    }

    /// Asks to be told of the next completion.
    pub(crate) fn arm(&self, solicited_only: bool) {
        let wanted = if solicited_only { SOLICITED } else { ANY };
        self.armed.fetch_max(wanted, Ordering::AcqRel);
    }

    /// Drops the completions of a queue pair that is reset or destroyed, as drivers do.
    pub(crate) fn forget(&self, pair: u32) {
        let mut entries = lock(&self.entries);
        entries.retain(|entry| entry.completion.qp_num != pair);
        self.count.store(entries.len() as u32, Ordering::Release);
    }

    /// Withdraws what was told of this queue and not yet heard.
    pub(crate) fn withdraw(&self) {
        if let Some(channel) = &self.channel {
            let own = Handle(self.handle());
            channel.keep(|handle| *handle != own);
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
