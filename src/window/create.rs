//! Creating windows: register, then exchange what peers need to know.
//!
//! Each rank writes its entry into its own block, before it takes part in the merge and never again. Origins read it at
//! their first access. What all ranks have to know is merged (`summary`); each rank checks that merging its own summary
//! again changes nothing. A failure on one rank is an error on all ranks, which names the lowest such rank.
//!
//! Blocks are usually at the same place on all ranks. If not, because ranks have made different windows, an allgather
//! in the same call gives the place of each rank's block, and each rank takes its next block behind the highest of
//! these places. An impossible entry, summary or place aborts the job, and the error names the rank.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use rdma_sys_shim::{
    Access, AtomicDomain, Device, LocalRegion, Nearest, RemoteRegion, TargetThread, take_fences,
};

use super::attributes::Attributes;
use super::entry::Entry;
use super::hints::{Common, Hints};
use super::layout::{BARRIER_AT, BlockLayout};
use super::pairs::Pairs;
use super::summary::{ABILITIES, Summary};
use super::targets::Targets;
use super::{Epochs, Info, RankParts, Window, WindowMemory};
use crate::comm::{Barrier, Communicator, Merged, Team, barrier_bytes, merge_bytes};
use crate::datatype::AtomicWidths;
use crate::diagnostics::{self, Counters};
use crate::error::{Error, Misuse, Result};
use crate::memory::columns::Column;
use crate::memory::control::{ControlBlock, may_be_block};
use crate::memory::in_flight::{self, InFlightFlags};
use crate::peers::not_forked;
use crate::terms::Flavor;

/// Bytes that each rank sends about its part.
pub(crate) const CREATE_BYTES: u64 = merge_bytes::<Summary>();

/// The number of the next window that this rank makes. It names windows in messages, reports and traces, where two may
/// have one name after 2^32 of them.
static NEXT_NUMBER: AtomicU32 = AtomicU32::new(1);

/// A flag beside those of the hints: whether this rank maps the memory of all ranks.
const SHARES_HOST: u64 = 1 << 33;
/// A flag beside it: whether this rank sets a flag during single atomics.
const FLAGS: u64 = 1 << 34;
/// A flag beside it: whether the device's atomics on this rank's memory are atomic to the processor's.
const GLOBAL: u64 = 1 << 35;
/// A flag beside it: whether several of this rank's threads may carry out single atomics at a time. It holds for the
/// window if any rank has it.
const THREADS: u64 = 1 << 36;
/// A flag beside it: whether this rank is oversubscribed.
const OVERSUBSCRIBED: u64 = 1 << 37;
const _: () = assert!((SHARES_HOST | FLAGS | GLOBAL | THREADS | OVERSUBSCRIBED) & !ABILITIES == 0);

/// The call that makes a window, and its arguments.
#[derive(Clone, Copy)]
pub(super) struct Created {
    pub(super) operation: &'static str,
    pub(super) flavor: Flavor,
    pub(super) size: usize,
    pub(super) disp_unit: u64,
}

/// Memory as peers reach it, and as this rank reaches it.
pub(super) struct Exposed {
    pub(super) memory: WindowMemory,
    pub(super) remote: RemoteRegion,
    pub(super) base: *mut u8,
}

impl From<LocalRegion> for Exposed {
    fn from(region: LocalRegion) -> Self {
        Self {
            remote: region.remote(),
            base: region.base(),
            memory: WindowMemory::Region { _owned: region },
        }
    }
}

/// What a rank has prepared from its own arguments.
struct Prepared {
    exposed: Exposed,
    block: ControlBlock,
    hints: Hints,
    entry: Entry,
    summary: Summary,
}

impl Window {
    /// Collective. A window over memory that the library allocates: `size` zeroed bytes on this rank, aligned to 64
    /// bytes or as the hint `mpi_minimum_memory_alignment` says. Sizes, displacement units (in bytes) and hints may
    /// differ by rank ([`Info`] says which hints are then in force); a size of 0 is legal (MPI-4.1, section 12.2.2,
    /// `MPI_Win_allocate`).
    ///
    /// # Errors
    /// On every rank if one rank fails: a unit that is not 1 to 2^63 − 1, a malformed hint, sizes or units that differ
    /// although all ranks promised equal ones, out of memory, a rank that died or left.
    pub fn allocate(comm: &Communicator, size: usize, disp_unit: u64, info: &Info) -> Result<Self> {
        let created = Created {
            operation: "allocate",
            flavor: Flavor::Allocate,
            size,
            disp_unit,
        };
        Self::build(comm, created, info, |hints, device| {
            Ok(device.allocate(size, hints.alignment)?.into())
        })
    }

