//! Windows: memory of every rank of a communicator, exposed to all of them.

mod attributes;
mod copied;
mod create;
mod dynamic;
mod errors;
mod free;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod hints;
mod info;
mod kind;
mod layout;
mod progress;
mod route;
mod shared;
pub(crate) mod target;
mod targets;
mod unflushed;

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdma_sys_shim::{Region, Ticket};

pub use attributes::{CallbackResult, Keyval};
pub use dynamic::get_address;
pub use errors::{ErrorFunction, ErrorHandler};
pub use info::Info;
pub use kind::MemoryModel;
pub use progress::Progress;
pub use shared::SharedPart;

pub(crate) use dynamic::{Found, RegionCache};
pub(crate) use hints::NOTIFICATION_COUNTERS;
pub(crate) use targets::held_locks;

use crate::comm::{Barrier, Team};
use crate::datatype::AtomicWidths;
use crate::error::{EpochState, Error, Misuse, Result};
use crate::memory::columns::Column;
use crate::memory::control::{ControlBlock, LocalWord};
use crate::peers::{Context, not_forked};
use crate::sync::{Exposure, Pairs};
use crate::terms::Flavor;
use hints::Hints;
use layout::{CALL_AT, Layout};
use target::{Held, Target};
use targets::Targets;

/// Memory of every rank of a communicator that the others put into, get from and accumulate on
/// (MPI-4.1, chapter 12): the untyped, byte-addressed form, with every rule checked at run time.
///
/// # Threads
/// A window can be shared between threads. One-sided operations, `lock`, `unlock`, `flush` and
/// their kin may be called by several threads at once if the job has
/// [`ThreadLevel::Multiple`](crate::ThreadLevel); collective calls (`fence`, `free`) and
/// `lock_all`/`unlock_all` must not overlap with any other call on the same window. `start` and
/// `complete` must not overlap with each other, nor with operations; the same holds for `post`,
/// `wait` and `test` among themselves. One thread may expose the window while another accesses it.
///
/// # Forks
/// A forked child is no rank: all calls but those that only look something up fail there, and change
/// nothing for the job. Children of `_Fork` and of a raw `clone` are not recognised.
///
/// # Alignment
/// Atomics on an integer that is not aligned to its size (a window over memory at an odd address,
/// or an odd displacement) take a lock at the target instead of one locked instruction, as those on
/// other types do.
///
/// Dropping a window without freeing it leaks its memory and says so in the log, since peers may
/// still access it.
pub struct Window {
    team: Team,
    base: *mut u8,
    /// `None` once freed.
    memory: Option<Memory>,
    flavor: Flavor,
    hints: Hints,
    eager_lock_all: AtomicBool,
    handed_out: shared::HandedOut,
    attributes: attributes::Attributes,
    error_handler: errors::Handler,
    columns: Columns,
    block: Arc<ControlBlock>,
    barrier: Barrier,
    /// Whether a barrier failed: then the ranks are not at one point any more.
    out_of_step: AtomicBool,
    targets: Targets,
    /// Number of the current access epoch; a target whose number equals it was entered.
    serial: AtomicU64,
    mode: AtomicU8,
    /// How many targets are locked one by one.
    locks: AtomicU32,
    /// Targets whose shared lock was taken under `lock_all`, this rank aside.
    entered: Mutex<Vec<u32>>,
    any_entered: AtomicBool,
    /// Whether the device ever took time over an operation: then synchronisation asks it.
    device_used: AtomicBool,
    layout: Layout,
    exposure: Exposure,
    pairs: Pairs,
    atomic_widths: AtomicWidths,
}

// SAFETY: `base` is an address to hand out; the fields behind the other methods are Send.
unsafe impl Send for Window {}
// SAFETY: as above; shared state is atomic or locked.
unsafe impl Sync for Window {}

/// What a window holds while it lives.
enum Memory {
    /// Memory of this rank.
    Region { _owned: Region },
    /// A part of what all ranks share.
    Segment(shared::Segment),
    /// What is attached.
    Dynamic(dynamic::Regions),
}

/// What the ranks told each other when the window was created. In a dynamic window, base, size and
/// rkey are those of the ranks' tables.
struct Columns {
    base: Column<u64>,
    size: Column<u64>,
    unit: Column<u64>,
    rkey: Column<u64>,
    block: Arc<Column<u64>>,
    notifications: Column<u32>,
}

