//! Creating windows: register, then exchange what peers need to know.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use bytemuck::{Pod, Zeroable};
use rdma_sys_shim::{
    Access, AtomicDomain, Device, Nearest, Region, RemoteRegion, TargetThread, take_fences,
};

use super::attributes::Attributes;
use super::errors::Handler;
use super::handed_out::HandedOut;
use super::hints::{Common, Hints, SAME_SIZE_BIT, SAME_UNIT_BIT};
use super::info::{SAME_DISP_UNIT, SAME_SIZE};
use super::layout::{BARRIER_AT, BlockLayout};
use super::pairs::Pairs;
use super::targets::Targets;
use super::{Columns, Epochs, Info, Window, WindowMemory};
use crate::comm::{Barrier, Communicator, Team, barrier_bytes};
use crate::datatype::AtomicWidths;
use crate::diagnostics::{self, Counters};
use crate::error::{AbortCause, Error, Misuse, PeerError, Result};
use crate::memory::columns::Column;
use crate::memory::control::{ControlBlock, may_be_block};
use crate::memory::in_flight::{self, InFlightFlags};
use crate::peers::not_forked;
use crate::terms::Flavor;

/// Of the next window that this rank makes.
static NEXT_NUMBER: AtomicU32 = AtomicU32::new(1);

/// What each rank tells the others.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Entry {
    base: u64,
    size: u64,
    rkey: u64,
    block: u64,
    granularity: u64,
    /// How many notification counters this rank has.
    notifications: u64,
    unit: u64,
    /// The flags of [`Common`], and [`OF_ALL`].
    hints: u64,
}

impl Entry {
    /// Whether a rank can have told this. Where its memory is, the device checks.
    fn makes_sense(&self) -> bool {
        self.size <= isize::MAX as u64
            && self.base.checked_add(self.size).is_some()
            && (1..=i64::MAX as u64).contains(&self.unit)
            && may_be_block(self.block)
            && self.notifications <= u32::MAX.into()
    }

    fn exposed(&self) -> RemoteRegion {
        RemoteRegion {
            address: self.base,
            len: self.size,
            rkey: self.rkey,
        }
    }

    fn common(&self) -> Common {
        Common {
            flags: self.hints & !OF_ALL,
            granularity: self.granularity,
        }
    }
}

/// Beside the hints, whether this rank maps what all of them have.
const SHARES_HOST: u64 = 1 << 33;
/// Beside it, whether this rank says when it is at single atomics.
const FLAGS: u64 = 1 << 34;
/// Beside it, whether the device's atomics on this rank's memory are atomic to the processor's.
const GLOBAL: u64 = 1 << 35;
/// Beside it, whether several of its threads may be at them at a time: so it is where any rank says it.
const THREADS: u64 = 1 << 36;
/// Beside it, whether it is oversubscribed.
const TURNS: u64 = 1 << 37;
/// What is agreed on where all ranks say it, and no hint.
const OF_ALL: u64 = SHARES_HOST | FLAGS | GLOBAL | THREADS | TURNS;

/// The call that makes a window, and its arguments.
#[derive(Clone, Copy)]
pub(super) struct Created {
    pub(super) operation: &'static str,
    pub(super) flavor: Flavor,
    pub(super) size: usize,
    pub(super) disp_unit: u64,
}

/// Memory as peers reach it, and as this rank does.
pub(super) struct Exposed {
    pub(super) memory: WindowMemory,
    pub(super) remote: RemoteRegion,
    pub(super) base: *mut u8,
}

impl From<Region> for Exposed {
    fn from(region: Region) -> Self {
        Self {
            remote: region.remote(),
            base: region.base(),
            memory: WindowMemory::Region { _owned: region },
        }
    }
}

/// What a rank has made of its own arguments.
struct Prepared {
    exposed: Exposed,
    block: ControlBlock,
    hints: Hints,
    entry: Entry,
}

