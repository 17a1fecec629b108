//! A second thread for long transfers. Where that was found to be sooner (`habit`), who asks for one carries out its pieces
//! one after the other, and the second thread takes from the same row. It stands back behind all other threads, so that
//! it helps on a processor that nobody else uses. Nobody waits for it to come, but for the piece that it is at,
//! which takes some tens of microseconds: a wait that is no peer's.

mod habit;

use std::hint;
use std::io;
use std::mem;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use habit::Habit;

use crate::ThreadBegin;
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
    /// What the second thread does first; `None` while there may be none.
    begin: OnceLock<ThreadBegin>,
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
    /// Whether the state is [`State::Taken`]: a hint, for those who look more often than they could lock. What was copied
    /// is put in order by the lock, which whoever waits takes in any case.
    is_taken: AtomicBool,
}

#[derive(Clone, Copy)]
enum State {
    Idle,
    /// Nobody has come to it.
    Offered(Offered),
    /// The second thread is at it.
    Taken,
    /// The second thread is to end.
    Over,
}

/// What the second thread is to do. Its lifetime is not said here: [`Offer`] keeps to it.
#[derive(Clone, Copy)]
struct Offered(*const (dyn Fn() + Sync));

// SAFETY: what it points to is `Sync`, so that another thread may call it, for as long as `Offer` lasts.
unsafe impl Send for Offered {}

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
            begin: OnceLock::new(),
            pid: std::process::id(),
        }
    }

    /// From here on there may be a second thread, which begins by calling `begin`.
    pub(crate) fn allow(&self, begin: ThreadBegin) {
        let _ = self.begin.set(begin);
    }

    /// Whether there may be a second thread.
    pub(super) fn is_allowed(&self) -> bool {
        self.begin.get().is_some()
    }

    /// Has `part` carry out parts of a transfer, which together are its pieces number 0 to `count` - 1, each once: all in
    /// one part, or many parts, in any order and two at a time. After one that failed, no others are begun.
    pub(crate) fn share_out<E: Send>(
        &self,
        kind: Kind,
        count: usize,
        part: impl Fn(Range<usize>) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let row = Row::new(count, part);
        match self.take_turn() {
            Some(mut turn) if count > 1 => {
                let Turn { thread, habits } = &mut *turn;
                let class = (count.ilog2() as usize).min(CLASSES - 1);
                let habit = &mut habits[kind as usize][class];
                let begun = Instant::now();
                match habit.shares() && self.has_started(thread) {
                    true => self.carry_out_shared(&row),
                    false => row.carry_out_whole(),
                }
                if !row.has_failed() {
                    habit.note(begun.elapsed() / count as u32);
                }
            }
            _ => row.carry_out_whole(),
        }
        let failed = row.failed.into_inner();
        failed
            .unwrap_or_else(PoisonError::into_inner)
            .map_or(Ok(()), Err)
    }

    fn carry_out_shared<E: Send>(
        &self,
        row: &Row<E, impl Fn(Range<usize>) -> Result<(), E> + Sync>,
    ) {
        let panicked = Mutex::new(None);
        let work = || {
            let done = panic::catch_unwind(AssertUnwindSafe(|| row.carry_out()));
            if let Err(payload) = done {
                row.end();
                *panicked.lock().unwrap_or_else(PoisonError::into_inner) = Some(payload);
            }
        };
        // SAFETY: the offer is dropped before `work`, and what that borrows; the turn is taken.
        let offer = unsafe { Offer::make(&self.shared, &work) };
        row.carry_out();
        drop(offer);
        let panicked = panicked
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(payload) = panicked {
            panic::resume_unwind(payload);
        }
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
        let (shared, begin) = (self.shared.clone(), self.begin.get().cloned());
        without_signals(|| {
            thread::Builder::new()
                .name("transom-copier".into())
                .stack_size(128 << 10)
                .spawn(move || {
                    if let Some(begin) = begin {
                        begin();
                    }
                    stand_back();
                    serve(&shared);
                })
        })
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        let turn = self.turn.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = turn.thread.take() {
            if self.pid != std::process::id() {
                // It is the parent's.
                mem::forget(thread);
                return;
            }
            *self.shared.lock() = State::Over;
            self.shared.offered.notify_one();
            let _ = thread.join();
        }
    }
}

/// Pieces of work, taken one after the other by whoever comes.
struct Row<E, F> {
    count: usize,
    next: AtomicUsize,
    end: AtomicUsize,
    part: F,
    failed: Mutex<Option<E>>,
}

impl<E, F: Fn(Range<usize>) -> Result<(), E>> Row<E, F> {
    fn new(count: usize, part: F) -> Self {
        Self {
            count,
            next: AtomicUsize::new(0),
            end: AtomicUsize::new(count),
            part,
            failed: Mutex::new(None),
        }
    }

    /// No more pieces are begun.
    fn end(&self) {
        self.end.store(0, Ordering::Relaxed);
    }

    fn has_failed(&self) -> bool {
        self.end.load(Ordering::Relaxed) < self.count
    }

    fn carry_out_whole(&self) {
        self.carry_out_part(0..self.count);
    }

    fn carry_out_part(&self, pieces: Range<usize>) {
        if let Err(error) = (self.part)(pieces) {
            self.end();
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert(error);
        }
    }

    /// Takes pieces until there are none.
    fn carry_out(&self) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.end.load(Ordering::Relaxed) {
                return;
            }
            self.carry_out_part(index..index + 1);
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
            mem::transmute::<*const (dyn Fn() + Sync + '_), *const (dyn Fn() + Sync)>(work)
        };
        *shared.lock() = State::Offered(Offered(work));
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

/// Has the calling thread run where nothing else wants to.
fn stand_back() {
    const LAST: libc::c_int = 19;
    // SAFETY: the call takes numbers; 0 is the calling thread.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LAST) } != 0 {
        let error = io::Error::last_os_error();
        tracing::debug!(%error, "the second thread of long transfers is as good as others");
    }
}

/// The second thread.
fn serve(shared: &Shared) {
    let mut state = shared.lock();
    loop {
        match *state {
            State::Over => return,
            State::Offered(Offered(work)) => {
                *state = State::Taken;
                shared.is_taken.store(true, Ordering::Relaxed);
                drop(state);
                // SAFETY: it is kept until its `Offer` is dropped (`Offer::make`), which waits while the state is `Taken`: so
                // until after this call, behind which nothing here touches it.
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
