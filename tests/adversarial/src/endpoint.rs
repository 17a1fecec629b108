//! The side of the poster: records operations, and tells the engine.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdma_sys_shim::memory::copy;
use rdma_sys_shim::{
    Direction, Endpoint, Error, Fetch, RemoteAddress, Result, Ticket, Update, Width,
};

use crate::engine::{Engine, Message};
use crate::inner::Inner;
use crate::late;
use crate::operation::{Old, PendingOperation, Source, Work};
use crate::options::{AdversarialOptions, DEVICE, Fault};
use crate::queue::Progress;
use crate::random::Random;

/// The most operations in progress: the length of a send queue.
const DEPTH: u64 = 1024;
/// Longer data is not copied when it is posted, nor held back after it was read.
const LONG: usize = 256 << 10;
/// How long a store is held back if nothing orders it before an atomic.
const HELD_BACK: Duration = Duration::from_millis(3);
/// How much of a read's destination is overwritten at either end.
const SCRIBBLE: usize = 64 << 10;

pub(crate) struct AdversarialEndpoint {
    pub(crate) number: u64,
    pub(crate) way: Arc<Inner>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) progress: Arc<Progress>,
    /// Operations are numbered and sent in one order.
    pub(crate) choices: Mutex<Choices>,
    pub(crate) options: AdversarialOptions,
    /// Counts the operations of all endpoints.
    pub(crate) count: Arc<AtomicU64>,
}

pub(crate) struct Choices {
    /// Decides what happens to an operation, and whether it waits until a caller asks for its completion.
    pub(crate) fate: Random,
    pub(crate) patience: Random,
}

impl AdversarialEndpoint {
    fn post(&self, work: impl FnOnce(&mut Random) -> Work) -> Result<Ticket> {
        if !self.engine.is_here() {
            return Err(Error::Unreachable {
                device: DEVICE,
                pid: std::process::id(),
                reason: "the device was opened before this process was forked".to_owned(),
            });
        }
        let mut choices = self.choices.lock().unwrap_or_else(PoisonError::into_inner);
        let Choices { fate, patience } = &mut *choices;
        self.progress.intact()?;
        while self.progress.pending() >= DEPTH {
            self.ask();
            std::thread::sleep(Duration::from_micros(50));
            self.progress.intact()?;
        }
        let work = work(fate);
        let released = match &work {
            Work::Write { from, .. } => matches!(from, Source::Copied(_)),
            Work::UpdateEach { values, .. } => matches!(values, Source::Copied(_)),
            Work::Store { .. } => true,
            _ => false,
        };
        let fault = self.fault(fate);
        let early = fate.one_in(2);
        let may_wait = matches!(work, Work::Write { .. } | Work::Read { .. });
        let waits = may_wait && patience.one_in(2);
        let ticket = self.progress.posted.fetch_add(1, Ordering::AcqRel) + 1;
        let operation = PendingOperation {
            work,
            fault,
            early,
            waits,
            released,
        };
        self.engine.send(Message::Post(self.number, operation));
        if waits {
            self.progress.note_waiting();
        }
        Ok(Ticket(ticket))
    }

    /// Whether it is complete. If not, tells the engine that a caller waits for it.
    fn or_ask(&self, done: Result<bool>) -> Result<bool> {
        if matches!(done, Ok(false)) {
            self.ask();
        }
        done
    }

    /// Tells the engine that a caller waits for posted operations.
    fn ask(&self) {
        if self.progress.take_waiting() {
            self.engine.send(Message::Ask(Some(self.number)));
        }
    }

    fn fault(&self, random: &mut Random) -> Option<Fault> {
        let count = 1 + self.count.fetch_add(1, Ordering::Relaxed);
        match (self.options.fault, self.options.fail_rate) {
            (Some((fault, at)), _) if at == count => Some(fault),
            (_, Some(rate)) if random.one_in(rate) => Some(Fault::Completion),
            _ => None,
        }
    }

    /// As [`Self::post`], for operations that tell of this thread's stores. They may complete before the stores are
    /// visible, unless the stores are ordered.
    fn post_flag(&self, work: impl FnOnce(&mut Random) -> Work) -> Result<Ticket> {
        if self.engine.is_here() {
            late::hold_back(HELD_BACK);
        }
        self.post(work)
    }

