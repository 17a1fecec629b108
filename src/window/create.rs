//! Creating windows: register, then exchange what peers need to know.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};

use bytemuck::{Pod, Zeroable};
use rdma_sys_shim::{Access, Adoption, Region};

use super::layout::{BARRIER_AT, Layout};
use super::{Columns, Info, Mode, Window};
use crate::comm::{Barrier, Communicator};
use crate::datatype::AtomicWidths;
use crate::error::{Error, Misuse, Result};
use crate::memory::columns::Column;
use crate::memory::control::{ControlBlock, LocalWord};
use crate::sync::{Exposure, Pairs};

/// What each rank tells the others.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Entry {
    base: u64,
    size: u64,
    rkey: u64,
    block: u64,
    granularity: u64,
    unit: u32,
    no_locks: u32,
    notifications: u64,
}

/// What a rank has made of its own arguments.
struct Prepared {
    region: Region,
    block: ControlBlock,
    eager_lock_all: bool,
    entry: Entry,
}

impl Window {
    /// Collective. A window over memory that the library allocates: `size` zeroed bytes on this
    /// rank, page-aligned or as the hint `mpi_minimum_memory_alignment` says. Sizes, displacement
    /// units (in bytes) and hints may differ by rank; a size of 0 is legal (MPI-4.1, section
    /// 12.2.2, `MPI_Win_allocate`).
    ///
    /// # Errors
    /// On every rank if one rank fails: a unit that is not 1 to 2^31 − 1, a malformed hint, out of
    /// memory, a rank that died or left.
    pub fn allocate(comm: &Communicator, size: usize, disp_unit: u32, info: &Info) -> Result<Self> {
        Self::build("allocate", comm, size, disp_unit, info, || {
            let device = comm.team().context.device();
            Ok(device.allocate(size, info.alignment()?)?)
        })
    }

    /// Collective. A window over `size` bytes at `base` that the caller owns: heap, stack, static
    /// or mapped memory of any alignment, memory of [`Job::alloc_mem`](crate::Job::alloc_mem), or
    /// memory that is in another window already. Sizes, displacement units (in bytes) and hints may
    /// differ by rank; a size of 0 is legal (MPI-4.1, section 12.2.1, `MPI_Win_create`).
    ///
    /// Over memory that is readable only, puts and accumulates fail at their origin.
    ///
    /// # Errors
    /// On every rank if one rank fails: memory that is not mapped, a unit that is not 1 to
    /// 2^31 − 1, a malformed hint, out of memory, a rank that died or left.
    ///
    /// # Safety
    /// Until the window is freed, the memory stays mapped and is not pinned elsewhere (io_uring's
    /// fixed buffers, registrations of other libraries), and every access to it expects what the
    /// peers do: no Rust reference forbids it. While this call and `free` run, no system call of
    /// another thread reads or writes the memory. On the soft device both calls may move private
    /// memory's pages at their addresses (the hint `transom_adopt` turns that off); children made
    /// by `_Fork` or a raw `clone` share such pages instead of having copies.
    pub unsafe fn create(
        comm: &Communicator,
        base: *mut u8,
        size: usize,
        disp_unit: u32,
        info: &Info,
    ) -> Result<Self> {
        Self::build("create", comm, size, disp_unit, info, || {
            if base.is_null() && size > 0 {
                return Err(Error::new("create", Misuse::NullBuffer { len: size }));
            }
            let adoption = if info.adopt()? {
                Adoption::Allowed
            } else {
                Adoption::Refused
            };
            let device = comm.team().context.device();
            // SAFETY: the caller of `create` makes the promises that `register` asks for, until
            // the window is freed; a window that is dropped instead never drops the region.
            Ok(unsafe { device.register(base, size, Access::ALL, adoption)? })
        })
    }