    /// Collective. A window over `size` bytes at `base` that the caller owns: heap, stack, static or mapped memory of
    /// any alignment, memory of [`Job::alloc_mem`](crate::Job::alloc_mem), or memory that is already in another window.
    /// Sizes, displacement units (in bytes) and hints may differ by rank ([`Info`] says which hints are then in force);
    /// a size of 0 is legal (MPI-4.1, section 12.2.1, `MPI_Win_create`).
    ///
    /// If the memory is read-only, puts and accumulates fail at their origin, at the latest when they are completed. If
    /// elements are in several windows, accumulates on them are atomic to each other only through one window (MPI-4.1,
    /// section 12.2.1).
    ///
    /// On the soft device the memory stays where it is. Other ranks access memory of `alloc_mem` like that of
    /// [`Window::allocate`]. They access all other memory by system calls, with accumulates under a lock of the window,
    /// to which atomics of this rank's own processor are not atomic.
    ///
    /// # Errors
    /// On every rank if one rank fails: memory that is not mapped, a unit that is not 1 to 2^63 − 1, a malformed hint,
    /// sizes or units that differ although all ranks promised equal ones, out of memory, a rank that died or left.
    ///
    /// # Safety
    /// Until the window is freed, the memory stays mapped, and all other code that accesses it allows for the peers'
    /// accesses: no Rust reference rules them out.
    pub unsafe fn create(
        comm: &Communicator,
        base: *mut u8,
        size: usize,
        disp_unit: u64,
        info: &Info,
    ) -> Result<Self> {
        let created = Created {
            operation: "create",
            flavor: Flavor::Create,
            size,
            disp_unit,
        };
        Self::build(comm, created, info, |_, device| {
            if base.is_null() && size > 0 {
                return Err(Error::new("create", Misuse::NullBuffer { len: size }));
            }
            // SAFETY: the caller of `create` makes the promises of `register` until the window is freed; a window that
            // is dropped instead never drops the region.
            let region = unsafe { device.register(base, size, Access::ALL)? };
            Ok(region.into())
        })
    }

    /// Collective. `expose` makes this rank's memory; it fails only where all ranks hear of the failure.
    pub(super) fn build(
        comm: &Communicator,
        created: Created,
        info: &Info,
        expose: impl FnOnce(&Hints, &dyn Device) -> Result<Exposed>,
    ) -> Result<Self> {
        let operation = created.operation;
        not_forked(operation)?;
        let _call = diagnostics::in_call(operation);
        let layout = BlockLayout::new(barrier_bytes(&comm.team().rings));
        let prepared = prepare(comm.team(), &layout, created, info, expose);
        let prepared = prepared.map_err(|error| error.during(operation));
        let (own, all, blocks) = exchange(comm, created, prepared)?;
        // Every rank finds the same violation, and no rank uses the window then.
        if let Some(broken) = all.broken_promise(&own.hints) {
            return Err(Error::new(operation, broken));
        }
        let agreed = Agreed::new(comm.team(), &all);
        let parts = RankParts {
            own: own.entry,
            sizes: all.sizes,
            units: all.units,
            counters: all.counters as u32,
            blocks,
        };
        let window = Self::assemble(comm.team(), layout, created, own, agreed, parts);
        window.log_creation();
        Ok(window)
    }