    /// Refuses narrow atomics, as over verbs.
    fn wide(&self, width: Width, need: &'static str, at: RemoteAddress) -> Result<()> {
        match width {
            Width::W8 => Ok(()),
            narrow => Err(Error::RemoteAccess {
                need,
                address: at.address,
                len: narrow.bytes() as u64,
                pid: self.way.pid(),
                host: None,
                rkey: at.rkey,
                reason: "the device has atomics of eight bytes only",
            }),
        }
    }
}

/// Sometimes copies the data, so that the buffer is released at once.
///
/// # Safety
/// `from` is readable for `len` bytes, now and until the operation that is posted completes.
unsafe fn source(from: *const u8, len: usize, random: &mut Random) -> Source {
    if len > LONG || random.one_in(2) {
        return Source::Lent(from);
    }
    let mut bytes = vec![0; len].into_boxed_slice();
    if len > 0 {
        // SAFETY: the caller's promise; the copy is as long.
        unsafe { copy(bytes.as_mut_ptr(), from, len) };
    }
    Source::Copied(bytes)
}

/// Overwrites a destination, which no caller may read while the operation is in progress. A caller that reads it too
/// early sees this.
///
/// # Safety
/// `to` is writable for `len` bytes, and nothing else accesses them.
unsafe fn scribble(to: *mut u8, len: usize, random: &mut Random) {
    let mut noise = [0_u8; 4096];
    for chunk in noise.chunks_exact_mut(8) {
        chunk.copy_from_slice(&random.next().to_ne_bytes());
    }
    let fill = |range: std::ops::Range<usize>| {
        for start in range.clone().step_by(noise.len()) {
            let part = noise.len().min(range.end - start);
            // SAFETY: this is inside the caller's range.
            unsafe { copy(to.wrapping_add(start), noise.as_ptr(), part) };
        }
    };
    fill(0..len.min(SCRIBBLE));
    fill(len.saturating_sub(SCRIBBLE).max(len.min(SCRIBBLE))..len);
}

impl Endpoint for AdversarialEndpoint {
    unsafe fn transfer(
        &self,
        direction: Direction,
        local: *mut u8,
        len: usize,
        at: RemoteAddress,
    ) -> Result<Ticket> {
        self.post(|random| match direction {
            Direction::Write => Work::Write {
                // SAFETY: the caller's promise.
                from: unsafe { source(local, len, random) },
                len,
                to: at,
            },
            Direction::Read => {
                // SAFETY: the caller's promise.
                unsafe { scribble(local, len, random) };
                let held_back = len <= LONG && random.one_in(2);
                Work::Read {
                    to: local,
                    len,
                    from: at,
                    staged: held_back.then(|| vec![0; len].into_boxed_slice()),
                }
            }
        })
    }

    unsafe fn fetch(
        &self,
        at: RemoteAddress,
        width: Width,
        fetch: Fetch,
        old: *mut u64,
    ) -> Result<Ticket> {
        let need = match fetch {
            Fetch::Add(_) => "fetch_add",
            Fetch::CompareSwap { .. } => "compare_swap",
        };
        self.wide(width, need, at)?;
        self.post_flag(|random| {
            // SAFETY: the caller's promise.
            unsafe { scribble(old.cast(), 8, random) };
            Work::Fetch {
                at,
                width,
                fetch,
                old: Old { to: old, found: 0 },
            }
        })
    }

    unsafe fn update_each(
        &self,
        at: RemoteAddress,
        width: Width,
        update: Update,
        values: *const u8,
        count: usize,
    ) -> Result<Ticket> {
        self.wide(width, "atomic update", at)?;
        self.post_flag(|random| Work::UpdateEach {
            at,
            width,
            update,
            // SAFETY: the caller's promise.
            values: unsafe { source(values, count.saturating_mul(width.bytes()), random) },
            count,
        })
    }

    fn store(&self, at: RemoteAddress, old: u64, new: u64) -> Result<Ticket> {
        self.post_flag(|_| Work::Store { at, old, new })
    }

    fn released(&self, ticket: Ticket) -> Result<bool> {
        self.or_ask(self.progress.released(ticket.0))
    }

    fn completed(&self, ticket: Ticket) -> Result<bool> {
        self.or_ask(self.progress.completed(ticket.0))
    }

    fn intact(&self) -> Result<()> {
        self.progress.intact()
    }

    fn liveness(&self) -> Result<()> {
        self.way.liveness()
    }

    fn known_liveness(&self) -> Result<()> {
        self.way.known_liveness()
    }
}

impl Drop for AdversarialEndpoint {
    fn drop(&mut self) {
        self.engine.close(self.number);
    }
}