/// Which access epoch is open, as far as the whole window is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mode {
    /// None; single targets may be locked.
    Idle = 0,
    /// A fence has opened an epoch, which becomes real with the first operation.
    FenceUnused = 1,
    Fence = 2,
    LockAll = 3,
    /// `lock_all` with the assertion that nobody conflicts.
    LockAllUnchecked = 4,
    /// `start` has opened an epoch of some targets.
    Started = 5,
    /// `start` with the assertion that they have all posted.
    StartedUnchecked = 6,
}

impl Mode {
    #[inline]
    fn from_code(code: u8) -> Self {
        match code {
            1 => Self::FenceUnused,
            2 => Self::Fence,
            3 => Self::LockAll,
            4 => Self::LockAllUnchecked,
            5 => Self::Started,
            6 => Self::StartedUnchecked,
            _ => Self::Idle,
        }
    }

    #[inline]
    pub(crate) fn is_lock_all(self) -> bool {
        matches!(self, Self::LockAll | Self::LockAllUnchecked)
    }

    #[inline]
    pub(crate) fn is_started(self) -> bool {
        matches!(self, Self::Started | Self::StartedUnchecked)
    }
}

impl Window {
    #[inline]
    pub(crate) fn team(&self) -> &Team {
        &self.team
    }

    #[inline]
    pub(crate) fn context(&self) -> &Context {
        &self.team.context
    }

    /// The word `at` bytes into this rank's own control block.
    pub(crate) fn own_word(&self, at: u64) -> LocalWord {
        LocalWord::new(&self.block, at)
    }