    /// Makes a window of what all ranks have agreed on.
    fn assemble(
        team: &Team,
        layout: BlockLayout,
        created: Created,
        own: Prepared,
        agreed: Agreed,
        parts: RankParts,
    ) -> Self {
        let Prepared {
            exposed,
            block,
            hints,
            ..
        } = own;
        let block = Arc::new(block);
        let counts = hints.statistics || diagnostics::counts_all();
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let concurrent = team.context.concurrent();
        Self {
            barrier: Barrier::new(team, &block, BARRIER_AT, agreed.oversubscribed),
            out_of_step: AtomicBool::new(false),
            targets: Targets::new(team.size()),
            base: match exposed.memory {
                // The part has a place between its neighbours' even if it is empty.
                WindowMemory::Shared(_) => exposed.base,
                _ if created.size == 0 => std::ptr::null_mut(),
                _ => exposed.base,
            },
            memory: Some(exposed.memory),
            flavor: created.flavor,
            atomic_widths: agreed.atomic_widths(team, hints.common.granularity),
            shares_host: agreed.shares_host,
            atomic_domain: agreed.atomic_domain,
            flags: (agreed.flags).then(|| InFlightFlags::new(&team.fabric.control, concurrent)),
            in_flight_flags_of_each: in_flight::count(agreed.threads),
            eager_lock_all: AtomicBool::new(hints.eager_lock_all),
            handed_out: OnceLock::new(),
            locks_aside: hints.no_locks() || counts || team.context.patience().is_oversubscribed(),
            counters: counts.then(|| Counters::new(number, created.flavor)),
            number,
            refuses_locks: hints.no_locks(),
            logged_lock: AtomicBool::new(false),
            tolerates_any_epoch: false,
            logged_epoch: AtomicBool::new(false),
            hints,
            attributes: Attributes::default(),
            error_handler: Mutex::default(),
            parts,
            team: team.clone(),
            epochs: Epochs::new(),
            // In a window that counts, completing all targets has to ask each of them.
            device_used: AtomicBool::new(counts),
            layout,
            pairs: Pairs::default(),
            block,
        }
    }
}

/// Local. Prepares this rank's memory, its block with the entry, and the message to all other ranks.
fn prepare(
    team: &Team,
    layout: &BlockLayout,
    created: Created,
    info: &Info,
    expose: impl FnOnce(&Hints, &dyn Device) -> Result<Exposed>,
) -> Result<Prepared> {
    created.check()?;
    let hints = Hints::parse(info)?;
    let exposed = expose(&hints, &*team.fabric.device)?;
    let control = &team.fabric.control;
    let block = control.allocate_alike(layout.bytes(hints.notification_counters))?;
    let entry = Entry {
        base: exposed.remote.address,
        size: exposed.remote.len,
        rkey: exposed.remote.rkey,
        unit: created.disp_unit,
        counters: hints.notification_counters.into(),
    };
    entry.write_to(&block);
    let abilities = abilities(team, created.flavor, &exposed.remote);
    Ok(Prepared {
        summary: Summary::of(team.rank, &entry, block.place(), hints.common, abilities),
        entry,
        exposed,
        block,
        hints,
    })
}

/// The [`ABILITIES`] of this rank.
fn abilities(team: &Team, flavor: Flavor, exposed: &RemoteRegion) -> u64 {
    let may_share = matches!(flavor, Flavor::Allocate | Flavor::Create);
    let device = team.fabric.device.capabilities();
    let said = [
        (SHARES_HOST, may_share && shares_host(team, exposed)),
        // Only if the kernel makes the fences that other ranks rely on.
        (FLAGS, flavor == Flavor::Allocate && take_fences()),
        (GLOBAL, device.atomic_domain == AtomicDomain::Global),
        (THREADS, team.context.concurrent()),
        (OVERSUBSCRIBED, team.context.patience().is_oversubscribed()),
    ];
    let said = said.iter().filter(|(_, is_so)| *is_so);
    said.fold(0, |flags, (flag, _)| flags | flag)
}

/// Collective. Exchanges what the ranks have prepared. Returns this rank's, all ranks' data, and the places of their
/// blocks.
fn exchange(
    comm: &Communicator,
    created: Created,
    prepared: Result<Prepared>,
) -> Result<(Prepared, Summary, Column<u64>)> {
    let operation = created.operation;
    let mine = prepared.as_ref().map(|own| own.summary);
    let merged = comm.merge_on(operation, mine, Summary::merge);
    let mut own = prepared?;
    let agreed = merged.and_then(|mut merged| {
        let all = merged.value;
        if !all.names_ranks_below(comm.size()) {
            let what = "what another rank passed on as the value";
            return Err(comm.garbled(operation, comm.rank(), what));
        }
        let blocks = find_blocks(comm, operation, &mut merged, &own.block)?;
        agree_on_hints(comm, created, &mut merged, &mut own.hints)?;
        Ok((all, blocks))
    });
    match agreed {
        Ok((all, blocks)) => Ok((own, all, blocks)),
        Err(error) => {
            if !error.is_known_everywhere() {
                // Some ranks may believe that the window exists.
                mem::forget(own);
            }
            Err(error)
        }
    }
}

