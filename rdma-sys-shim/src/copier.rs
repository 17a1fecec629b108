//! A second thread for long transfers, and copies. Where that was found to be sooner (`habit`), who asks for one carries
//! out its pieces one after the other, and the second thread takes from the other end of the row, where neither meets what
//! the other is at: the kernel locks tables of some megabytes. It stands back behind all other
//! threads, so that it helps on a processor that nobody else uses. Nobody waits for it to come, but for the piece that
//! it is at, which takes some tens of microseconds; and if others have come to its processor meanwhile, it is called to
//! the one of who waits (`summons`).

mod habit;
mod summons;

use std::hint;
use std::io;
use std::mem;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use habit::Habit;
use summons::Thread;

use crate::signals::without_signals;

/// Looks at whether the second thread has ended its piece, before sleeping until then: some tens of microseconds.
const SPINS: u32 = 2_000;

/// A piece that takes longer lies still: others have the processor that it was begun on.
const LATE: Duration = Duration::from_micros(200);

/// A piece that takes so many times as long as they do without the second thread makes pages that were not there, which one
/// thread does sooner: two keep each other's processor from what they change of the process's memory.
const TIMES_AS_SLOW: u32 = 8;

/// Classes of transfers by their lengths: powers of two.
const CLASSES: usize = 16;

/// Calls what it gets, which starts the second thread: that inherits where the calling thread may run meanwhile.
pub type StartThread = Arc<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

/// Leave for a second thread of this process to take part in long transfers, for as long as this is kept. There is one
/// such thread in a process, whoever gives leave; it is started by the first transfer that it may help with, and has
/// ended when the last who gave leave is dropped.
pub struct SecondThread {
    _copier: Arc<Copier>,
}

/// This process's.
static CURRENT: Current = Current::nobodys();

/// Where the copier stands while somebody gives leave.
struct Current(Mutex<Weak<Copier>>);

/// What the pieces of a transfer are.
#[derive(Clone, Copy)]
pub(crate) enum Pieces {
    /// Copies within what is mapped here.
    Copies,
    Writes,
    Reads,
    /// Reads, and writes of what was made of them.
    Combines,
}

const KINDS_OF_PIECES: usize = Pieces::Combines as usize + 1;

impl Pieces {
    /// What is likely to gain as much: the kernel does both.
    fn alike(self) -> Option<Self> {
        match self {
            Self::Writes => Some(Self::Reads),
            Self::Reads => Some(Self::Writes),
            Self::Copies | Self::Combines => None,
        }
    }
}

struct Copier {
    shared: Arc<Shared>,
    /// Held by the one transfer that is shared out at a time.
    turn: Mutex<Turn>,
    start: StartThread,
    /// In a forked child there is no second thread.
    pid: u32,
}

struct Turn {
    thread: Option<JoinHandle<()>>,
    habits: [[Habit; CLASSES]; KINDS_OF_PIECES],
}

struct Shared {
    state: Mutex<State>,
    offered: Condvar,
    is_done: Condvar,
    /// Whether the state is [`State::Taken`]: a hint, for those who look more often than they could lock. What was copied
    /// is put in order by the lock, which whoever waits takes in any case.
    is_taken: AtomicBool,
    /// The second one, once it runs.
    thread: OnceLock<Thread>,
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

impl SecondThread {
    /// It is started within `start`, unless it is there already.
    #[must_use]
    pub fn allow(start: StartThread) -> Self {
        let _copier = CURRENT.get_or_make(start);
        Self { _copier }
    }
}

impl Current {
    const fn nobodys() -> Self {
        Self(Mutex::new(Weak::new()))
    }

    /// Not for forked children, which may wait for ever.
    fn get_or_make(&self, start: StartThread) -> Arc<Copier> {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A forked child has its parent's, which is without a thread there.
        let own = (current.upgrade()).filter(|copier| copier.pid == std::process::id());
        let copier = own.unwrap_or_else(|| Arc::new(Copier::new(start)));
        *current = Arc::downgrade(&copier);
        copier
    }

