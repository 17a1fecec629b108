//! A second thread for long transfers. Who asks for one carries out its pieces one after the other, and the second
//! thread takes from the same row, where that was found to be sooner (`habit`): it needs a processor that is free, and
//! nothing tells whether one is. Nobody waits for it to come, but for the piece that it is at.

mod habit;

use std::hint;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use habit::Habit;

use super::processors::Processors;
use crate::signals::without_signals;

/// Looks at whether the second thread has ended its piece, before sleeping until then: some tens of microseconds.
const SPINS: u32 = 2_000;

/// Classes of transfers by their lengths: powers of two.
const CLASSES: usize = 16;

/// What the pieces of a transfer are.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Writes,
    Reads,
    /// Reads, and writes of what was made of them.
    Combines,
}

/// The second thread of a process: it is started by the first long transfer, and ends with this.
pub(crate) struct Copier {
    shared: Arc<Shared>,
    /// Held by the one transfer that is shared out at a time.
    turn: Mutex<Turn>,
    /// Where it may run; `None` while it may not.
    processors: OnceLock<Processors>,
    /// In a forked child there is no second thread.
    pid: u32,
}

struct Turn {
    thread: Option<JoinHandle<()>>,
    habits: [[Habit; CLASSES]; 3],
}

struct Shared {
    state: Mutex<State>,
    offered: Condvar,
    is_done: Condvar,
    /// Whether the state is [`State::Taken`]; for those who look more often than they could lock.
    is_taken: AtomicBool,
}

#[derive(Clone, Copy)]
enum State {
    Idle,
    /// Nobody has come to it.
    Offered(Work),
    /// The second thread is at it.
    Taken,
    /// The second thread is to end.
    Over,
}

/// What the second thread is to do. Its lifetime is not said here: see [`Offer`].
#[derive(Clone, Copy)]
struct Work(*const (dyn Fn() + Sync));

// SAFETY: what it points to may be called by any thread.
unsafe impl Send for Work {}

/// Work that stands offered, or is being done, by the second thread too. It is neither any more once this is dropped.
struct Offer<'a> {
    shared: &'a Shared,
}

impl Copier {
    pub(crate) fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State::Idle),
                offered: Condvar::new(),
                is_done: Condvar::new(),
                is_taken: AtomicBool::new(false),
            }),
            turn: Mutex::new(Turn {
                thread: None,
                habits: [[Habit::new(); CLASSES]; 3],
            }),
            processors: OnceLock::new(),
            pid: std::process::id(),
        }
    }

    /// From here on there may be a second thread, if there is a second processor. It runs on those of process `like`, or
    /// on this one's own.
    pub(crate) fn allow(&self, like: Option<u32>) {
        match Processors::of(like.unwrap_or(0)) {
            Ok(processors) if processors.number() > 1 => drop(self.processors.set(processors)),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "no second thread for long transfers"),
        }
    }

    /// Whether there may be a second thread.
    pub(super) fn is_allowed(&self) -> bool {
        self.processors.get().is_some()
    }

    /// Has `piece` carry out the pieces number 0 to `count` - 1 of a transfer, each once, in any order and two at a time.
    /// After one that failed, no others are begun.
    pub(crate) fn share_out<E: Send>(
        &self,
        kind: Kind,
        count: usize,
        piece: impl Fn(usize) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let row = Row::new(count, piece);
        match self.take_turn() {
            Some(mut turn) if count > 1 => {
                let Turn { thread, habits } = &mut *turn;
                let class = (count.ilog2() as usize).min(CLASSES - 1);
                let habit = &mut habits[kind as usize][class];
                let begun = Instant::now();
                match habit.shares() && self.has_started(thread) {
                    true => self.carry_out_shared(&row),
                    false => row.carry_out(),
                }
                habit.note(begun.elapsed() / count as u32);
            }
            _ => row.carry_out(),
        }
        let failed = row.failed.into_inner();
        failed
            .unwrap_or_else(PoisonError::into_inner)
            .map_or(Ok(()), Err)
    }

    fn carry_out_shared<E: Send>(&self, row: &Row<E, impl Fn(usize) -> Result<(), E> + Sync>) {
        let work = || row.carry_out();
        // SAFETY: the offer is dropped before `work`, and what that borrows; the turn is taken.
        let offer = unsafe { Offer::make(&self.shared, &work) };
        row.carry_out();
        drop(offer);
    }

    /// `None` where there is no second thread for this one.
    fn take_turn(&self) -> Option<MutexGuard<'_, Turn>> {
        if !self.is_allowed() || self.pid != std::process::id() {
            return None;
        }
        match self.turn.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(turn)) => Some(turn.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Starts the thread when it is first needed; false if it could not be.
    fn has_started(&self, thread: &mut Option<JoinHandle<()>>) -> bool {
        if thread.is_none() {
            match self.start() {
                Ok(started) => *thread = Some(started),
                Err(error) => {
                    tracing::debug!(%error, "no second thread for a long transfer");
                }
            }
        }
        thread.is_some()
    }

    fn start(&self) -> io::Result<JoinHandle<()>> {
        let (shared, processors) = (self.shared.clone(), self.processors.get().cloned());
        without_signals(|| {
            thread::Builder::new()
                .name("transom-copier".into())
                .stack_size(128 << 10)
                .spawn(move || {
                    if let Some(Err(error)) = processors.map(|processors| processors.bind()) {
                        tracing::debug!(%error, "the second thread stays where the first is bound");
                    }
                    serve(&shared);
                })
        })
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return;
        }
        let turn = self.turn.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = turn.thread.take() {
            *self.shared.lock() = State::Over;
            self.shared.offered.notify_one();
            let _ = thread.join();
        }
    }
}

