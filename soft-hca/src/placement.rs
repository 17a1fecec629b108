//! Writes that an adapter has accepted and not yet placed in memory. On PCIe they are *posted*: the adapter that
//! issues them does not learn when they arrive. They arrive in order. Whatever the same adapter reads or writes later
//! waits for them; other adapters, and the processor, do not.

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
#[repr(C)]
pub(crate) struct Posted {
    first: u32,
    count: u32,
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

impl Posted {
    /// Accepts a write. It is placed after `delay`, or at once if it is too long to be kept.
    pub(crate) fn accept(
        &mut self,
        to: Destination,
        from: &[ibv_sge],
        delay: Duration,
    ) -> Result<(), Refusal> {
        let len: usize = from.iter().map(|piece| piece.length as usize).sum();
        if delay.is_zero() || len > BYTES / 4 {
            self.place_all();
            return process::write(to.thread, to.address, from);
        }
        if self.count as usize == WRITES || self.used as usize + len > BYTES {
            self.place_all();
        }
        let offset = self.used as usize;
        let room = &mut self.data[offset..offset + len];
        let mut at = 0;
        for piece in from {
            let part = &mut room[at..at + piece.length as usize];
            at += part.len();
            process::read(
                process::own_thread(),
                piece.addr,
                &[process::piece_mut(part)],
            )?;
        }
        let place = (self.first + self.count) as usize % WRITES;
        self.writes[place] = Write {
            address: to.address,
            due: now() + delay.as_nanos() as u64,
            len: len as u32,
            offset: offset as u32,
            thread: to.thread,
        };
        self.used = (offset + len).next_multiple_of(8) as u32;
        self.count += 1;
        Ok(())
    }

    /// Places everything.
    pub(crate) fn place_all(&mut self) {
        self.place(self.count);
    }

    /// Places what is due. Returns when the next one is.
    pub(crate) fn place_due(&mut self) -> Option<Duration> {
        let now = now();
        let due = |at: u32| self.writes[(self.first + at) as usize % WRITES].due;
        let count = (0..self.count).take_while(|&at| due(at) <= now).count();
        self.place(count as u32);
        let next = (self.count > 0).then(|| self.writes[self.first as usize % WRITES].due);
        next.map(|due| Duration::from_nanos(due.saturating_sub(now)))
    }

    fn place(&mut self, count: u32) {
        for _ in 0..count {
            let oldest = self.writes[self.first as usize % WRITES];
            self.put(&oldest);
            self.first = (self.first + 1) % WRITES as u32;
            self.count -= 1;
        }
        if self.count == 0 {
            self.used = 0;
        }
    }

    /// A process that has ended has no memory to write to.
    fn put(&self, write: &Write) {
        let from = write.offset as usize;
        let data = &self.data[from..from + write.len as usize];
        let _ = process::write(write.thread, write.address, &[process::piece(data)]);
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