    fn get(&self) -> Option<Arc<Copier>> {
        // A forked child may find it locked for ever.
        match self.0.try_lock() {
            Ok(current) => current.upgrade(),
            Err(TryLockError::Poisoned(current)) => current.into_inner().upgrade(),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Whether there may be a second thread.
pub(crate) fn is_allowed() -> bool {
    CURRENT.get().is_some()
}

/// Has `part` carry out parts of a transfer of `len` bytes, which together are all of it, each byte once: in one part, or in
/// pieces of `piece` bytes, in any order and two at a time. After one that failed, no others are begun.
pub(crate) fn share_out<E: Send>(
    what: Pieces,
    len: usize,
    piece: usize,
    part: impl Fn(Range<usize>) -> Result<(), E> + Sync,
) -> Result<(), E> {
    match CURRENT.get() {
        Some(copier) => copier.share_out(what, len.div_ceil(piece), |pieces| {
            part(pieces.start * piece..len.min(pieces.end * piece))
        }),
        None => part(0..len),
    }
}

impl Copier {
    fn new(start: StartThread) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State::Idle),
                offered: Condvar::new(),
                is_done: Condvar::new(),
                is_taken: AtomicBool::new(false),
                thread: OnceLock::new(),
            }),
            turn: Mutex::new(Turn {
                thread: None,
                habits: [[Habit::new(); CLASSES]; KINDS_OF_PIECES],
            }),
            start,
            pid: std::process::id(),
        }
    }

    /// As the function of this name, of pieces by their numbers.
    fn share_out<E: Send>(
        &self,
        what: Pieces,
        count: usize,
        part: impl Fn(Range<usize>) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let row = Row::new(count, part);
        match self.take_turn() {
            Some(mut turn) if count > 1 => {
                let Turn { thread, habits } = &mut *turn;
                let class = (count.next_power_of_two().ilog2() as usize).min(CLASSES - 1);
                if let Some(alike) = what.alike() {
                    let known = habits[alike as usize][class];
                    habits[what as usize][class].begin_as(&known);
                }
                let habit = &mut habits[what as usize][class];
                let begun = Instant::now();
                match habit.shares() && self.has_started(thread) {
                    true => self.carry_out_shared(&row, habit.alone()),
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

    /// `usual`: how long a piece takes without the second thread.
    fn carry_out_shared<E: Send>(
        &self,
        row: &Row<E, impl Fn(Range<usize>) -> Result<(), E> + Sync>,
        usual: Duration,
    ) {
        let slow = usual.saturating_mul(TIMES_AS_SLOW);
        let panicked = Mutex::new(None);
        let work = || {
            let is_wanted = || !row.is_for_one.load(Ordering::Relaxed);
            let done = panic::catch_unwind(AssertUnwindSafe(|| {
                let mut last = (0..row.count).rev();
                while is_wanted() && row.carry_out_next(&mut last) {}
            }));
            if let Err(payload) = done {
                row.end();
                *panicked.lock().unwrap_or_else(PoisonError::into_inner) = Some(payload);
            }
        };
        // SAFETY: the offer is dropped before `work`, and what that borrows; the turn is taken.
        let offer = unsafe { Offer::make(&self.shared, &work) };
        let mut first = 0..row.count;
        loop {
            let begun = Instant::now();
            if !row.carry_out_next(&mut first) {
                break;
            }
            if begun.elapsed() > slow {
                row.is_for_one.store(true, Ordering::Relaxed);
            }
        }
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
        if self.pid != std::process::id() {
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
                Ok(started) => {
                    tracing::debug!("a second thread takes part in long transfers");
                    *thread = Some(started);
                }
                Err(error) => {
                    tracing::debug!(%error, "no second thread for a long transfer");
                }
            }
        }
        thread.is_some()
    }

    fn start(&self) -> io::Result<JoinHandle<()>> {
        let mut started = None;
        (self.start)(&mut || {
            let shared = self.shared.clone();
            let thread = thread::Builder::new()
                .name("transom-copier".into())
                .stack_size(128 << 10);
            started = Some(without_signals(|| {
                thread.spawn(move || {
                    stand_back();
                    serve(&shared);
                })
            }));
        });
        started.unwrap_or_else(|| Err(io::Error::other("nobody started it")))
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

/// Pieces of work, taken one after the other from both ends.
struct Row<E, F> {
    count: usize,
    /// As many are begun, or more.
    begun: AtomicUsize,
    /// No more may be.
    most: AtomicUsize,
    part: F,
    failed: Mutex<Option<E>>,
    /// The second thread takes no more of it.
    is_for_one: AtomicBool,
}

impl<E, F: Fn(Range<usize>) -> Result<(), E>> Row<E, F> {
    fn new(count: usize, part: F) -> Self {
        Self {
            count,
            begun: AtomicUsize::new(0),
            most: AtomicUsize::new(count),
            part,
            failed: Mutex::new(None),
            is_for_one: AtomicBool::new(false),
        }
    }

    /// No more pieces are begun.
    fn end(&self) {
        self.most.store(0, Ordering::Relaxed);
    }

    fn has_failed(&self) -> bool {
        self.most.load(Ordering::Relaxed) < self.count
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

    /// Takes the next piece from one end, which one thread does, and another from the other; false if there are none between.
    fn carry_out_next(&self, end: &mut impl Iterator<Item = usize>) -> bool {
        let begun = self.begun.fetch_add(1, Ordering::Relaxed);
        if begun >= self.most.load(Ordering::Relaxed) {
            return false;
        }
        let Some(index) = end.next() else {
            return false;
        };
        self.carry_out_part(index..index + 1);
        true
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
        let is_taken = |state: &mut State| matches!(state, State::Taken);
        let (mut state, waited) = (shared.is_done)
            .wait_timeout_while(shared.lock(), LATE, is_taken)
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            let _summoned = shared.thread.get().map(|thread| thread.summon());
            state = (shared.is_done.wait_while(state, is_taken))
                .unwrap_or_else(PoisonError::into_inner);
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
    let _ = shared.thread.set(Thread::current());
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
                *shared.lock() = State::Idle;
                shared.is_taken.store(false, Ordering::Relaxed);
                // Without the lock, which whoever waits might wait for while others have this processor.
                shared.is_done.notify_one();
                state = shared.lock();
            }
            _ => state = (shared.offered.wait(state)).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

#[cfg(test)]
mod tests;
