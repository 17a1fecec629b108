//! What this process has sent to others in collective calls, post and complete. Counted only where somebody wants to know.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The flags and messages that a process has sent to other ranks, apart from the data of windows: in collective calls
/// of communicators and windows, in post and in complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Through memory of the other rank that this one maps.
    pub mapped: Sent,
    /// Through the device.
    pub device: Sent,
}

/// The traffic by one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sent {
    /// Words that were stored: this rank has entered a barrier, has posted, or has completed.
    pub flags: u64,
    /// Messages of collectives.
    pub messages: u64,
    /// Bytes of these messages, including their headers.
    pub bytes: u64,
}

impl Sent {
    /// Counts flags.
    pub(crate) fn add_flags(&mut self, count: u64) {
        self.flags += count;
    }

    /// Counts a message.
    pub(crate) fn add_message(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }
}

/// The counters of the traffic by one path.
struct SentCounts {
    flags: AtomicU64,
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl SentCounts {
    const fn new() -> Self {
        Self {
            flags: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    fn read(&self) -> Sent {
        let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
        Sent {
            flags: read(&self.flags),
            messages: read(&self.messages),
            bytes: read(&self.bytes),
        }
    }
}

static IS_COUNTED: AtomicBool = AtomicBool::new(false);
static MAPPED: SentCounts = SentCounts::new();
static DEVICE: SentCounts = SentCounts::new();

fn counts_of(is_mapped: bool) -> &'static SentCounts {
    if is_mapped { &MAPPED } else { &DEVICE }
}

/// Local. Makes this process count from now on what it sends in collective calls, post and complete. With
/// `TRANSOM_REPORT`, it counts from the start.
pub fn count_traffic() {
    IS_COUNTED.store(true, Ordering::Relaxed);
}

/// Local. The traffic counted since [`count_traffic`].
#[must_use]
pub fn traffic() -> Traffic {
    Traffic {
        mapped: MAPPED.read(),
        device: DEVICE.read(),
    }
}

#[inline]
pub(crate) fn counts_traffic() -> bool {
    IS_COUNTED.load(Ordering::Relaxed)
}

pub(crate) fn note_flag(is_mapped: bool) {
    counts_of(is_mapped).flags.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn note_message(is_mapped: bool, bytes: u64) {
    let counts = counts_of(is_mapped);
    counts.messages.fetch_add(1, Ordering::Relaxed);
    counts.bytes.fetch_add(bytes, Ordering::Relaxed);
}