/// Collective. The places of the ranks' blocks: gathered only if they are not all equal.
fn find_blocks(
    comm: &Communicator,
    operation: &'static str,
    merged: &mut Merged<'_, Summary>,
    block: &ControlBlock,
) -> Result<Column<u64>> {
    if !merged.value.blocks_differ() {
        return Ok(Column::Uniform(block.place()));
    }
    // So that the next window's blocks are at the same place again.
    let control = &comm.team().fabric.control;
    control.go_on_behind(merged.value.highest_block(), block.len());
    let all = merged.gather(block.place())?;
    match (0..).zip(&all).find(|&(_, &place)| !may_be_block(place)) {
        None => Ok(Column::PerRank(all.into())),
        Some((rank, _)) => Err(comm.garbled(operation, rank, "the part of the window")),
    }
}

/// Collective. Takes the hints that are in force on all ranks; rank 0 logs those that differ.
fn agree_on_hints(
    comm: &Communicator,
    created: Created,
    merged: &mut Merged<'_, Summary>,
    hints: &mut Hints,
) -> Result<()> {
    let Common { flags, granularity } = hints.common;
    let [strong, weak] = merged.value.hints();
    hints.take_weakest([strong, weak].into_iter());
    if strong == weak || merged.value.broken_promise(hints).is_some() {
        return Ok(());
    }
    let all = merged.gather([flags, granularity])?;
    let all = all
        .iter()
        .map(|&[flags, granularity]| Common { flags, granularity });
    if comm.rank() == 0 {
        hints.log_differences(created.flavor, all);
    }
    Ok(())
}

/// How all ranks access each other's words.
struct Agreed {
    shares_host: bool,
    atomic_domain: AtomicDomain,
    /// Whether all ranks set flags during single atomics, and whether any rank may do so in several threads at a time.
    /// Accumulates through the device do not look at flags: memory of such a window is mapped, or refused.
    flags: bool,
    threads: bool,
    /// Whether all ranks are oversubscribed.
    oversubscribed: bool,
}

impl Agreed {
    fn new(team: &Team, ranks: &Summary) -> Self {
        let all = |ability| ranks.of_all & ability != 0;
        let shares_host = all(SHARES_HOST);
        let device = team.fabric.device.capabilities();
        let atomic_domain = match device.atomic_domain {
            _ if shares_host => AtomicDomain::Cpu,
            // Each rank's device describes the memory of that rank only.
            AtomicDomain::Global if !all(GLOBAL) => AtomicDomain::Device,
            domain => domain,
        };
        Self {
            shares_host,
            atomic_domain,
            flags: atomic_domain == AtomicDomain::Cpu
                && device.target_thread != TargetThread::ForAll
                && all(FLAGS),
            threads: ranks.of_any & THREADS != 0,
            oversubscribed: all(OVERSUBSCRIBED),
        }
    }

    fn atomic_widths(&self, team: &Team, granularity: u64) -> AtomicWidths {
        let device = team.fabric.device.capabilities();
        match self.shares_host {
            true => AtomicWidths::of_processor(granularity),
            false => AtomicWidths::new(device.narrow_atomics, self.atomic_domain, granularity),
        }
    }
}

impl Created {
    pub(super) fn check(&self) -> Result<()> {
        if self.size > isize::MAX as usize {
            let misuse = Misuse::BadSize {
                size: self.size as u64,
                reason: "an object has at most 2^63 − 1 bytes",
            };
            return Err(Error::new(self.operation, misuse));
        }
        if self.disp_unit == 0 || self.disp_unit > i64::MAX as u64 {
            let unit = self.disp_unit;
            return Err(Error::new(self.operation, Misuse::BadUnit { unit }));
        }
        Ok(())
    }
}

/// Whether this rank maps its own exposed memory and that of all other ranks, on a device with its own atomics: then
/// the processor's atomics can be used instead.
fn shares_host(team: &Team, exposed: &RemoteRegion) -> bool {
    let device = &team.fabric.device;
    if device.nearest() != Nearest::OfHost || !team.rings.one_host {
        return false;
    }
    // A rank that cannot be connected causes an error when it is used.
    let maps = |rank| {
        team.connect_to(rank)
            .is_ok_and(|peer| peer.control().is_mapped())
    };
    let maps_own = || {
        let own = team.connect_to(team.rank);
        own.is_ok_and(|own| matches!(own.endpoint().map(exposed), Ok(Some(_))))
    };
    (exposed.len == 0 || maps_own()) && (0..team.size()).all(maps)
}
