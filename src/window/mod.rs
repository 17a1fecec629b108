//! Windows: memory of every rank of a communicator, exposed to all of them.

mod attach;
mod attributes;
mod compared;
pub(crate) mod contacts;
mod copied;
mod counters;
mod create;
mod dynamic;
mod entry;
mod epochs;
mod errors;
mod free;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod handed_out;
mod hints;
mod info;
mod kind;
mod layout;
mod log;
mod on_target;
mod own;
pub(crate) mod pairs;
mod progress;
mod route;
mod shared;
mod summary;
pub(crate) mod target;
mod targets;
mod unflushed;
mod unknown_hint;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use rdma_sys_shim::{AtomicDomain, LocalRegion, Ticket};

pub use attach::get_address;
pub use attributes::{CallbackResult, Keyval};
pub use copied::create_copied;
pub use errors::{ErrorFunction, ErrorHandler};
pub use hints::aligned_for;
pub use info::Info;
pub use kind::MemoryModel;
pub use progress::Progress;
pub use shared::SharedPart;

pub(crate) use create::CREATE_BYTES;
pub(crate) use dynamic::{KeptMapped, RegionCache};
pub(crate) use epochs::{Admission, Epochs, Held, Mode};
pub(crate) use info::NOTIFICATION_COUNTERS;
pub(crate) use layout::{BlockLayout, CALL_AT, QUEUE_BEHIND};
pub(crate) use on_target::OnTarget;
pub(crate) use pairs::PairTable;
pub(crate) use targets::{Targets, held_locks};
pub(crate) use unknown_hint::similar as similar_hint;

use crate::comm::{Barrier, Team};
use crate::datatype::AtomicWidths;
use crate::diagnostics::Counters;
use crate::error::Result;
use crate::memory::columns::Column;
use crate::memory::control::ControlBlock;
use crate::memory::in_flight::{self, InFlightFlags};
use crate::memory::rank_set::RankSet;
use crate::memory::remote::RemoteWord;
use crate::peers::Context;
use crate::terms::{Aim, Flavor};
use compared::Compared;
use entry::Entry;
use hints::Hints;
use pairs::Pairs;
use target::Target;

/// Memory of every rank of a communicator. Other ranks put into it, get from it and accumulate on it (MPI-4.1, chapter
/// 12). This is the untyped, byte-addressed form, which checks every rule at run time.
///
/// # Threads
/// Threads can share a window. If the job has [`ThreadLevel::Multiple`](crate::ThreadLevel), several threads at once
/// may call one-sided operations, `lock`, `unlock`, `flush` and their variants. Collective calls (`fence`, `free`) and
/// `lock_all`/`unlock_all` must not overlap with any other call on the same window. `start` and `complete` must not
/// overlap with each other, nor with operations; the same holds for `post`, `wait` and `test` among themselves. One
/// thread may expose the window while another accesses it.
///
/// # Forks
/// A forked child is not a rank: all calls fail there, except those that only look something up, and change nothing for
/// the job. Children of `_Fork` and of a raw `clone` are not recognised.
///
/// # Alignment
/// Atomics on an integer that is not aligned to its size (a window over memory at an odd address, or an odd
/// displacement) take a lock at the target instead of one locked instruction, like atomics on other types.
///
/// # Giving a window up
/// After another rank has died, [`Window::free`] fails, like all other calls that wait for all ranks.
/// [`Window::read_own`] still copies this rank's own memory, and dropping the window gives it up without waiting.
///
/// A window that is dropped leaks its memory, and logs this unless the job was aborted. The memory stays allocated and
/// registered until the process ends, on every device, because ranks that live may still write to it: a mapping cannot
/// be taken back, and an operation that is under way knows only an address, which other data would have by then. For
/// the same reason, memory that the program gave to [`Window::create`] has to stay mapped until the process ends, and
/// may be written to.
pub struct Window {
    pub(crate) team: Team,
    /// Numbers this rank's windows in the order of creation.
    number: u32,
    base: *mut u8,
    /// `None` once freed.
    memory: Option<WindowMemory>,
    flavor: Flavor,
    hints: Hints,
    /// Whether locks are errors: all ranks gave the hint `no_locks`, and the front end enforces it.
    pub(crate) refuses_locks: bool,
    /// Whether the log has reported locks despite that hint.
    logged_lock: AtomicBool,
    /// Whether requests and `sync` are legal outside passive-target epochs.
    pub(crate) tolerates_any_epoch: bool,
    /// Whether the log has reported the first of these calls.
    logged_epoch: AtomicBool,
    eager_lock_all: AtomicBool,
    /// The ranks whose memory this rank has a pointer to, in windows that `allocate_shared` did not make.
    handed_out: OnceLock<RankSet>,
    attributes: attributes::Attributes,
    error_handler: Mutex<ErrorHandler>,
    pub(crate) parts: RankParts,
    pub(crate) block: Arc<ControlBlock>,
    pub(crate) barrier: Barrier,
    /// Whether a barrier failed: then the ranks are out of step.
    pub(crate) out_of_step: AtomicBool,
    pub(crate) targets: Targets,
    pub(crate) epochs: Epochs,
    /// Whether any operation on the device did not complete at once: then synchronisation has to ask the device.
    device_used: AtomicBool,
    pub(crate) layout: BlockLayout,
    pub(crate) pairs: Pairs,
    pub(crate) atomic_widths: AtomicWidths,
    /// Whether all ranks share a host and map each other's memory, on a device with its own atomics. Then the
    /// processor's atomics change the words of the window and of its blocks.
    shares_host: bool,
    atomic_domain: AtomicDomain,
    /// The flags that this rank sets during single atomics, if all ranks do so.
    pub(crate) flags: Option<InFlightFlags>,
    /// The most of these flags that a rank has.
    in_flight_flags_of_each: usize,
    /// Present if the window counts.
    pub(crate) counters: Option<Arc<Counters>>,
    /// Whether locks leave the fast path: they are errors, they are counted, or ranks are oversubscribed.
    pub(crate) locks_aside: bool,
}