impl Window {
    /// Collective. A window over memory that the library allocates: `size` zeroed bytes on this
    /// rank, aligned to 64 or as the hint `mpi_minimum_memory_alignment` says. Sizes, displacement
    /// units (in bytes) and hints may differ by rank ([`Info`] says what is in force then); a size
    /// of 0 is legal (MPI-4.1, section 12.2.2, `MPI_Win_allocate`).
    ///
    /// # Errors
    /// On every rank if one rank fails: a unit that is not 1 to 2^63 − 1, a malformed hint, sizes or
    /// units that differ against a promise of all ranks, out of memory, a rank that died or left.
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

    /// Collective. A window over `size` bytes at `base` that the caller owns: heap, stack, static
    /// or mapped memory of any alignment, memory of [`Job::alloc_mem`](crate::Job::alloc_mem), or
    /// memory that is in another window already. Sizes, displacement units (in bytes) and hints may
    /// differ by rank ([`Info`] says what is in force then); a size of 0 is legal (MPI-4.1, section
    /// 12.2.1, `MPI_Win_create`).
    ///
    /// Over memory that is readable only, puts and accumulates fail at their origin, at the latest
    /// when they are completed. Accumulates on elements that lie in several windows are atomic to
    /// each other only through one of these (MPI-4.1, section 12.2.1).
    ///
    /// On the soft device the memory stays where it is: others reach memory of `alloc_mem` as that of
    /// [`Window::allocate`], and all other memory through system calls, with accumulates under a lock
    /// of the window. Atomics of this rank's own processor are not atomic to these.
    ///
    /// # Errors
    /// On every rank if one rank fails: memory that is not mapped, a unit that is not 1 to
    /// 2^63 − 1, a malformed hint, sizes or units that differ against a promise of all ranks, out of
    /// memory, a rank that died or left.
    ///
    /// # Safety
    /// Until the window is freed, the memory stays mapped, and every access to it expects what the
    /// peers do: no Rust reference forbids it.
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
            // SAFETY: the caller of `create` makes the promises that `register` asks for, until
            // the window is freed; a window that is dropped instead never drops the region.
            let region = unsafe { device.register(base, size, Access::ALL)? };
            Ok(region.into())
        })
    }

    /// Collective. `expose` makes this rank's memory; it fails only where all ranks hear of it.
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
        let (mut own, entries) = exchange(comm, operation, prepared)?;
        settle_hints(comm, created, &mut own.hints, &entries)?;
        let agreed = Agreed::new(comm.team(), &entries);
        let window = Self::assemble(comm.team(), layout, created, own, agreed, &entries);
        window.log_creation();
        Ok(window)
    }

    /// What all ranks have agreed on, as a window.
    fn assemble(
        team: &Team,
        layout: BlockLayout,
        created: Created,
        own: Prepared,
        agreed: Agreed,
        entries: &[Entry],
    ) -> Self {
        let Prepared {
            exposed,
            block,
            hints,
            ..
        } = own;
        let block = Arc::new(block);
        let watched = hints.statistics || diagnostics::counts_all();
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let concurrent = team.context.concurrent();
        Self {
            barrier: Barrier::new(team, &block, BARRIER_AT, agreed.turns),
            out_of_step: AtomicBool::new(false),
            targets: Targets::new(team.size()),
            base: match exposed.memory {
                // Between its neighbours' also where it has no bytes.
                WindowMemory::Segment(_) => exposed.base,
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
            handed_out: HandedOut::default(),
            locks_aside: hints.no_locks() || watched || team.context.patience().is_oversubscribed(),
            counters: watched.then(|| Counters::new(number, created.flavor)),
            number,
            refuses_locks: hints.no_locks(),
            logged_lock: AtomicBool::new(false),
            hints,
            attributes: Attributes::default(),
            error_handler: Handler::default(),
            columns: Columns::new(entries),
            team: team.clone(),
            epochs: Epochs::new(),
            // What completes all targets asks each of them in a watched window.
            device_used: AtomicBool::new(watched),
            layout,
            pairs: Pairs::default(),
            block,
        }
    }
}