/// Pieces of work, taken one after the other by whoever comes.
struct Row<E, F> {
    next: AtomicUsize,
    end: AtomicUsize,
    piece: F,
    failed: Mutex<Option<E>>,
}

impl<E, F: Fn(usize) -> Result<(), E>> Row<E, F> {
    fn new(count: usize, piece: F) -> Self {
        Self {
            next: AtomicUsize::new(0),
            end: AtomicUsize::new(count),
            piece,
            failed: Mutex::new(None),
        }
    }

    /// Takes pieces until there are none.
    fn carry_out(&self) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.end.load(Ordering::Relaxed) {
                return;
            }
            if let Err(error) = (self.piece)(index) {
                self.end.store(0, Ordering::Relaxed);
                let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert(error);
            }
        }
    }
}

impl<'a> Offer<'a> {
    /// # Safety
    /// The offer is dropped, and not forgotten, before `work` is. There is no other of the same second thread.
    unsafe fn make(shared: &'a Shared, work: &(dyn Fn() + Sync)) -> Self {
        let work = &raw const *work;
        // SAFETY: the types differ in the lifetime alone, which nothing relies on: see `serve`.
        let work = unsafe {
            std::mem::transmute::<*const (dyn Fn() + Sync + '_), *const (dyn Fn() + Sync)>(work)
        };
        *shared.lock() = State::Offered(Work(work));
        shared.offered.notify_one();
        Self { shared }
    }
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        let shared = self.shared;
        for _ in 0..SPINS {
            if !shared.is_taken.load(Ordering::Relaxed) {
                break;
            }
            hint::spin_loop();
        }
        let mut state = shared.lock();
        while matches!(*state, State::Taken) {
            state = (shared.is_done.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
        *state = State::Idle;
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The second thread.
fn serve(shared: &Shared) {
    let mut state = shared.lock();
    loop {
        match *state {
            State::Over => return,
            State::Offered(Work(work)) => {
                *state = State::Taken;
                shared.is_taken.store(true, Ordering::Relaxed);
                drop(state);
                // SAFETY: it stands offered until its `Offer` is dropped, which waits while it is taken; and the
                // caller of `Offer::make` keeps it until then.
                unsafe { (*work)() };
                state = shared.lock();
                *state = State::Idle;
                shared.is_taken.store(false, Ordering::Relaxed);
                shared.is_done.notify_one();
            }
            _ => state = (shared.offered.wait(state)).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

#[cfg(test)]
mod tests;