// SAFETY: `base` is only an address; the other fields are Send.
unsafe impl Send for Window {}
// SAFETY: as above; shared state is atomic or locked.
unsafe impl Sync for Window {}

/// What a window holds while it lives.
enum WindowMemory {
    /// This rank's memory.
    Region { _owned: LocalRegion },
    /// A part of memory that all ranks share.
    Shared(shared::SharedAllocation),
    /// Attached memory.
    Dynamic(dynamic::Regions),
}

/// What is known of the ranks' parts since the window was created. Everything else about a rank's part is read from
/// that rank at the first access.
pub(crate) struct RankParts {
    own: Entry,
    sizes: Compared,
    units: Compared,
    /// The number of notification counters that every rank has.
    counters: u32,
    /// The places of the ranks' blocks.
    pub(crate) blocks: Column<u64>,
}

impl RankParts {
    /// Whether values that are usually equal on all ranks may have to be read from a rank.
    pub(crate) fn differ(&self) -> bool {
        self.sizes.differ() || self.units.differ()
    }
}

impl Window {
    #[inline]
    pub(crate) fn context(&self) -> &Context {
        &self.team.context
    }

    /// The in-flight flags of a rank's threads, except those that are mapped and clear now.
    pub(crate) fn in_flight_flags_of(&self, rank: u32) -> Result<impl Iterator<Item = RemoteWord>> {
        let control = self.team.connect_to(rank)?.control();
        let lines = (0..self.in_flight_flags_of_each).map(in_flight::line);
        let set = lines.filter(|&line| control.look(line) != Some(0));
        Ok(set.map(|line| control.word(line)))
    }

    /// Whether every rank of the window has this notification counter.
    #[inline]
    pub(crate) fn all_have_counter(&self, counter: u32) -> bool {
        counter < self.parts.counters
    }

    /// The number of this rank's notification counters.
    #[inline]
    pub(crate) fn own_counters(&self) -> u32 {
        self.hints.notification_counters
    }

    /// The number of notification counters of a rank of the window.
    pub(crate) fn counters_of(&self, aim: Aim) -> Result<u32> {
        Ok(self.entry_of(aim)?.counters as u32)
    }

    /// Whether the ranks' memory is one allocation.
    pub(crate) fn is_shared_allocation(&self) -> bool {
        matches!(self.memory, Some(WindowMemory::Shared(_)))
    }

    #[inline]
    pub(crate) fn eager_lock_all(&self) -> bool {
        self.eager_lock_all.load(Ordering::Relaxed)
    }

    /// Records an operation that the device may still be working on. One that is already complete may have been stores
    /// of this thread.
    pub(crate) fn note_posted(&self, target: &Target, ticket: Ticket) {
        if ticket == Ticket::DONE {
            return target.set_dirty();
        }
        target.posted.note(ticket);
        self.device_used.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn device_used(&self) -> bool {
        self.device_used.load(Ordering::Relaxed)
    }

    /// The target, if it was entered in the current epoch, so that operations may proceed.
    #[inline]
    pub(crate) fn open_target(&self, rank: u32) -> Option<&Target> {
        let target = self.targets.get(rank as usize)?;
        self.epochs.is_entered(target.epoch()).then_some(target)
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
