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
    pub(crate) team: Team,
    /// In the order in which this rank made its windows.
    number: u32,
    base: *mut u8,
    /// `None` once freed.
    memory: Option<WindowMemory>,
    flavor: Flavor,
    hints: Hints,
    /// Whether locks are errors: all ranks gave the hint `no_locks`, and the front end holds them to it.
    pub(crate) refuses_locks: bool,
    /// Whether the log has told of locks despite that hint.
    logged_lock: AtomicBool,
    eager_lock_all: AtomicBool,
    /// The ranks whose memory this one has a pointer to, in windows where not all have it of all.
    handed_out: OnceLock<RankSet>,
    attributes: attributes::Attributes,
    error_handler: Mutex<ErrorHandler>,
    pub(crate) parts: RankParts,
    pub(crate) block: Arc<ControlBlock>,
    pub(crate) barrier: Barrier,
    /// Whether a barrier failed: then the ranks are not at one point any more.
    pub(crate) out_of_step: AtomicBool,
    pub(crate) targets: Targets,
    pub(crate) epochs: Epochs,
    /// Whether the device ever took time over an operation: then synchronisation asks it.
    device_used: AtomicBool,
    pub(crate) layout: BlockLayout,
    pub(crate) pairs: Pairs,
    pub(crate) atomic_widths: AtomicWidths,
    /// Whether all ranks share a host and map each other's memory, over a device whose atomics are its own: then the
    /// processor's change the words of the window and of its blocks.
    shares_host: bool,
    atomic_domain: AtomicDomain,
    /// Where this rank says that it is at single atomics, if all ranks do.
    pub(crate) flags: Option<InFlightFlags>,
    /// How many of them each rank has, at most.
    in_flight_flags_of_each: usize,
    /// Where it counts.
    pub(crate) counters: Option<Arc<Counters>>,
    /// Whether locks are not for the fast path: there are none, they are counted, or ranks are oversubscribed.
    pub(crate) locks_aside: bool,
}

// SAFETY: `base` is an address to give away; the fields behind the other methods are Send.
unsafe impl Send for Window {}
// SAFETY: as above; shared state is atomic or locked.
unsafe impl Sync for Window {}

/// What a window holds while it lives.
enum WindowMemory {
    /// Memory of this rank.
    Region { _owned: LocalRegion },
    /// A part of what all ranks share.
    Shared(shared::SharedAllocation),
    /// What is attached.
    Dynamic(dynamic::Regions),
}

/// What is known of the ranks' parts since the window was created. All else of a rank's part is read from that rank
/// at the first access.
pub(crate) struct RankParts {
    own: Entry,
    sizes: Compared,
    units: Compared,
    /// So many notification counters every rank has.
    counters: u32,
    /// Where the ranks' blocks stand.
    pub(crate) blocks: Column<u64>,
}

impl RankParts {
    /// Whether a rank may have to be asked for what is usually the same on all.
    pub(crate) fn differ(&self) -> bool {
        self.sizes.differ() || self.units.differ()
    }
}

impl Window {
    #[inline]
    pub(crate) fn context(&self) -> &Context {
        &self.team.context
    }

    /// Where a rank says it, all its threads, but for those that are not seen at any now.
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

    /// How many this rank has.
    #[inline]
    pub(crate) fn own_counters(&self) -> u32 {
        self.hints.notification_counters
    }

    /// How many a rank of the window has.
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

    /// Notes an operation that the device may still be working on. One that it has done already may
    /// have been stores of this very thread.
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

    /// The target, if it was entered in the current epoch: then operations may go ahead.
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