    /// What the word `at` bytes into this rank's own control block holds.
    #[inline]
    pub(crate) fn read_own(&self, at: u64) -> u64 {
        self.block.word(at).load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn barrier(&self) -> &Barrier {
        &self.barrier
    }

    /// Where this rank says in which collective call it waits.
    pub(crate) fn call_word(&self) -> LocalWord {
        self.own_word(CALL_AT)
    }

    /// What another rank says there.
    pub(crate) fn call_of(&self, rank: u32) -> Result<u64> {
        let word = self.team.word(rank, &self.columns.block, CALL_AT)?;
        word.load_whole()
    }

    /// Keeps this rank's block, once the window is gone, until each word holds the value beside it.
    pub(crate) fn retire_block_until(&self, words: impl Iterator<Item = (u64, u64)>) {
        self.block.retire_until(words);
    }

    /// Where `rank`'s control block stands in its control region.
    #[inline]
    pub(crate) fn block_of(&self, rank: u32) -> u64 {
        self.columns.block.get(rank)
    }

    #[inline]
    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    #[inline]
    pub(crate) fn exposure(&self) -> &Exposure {
        &self.exposure
    }

    #[inline]
    pub(crate) fn pairs(&self) -> &Pairs {
        &self.pairs
    }

    /// How many notification counters a rank of the window has.
    #[inline]
    pub(crate) fn counters_of(&self, rank: u32) -> u32 {
        self.columns.notifications.get(rank)
    }

    #[inline]
    pub(crate) fn no_locks(&self) -> bool {
        self.hints.no_locks
    }

    #[inline]
    pub(crate) fn eager_lock_all(&self) -> bool {
        self.eager_lock_all.load(Ordering::Relaxed)
    }

    /// Which elements single atomics update in memory where the device has atomics.
    #[inline]
    pub(crate) fn atomic_widths(&self) -> AtomicWidths {
        self.atomic_widths
    }

    #[inline]
    pub(crate) fn mode(&self) -> Mode {
        Mode::from_code(self.mode.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn set_mode(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    /// Without an operation since, the last fence has begun no epoch (section 12.5.1). Another
    /// thread may open one meanwhile.
    #[inline]
    pub(crate) fn end_unused_fence(&self) {
        let (unused, idle) = (Mode::FenceUnused as u8, Mode::Idle as u8);
        if self.mode() == Mode::FenceUnused {
            let order = Ordering::Relaxed;
            let _ = self.mode.compare_exchange(unused, idle, order, order);
        }
    }

    #[inline]
    pub(crate) fn serial(&self) -> u64 {
        self.serial.load(Ordering::Relaxed)
    }

    /// Ends the epoch for all targets: none is entered any more.
    #[inline]
    pub(crate) fn next_serial(&self) {
        self.serial.store(self.serial() + 1, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn locks(&self) -> u32 {
        self.locks.load(Ordering::Relaxed)
    }

    /// Counts single locks up or down (by −1, wrapping).
    #[inline]
    pub(crate) fn count_lock(&self, change: u32) {
        if self.context().concurrent() {
            self.locks.fetch_add(change, Ordering::Relaxed);
        } else {
            let count = self.locks().wrapping_add(change);
            self.locks.store(count, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn any_entered(&self) -> bool {
        self.any_entered.load(Ordering::Relaxed)
    }

    /// The targets to release when `lock_all` ends; forgets them.
    pub(crate) fn take_entered(&self) -> Vec<u32> {
        self.any_entered.store(false, Ordering::Relaxed);
        mem::take(&mut *self.entered())
    }

    fn entered(&self) -> MutexGuard<'_, Vec<u32>> {
        self.entered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an operation that the device may still be working on. One that it has done already may
    /// have been stores of this very thread.
    pub(crate) fn note_posted(&self, target: &Target, ticket: Ticket) {
        if ticket == Ticket::DONE {
            return target.set_dirty();
        }
        target.set_posted(ticket);
        self.device_used.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn device_used(&self) -> bool {
        self.device_used.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// The target, if it was entered in the current epoch: then operations may go ahead.
    #[inline]
    pub(crate) fn open_target(&self, rank: u32) -> Option<&Target> {
        let target = self.targets.get(rank as usize)?;
        target.is_entered(self.serial()).then_some(target)
    }

    fn is_started_on(&self, rank: u32) -> bool {
        let target = self.targets.get(rank as usize);
        target.is_some_and(|target| target.held() == Held::Started)
    }

    /// What is open now, for an error message about `rank`.
    pub(crate) fn state(&self, rank: Option<u32>) -> EpochState {
        match self.mode() {
            Mode::Fence | Mode::FenceUnused => EpochState::Fence,
            Mode::LockAll | Mode::LockAllUnchecked => EpochState::LockAll,
            Mode::Started | Mode::StartedUnchecked => match rank {
                Some(rank) if !self.is_started_on(rank) => EpochState::NotStarted(rank),
                _ => EpochState::Started,
            },
            Mode::Idle if self.locks() > 0 => match rank {
                Some(rank) => EpochState::NotLocked(rank),
                None => EpochState::Locks,
            },
            Mode::Idle if self.exposure.is_open() => EpochState::Exposed,
            Mode::Idle => EpochState::None,
        }
    }

    /// A target that operations may go to; see [`Window::enter`].
    #[inline]
    pub(crate) fn open_or_enter(&self, operation: &'static str, rank: u32) -> Result<&Target> {
        match self.open_target(rank) {
            Some(target) => Ok(target),
            None => self.enter(operation, rank),
        }
    }

    /// Enters a target: checks that an epoch is open, finds the ways to its memory and, under
    /// `lock_all`, takes its lock.
    #[cold]
    pub(crate) fn enter(&self, operation: &'static str, rank: u32) -> Result<&Target> {
        self.team.check_rank(operation, rank)?;
        not_forked(operation)?;
        let target = &self.targets[rank as usize];
        let mode = self.mode();
        if target.is_entered(self.serial()) {
            return Ok(target);
        }
        if mode == Mode::Idle || mode.is_started() && target.held() != Held::Started {
            return Err(Error::new(
                operation,
                Misuse::Epoch {
                    needs: "an operation needs an access epoch of its target (fence, start, lock \
                            or lock_all)",
                    state: self.state(Some(rank)),
                },
            ));
        }
        if mode == Mode::FenceUnused {
            self.set_mode(Mode::Fence);
        }
        if !matches!(mode, Mode::LockAll | Mode::Started) && target.route().is_some() {
            target.set_entered(self.serial());
            return Ok(target);
        }
        self.while_entering(target, || {
            if target.is_entered(self.serial()) {
                return Ok(());
            }
            let route = self.route(operation, rank, target)?;
            if mode == Mode::Started {
                self.await_post(operation, rank)?;
            }
            if mode == Mode::LockAll {
                self.heed_target(operation, rank, target)?;
                self.take_shared(operation, rank, route)?;
                target.change_held(Held::No, Held::Shared, false);
                self.entered().push(rank);
                self.any_entered.store(true, Ordering::Relaxed);
            }
            target.set_entered(self.serial());
            Ok(())
        })?;
        Ok(target)
    }
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window")
            .field("name", &self.name())
            .field("flavor", &self.flavor())
            .field("rank", &self.rank())
            .field("ranks", &self.ranks())
            .field("size", &self.size())
            .field("disp_unit", &self.disp_unit())
            .finish_non_exhaustive()
    }
}