/// Local. Makes what this rank brings: its memory, its block, and what it tells the others.
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
    let Common { flags, granularity } = hints.common;
    Ok(Prepared {
        entry: Entry {
            base: exposed.remote.address,
            size: exposed.remote.len,
            rkey: exposed.remote.rkey,
            block: block.place(),
            granularity,
            unit: created.disp_unit,
            notifications: hints.notification_counters.into(),
            hints: flags | abilities(team, created.flavor, &exposed.remote),
        },
        exposed,
        block,
        hints,
    })
}

/// Which of [`OF_ALL`] this rank says.
fn abilities(team: &Team, flavor: Flavor, exposed: &RemoteRegion) -> u64 {
    let may_share = matches!(flavor, Flavor::Allocate | Flavor::Create);
    let device = team.fabric.device.capabilities();
    let said = [
        (SHARES_HOST, may_share && shares_host(team, exposed)),
        // Where the kernel makes the fences that others wait for.
        (FLAGS, flavor == Flavor::Allocate && take_fences()),
        (GLOBAL, device.atomic_domain == AtomicDomain::Global),
        (THREADS, team.context.concurrent()),
        (TURNS, team.context.patience().is_oversubscribed()),
    ];
    let said = said.iter().filter(|(_, is_so)| *is_so);
    said.fold(0, |flags, (flag, _)| flags | flag)
}

/// Collective. Tells the others what this rank brings, and returns it with what all have told.
fn exchange(
    comm: &Communicator,
    operation: &'static str,
    prepared: Result<Prepared>,
) -> Result<(Prepared, Vec<Entry>)> {
    let told = comm.agree_on(operation, prepared.as_ref().map(|own| own.entry));
    let own = prepared?;
    let entries = match told {
        Ok(entries) => entries,
        Err(error) => {
            if !error.is_known_everywhere() {
                // Some ranks may think that the window exists.
                mem::forget(own);
            }
            return Err(error);
        }
    };
    if let Err(garbled) = check_entries(comm.team(), operation, &own.exposed.memory, &entries) {
        // Other ranks may have been told something else, and think that the window exists.
        mem::forget(own);
        (comm.team().context).abort_everywhere(AbortCause::FoundGarbled);
        return Err(garbled);
    }
    Ok((own, entries))
}

/// Takes the hints that hold for all ranks. Every rank finds the same broken promise, and then nobody uses the window.
fn settle_hints(
    comm: &Communicator,
    created: Created,
    hints: &mut Hints,
    entries: &[Entry],
) -> Result<()> {
    let common = || entries.iter().map(Entry::common);
    hints.settle(common());
    check_promises(created.operation, hints, entries)?;
    if comm.rank() == 0 {
        hints.log_differences(created.flavor, common());
    }
    Ok(())
}

/// How all ranks get at each other's words.
struct Agreed {
    shares_host: bool,
    atomic_domain: AtomicDomain,
    /// Whether all ranks say when they are at single atomics, and any of them may be by several threads at a time.
    flags: bool,
    threads: bool,
    /// Whether all are oversubscribed.
    turns: bool,
}