    fn build(
        operation: &'static str,
        comm: &Communicator,
        size: usize,
        disp_unit: u32,
        info: &Info,
        region: impl FnOnce() -> Result<Region>,
    ) -> Result<Self> {
        let team = comm.team().clone();
        let layout = Layout::new(team.size());
        let prepare = || -> Result<Prepared> {
            if size > isize::MAX as usize {
                let misuse = Misuse::BadSize {
                    size: size as u64,
                    reason: "an object has at most 2^63 − 1 bytes",
                };
                return Err(Error::new(operation, misuse));
            }
            if disp_unit == 0 || disp_unit > i32::MAX as u32 {
                let unit = disp_unit.into();
                return Err(Error::new(operation, Misuse::BadUnit { unit }));
            }
            let no_locks = info.no_locks()?;
            let eager_lock_all = info.eager_lock_all()?;
            let notifications = info.notification_counters()?;
            let granularity = info.accumulate_granularity()?;
            let region = region()?;
            let control = team.context.control();
            let block = control.allocate(layout.bytes(notifications))?;
            let remote = region.remote();
            Ok(Prepared {
                entry: Entry {
                    base: remote.address,
                    size: remote.len,
                    rkey: remote.rkey,
                    block: block.offset(),
                    granularity,
                    unit: disp_unit,
                    no_locks: no_locks.into(),
                    notifications: notifications.into(),
                },
                region,
                block,
                eager_lock_all,
            })
        };
        let prepared = prepare().map_err(|error| error.during(operation));
        let agreed = comm.agree(operation, prepared.as_ref().map(|own| own.entry));
        let (own, entries) = match (prepared, agreed) {
            (Ok(own), Ok(entries)) => (own, entries),
            (Err(own_fault), _) => return Err(own_fault),
            (Ok(own), Err(error)) => {
                if !error.is_known_everywhere() {
                    // Some ranks may think that the window exists.
                    mem::forget(own);
                }
                return Err(error);
            }
        };
        check_granularity(operation, team.rank, &entries)?;
        let columns = Columns {
            base: Column::new(entries.iter().map(|entry| entry.base)),
            size: Column::new(entries.iter().map(|entry| entry.size)),
            unit: Column::new(entries.iter().map(|entry| entry.unit)),
            rkey: Column::new(entries.iter().map(|entry| entry.rkey)),
            block: Arc::new(Column::new(entries.iter().map(|entry| entry.block))),
            notifications: Column::new(entries.iter().map(|entry| entry.notifications as u32)),
        };
        let block = Arc::new(own.block);
        Ok(Self {
            barrier: Barrier::new(&team, &block, BARRIER_AT),
            targets: bytemuck::zeroed_slice_box(team.size() as usize),
            base: if size == 0 {
                std::ptr::null_mut()
            } else {
                own.region.base()
            },
            memory: Some(own.region),
            atomic_widths: AtomicWidths::new(
                team.context.device().capabilities(),
                own.entry.granularity,
            ),
            no_locks: entries.iter().all(|entry| entry.no_locks != 0),
            eager_lock_all: own.eager_lock_all,
            columns,
            team,
            // Targets start at 0: none is entered.
            serial: AtomicU64::new(1),
            mode: AtomicU8::new(Mode::Idle as u8),
            locks: AtomicU32::new(0),
            entered: Mutex::default(),
            any_entered: AtomicBool::new(false),
            device_used: AtomicBool::new(false),
            allocated: operation == "allocate",
            layout,
            exposure: Exposure::new(LocalWord::new(&block, layout.completions())),
            pairs: Pairs::default(),
            block,
        })
    }
}

/// All ranks must take the same path to one word. They all see the same entries, so that all fail or
/// none does.
fn check_granularity(operation: &'static str, me: u32, entries: &[Entry]) -> Result<()> {
    let hint = |rank: usize| format!("mpi_accumulate_granularity={}", entries[rank].granularity);
    let ours = entries[me as usize].granularity;
    let other = entries.iter().position(|entry| entry.granularity != ours);
    match other {
        None => Ok(()),
        Some(rank) => Err(Error::new(
            operation,
            Misuse::Mismatch {
                rank: rank as u32,
                ours: hint(me as usize),
                theirs: hint(rank),
            },
        )),
    }
}
