//! Writes that an adapter has accepted and not yet placed in memory. On PCIe they are *posted*: the adapter that
//! issues them does not learn when they arrive. They arrive in order. Whatever the same adapter reads or writes later
//! waits for them; other adapters, and the processor, do not.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::abi::ibv_sge;
use crate::process::{self, Refusal};

const WRITES: usize = 4096;
const BYTES: usize = 8 << 20;

/// One write.
#[derive(Clone, Copy)]
#[repr(C)]
struct Write {
    address: u64,
    /// In nanoseconds of the system's monotonic clock.
    due: u64,
    len: u32,
    offset: u32,
    thread: i32,
}

/// The writes of an adapter, oldest first. Zeros are an empty list.
///
/// A process may be killed at any point while it changes the list, and the next one goes on with it. So a write enters
/// and leaves it by one store, and those before it come first.
#[repr(C)]
pub(crate) struct Posted {
    /// The numbers of the oldest write and of the next one, which count on past zero.
    first: AtomicU32,
    next: AtomicU32,
    used: u32,
    writes: [Write; WRITES],
    data: [u8; BYTES],
}

/// Where a write goes.
#[derive(Clone, Copy)]
pub(crate) struct Destination {
    pub(crate) thread: i32,
    pub(crate) address: u64,
}

/// So numbers that have passed zero name the places behind the last ones.
const _: () = assert!(WRITES.is_power_of_two());

impl Posted {
    /// Accepts a write. It is placed after `delay`, or at once if it is too long to be kept.
    ///
    /// # Safety
    /// The mapped memory in `from` may be read now, and that at `to` written until it is deregistered, which has the
    /// write placed.
    pub(crate) unsafe fn accept(
        &mut self,
        to: Destination,
        from: &[ibv_sge],
        delay: Duration,
    ) -> Result<(), Refusal> {
        let len: usize = from.iter().map(|piece| piece.length as usize).sum();
        if delay.is_zero() || len > BYTES / 4 {
            self.place_all();
            // SAFETY: the caller's promise.
            return unsafe { process::write(to.thread, to.address, from) };
        }
        if self.count() as usize == WRITES || self.used as usize + len > BYTES {
            self.place_all();
        }
        let offset = self.used as usize;
        let room = &mut self.data[offset..offset + len];
        let mut at = 0;
        for piece in from {
            let part = &mut room[at..at + piece.length as usize];
            at += part.len();
            let part = [process::piece_mut(part)];
            // SAFETY: the caller's promise, to a part of this list.
            unsafe { process::read(process::own_thread(), piece.addr, &part)? };
        }
        let next = self.next.load(Ordering::Relaxed);
        self.writes[next as usize % WRITES] = Write {
            address: to.address,
            due: now() + delay.as_nanos() as u64,
            len: len as u32,
            offset: offset as u32,
            thread: to.thread,
        };
        self.used = (offset + len).next_multiple_of(8) as u32;
        self.next.store(next.wrapping_add(1), Ordering::Release);
        Ok(())
    }

    fn count(&self) -> u32 {
        let next = self.next.load(Ordering::Relaxed);
        next.wrapping_sub(self.first.load(Ordering::Relaxed))
    }

    /// Write `at` of those in the list.
    fn write(&self, at: u32) -> &Write {
        let number = self.first.load(Ordering::Relaxed).wrapping_add(at);
        &self.writes[number as usize % WRITES]
    }

    /// Places everything.
    pub(crate) fn place_all(&mut self) {
        self.place(self.count());
    }

    /// Places what is due. Returns when the next one is.
    pub(crate) fn place_due(&mut self) -> Option<Duration> {
        let now = now();
        let is_due = |&at: &u32| self.write(at).due <= now;
        let count = (0..self.count()).take_while(is_due).count();
        self.place(count as u32);
        let next = (self.count() > 0).then(|| self.write(0).due);
        next.map(|due| Duration::from_nanos(due.saturating_sub(now)))
    }

    fn place(&mut self, count: u32) {
        for _ in 0..count {
            self.put(self.write(0));
            // Who is killed before this has it placed twice, and not never.
            self.first.fetch_add(1, Ordering::Release);
        }
        if self.count() == 0 {
            self.used = 0;
        }
    }

    /// A process that has ended has no memory to write to.
    fn put(&self, write: &Write) {
        let from = write.offset as usize;
        let data = &self.data[from..from + write.len as usize];
        let from = [process::piece(data)];
        // SAFETY: a part of this list; `accept`'s caller has promised the rest.
        let _ = unsafe { process::write(write.thread, write.address, &from) };
    }
}

/// The system's monotonic clock, which all processes share.
fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a place for the answer; every system has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The time until a point in time.
pub(crate) fn until(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Fabric;

    #[test]
    fn writes_are_placed_in_order_when_their_numbers_pass_zero() {
        let folder = tempfile::tempdir().unwrap();
        let fabric = Fabric::open(&folder.path().join("fabric")).unwrap();
        let mut posted = fabric.adapter(0).posted.lock();
        for number in [&posted.first, &posted.next] {
            number.store(u32::MAX - 1, Ordering::Relaxed);
        }
        let mut target = [0_u8; 4];
        let address = process::piece_mut(&mut target).addr;
        let thread = process::own_thread();
        let mut accept = |at: u64, bytes: &[u8], delay| {
            let to = Destination {
                thread,
                address: address + at,
            };
            // SAFETY: bytes that live, and a part of `target`, which nothing else uses meanwhile.
            unsafe { posted.accept(to, &[process::piece(bytes)], delay).unwrap() };
            posted.place_due()
        };
        let late = Duration::from_secs(600);
        assert!(accept(0, b"abc", late).is_some());
        assert!(accept(1, b"de", late).is_some());
        assert!(accept(2, b"f", late).is_some());
        // SAFETY: a live array.
        assert_eq!(unsafe { (&raw const target).read_volatile() }, [0; 4]);
        assert_eq!(accept(3, b"g", Duration::ZERO), None);
        // SAFETY: as above.
        assert_eq!(&unsafe { (&raw const target).read_volatile() }, b"adfg");
        assert_eq!((posted.count(), posted.used), (0, 0));
    }
}