impl Agreed {
    fn new(team: &Team, entries: &[Entry]) -> Self {
        let all = |said| entries.iter().all(|entry| entry.hints & said != 0);
        let shares_host = all(SHARES_HOST);
        let device = team.fabric.device.capabilities();
        let atomic_domain = match device.atomic_domain {
            _ if shares_host => AtomicDomain::Cpu,
            // Each rank's device speaks for the memory of that rank only.
            AtomicDomain::Global if !all(GLOBAL) => AtomicDomain::Device,
            domain => domain,
        };
        Self {
            shares_host,
            atomic_domain,
            flags: atomic_domain == AtomicDomain::Cpu
                && device.target_thread != TargetThread::ForAll
                && all(FLAGS),
            threads: entries.iter().any(|entry| entry.hints & THREADS != 0),
            turns: all(TURNS),
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

impl Columns {
    fn new(entries: &[Entry]) -> Self {
        let of = |value: fn(&Entry) -> u64| Column::new(entries.iter().map(value));
        Self {
            base: of(|entry| entry.base),
            size: of(|entry| entry.size),
            unit: of(|entry| entry.unit),
            rkey: of(|entry| entry.rkey),
            block: Arc::new(of(|entry| entry.block)),
            notifications: Column::new(entries.iter().map(|entry| entry.notifications as u32)),
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

/// Whether this rank maps its own memory, as it exposes it, and what all others have: over a device whose atomics are
/// its own, the processor can then do without.
fn shares_host(team: &Team, exposed: &RemoteRegion) -> bool {
    let device = &team.fabric.device;
    if device.nearest() != Nearest::OfHost || !team.rings.one_host {
        return false;
    }
    // What cannot be connected to will say so when it is used.
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

/// Fails if a rank tells of a part what cannot be.
fn check_entries(
    team: &Team,
    operation: &'static str,
    memory: &WindowMemory,
    entries: &[Entry],
) -> Result<()> {
    let makes_sense = |entry: &Entry| match memory {
        WindowMemory::Segment(segment) => segment.part(&entry.exposed()).is_some(),
        _ => true,
    } && entry.makes_sense();
    let mut all = (0..).zip(entries);
    match all.find(|(_, entry)| !makes_sense(entry)) {
        None => Ok(()),
        Some((rank, _)) => {
            let rank = team.world_rank(rank).0;
            let what = "the part of the window";
            Err(Error::new(operation, PeerError::Garbled { rank, what }))
        }
    }
}

fn check_promises(operation: &'static str, hints: &Hints, entries: &[Entry]) -> Result<()> {
    let Some(first) = entries.first() else {
        return Ok(());
    };
    for (rank, entry) in (0..).zip(entries) {
        let broken = |key, first: u64, other: u64| {
            let misuse = Misuse::BrokenPromise {
                key,
                rank,
                first,
                other,
            };
            Err(Error::new(operation, misuse))
        };
        if hints.has(SAME_SIZE_BIT) && entry.size != first.size {
            return broken(SAME_SIZE, first.size, entry.size);
        }
        if hints.has(SAME_UNIT_BIT) && entry.unit != first.unit {
            return broken(SAME_DISP_UNIT, first.unit, entry.unit);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_cannot_be_is_known() {
        let entry = Entry {
            base: 4096,
            size: 64,
            rkey: 1,
            block: 128,
            granularity: 0,
            notifications: 8,
            unit: 1,
            hints: 0,
        };
        let most = i64::MAX as u64;
        let legal = [
            entry,
            Entry {
                size: 0,
                base: 0,
                ..entry
            },
            Entry {
                unit: most,
                ..entry
            },
            Entry {
                size: most,
                ..entry
            },
        ];
        assert!(legal.iter().all(Entry::makes_sense));
        let lies = [
            Entry {
                base: u64::MAX,
                ..entry
            },
            Entry {
                size: most + 1,
                ..entry
            },
            Entry {
                base: most + 2,
                size: most,
                ..entry
            },
            Entry { unit: 0, ..entry },
            Entry {
                unit: most + 1,
                ..entry
            },
            Entry {
                block: 129,
                ..entry
            },
            Entry {
                block: u64::MAX - 63,
                ..entry
            },
            Entry {
                notifications: 1 << 32,
                ..entry
            },
        ];
        for lie in &lies {
            assert!(
                !lie.makes_sense(),
                "{:#x} {:#x} {:#x}",
                lie.base,
                lie.size,
                lie.block
            );
        }
    }
}
