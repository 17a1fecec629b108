//! The host's groups, as groups of the job's ranks.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use transom::{ErrorClass, Group};

use crate::errors::{Failure, Result, bad};
use crate::exported::in_front;
use crate::host::{self, check};
use crate::mpi_h::{MPI_Comm, MPI_Group, Number};
use crate::process::{self, Process, process};
use crate::windows::lock;
use crate::{constants, report};

/// A group that is freed when this is dropped.
pub(crate) struct HostGroup(MPI_Group);

impl Drop for HostGroup {
    fn drop(&mut self) {
        // SAFETY: `of` made the handle, and only this has it.
        unsafe { host::PMPI_Group_free(&raw mut self.0) };
    }
}

impl HostGroup {
    /// The group of a communicator.
    pub(crate) fn of(comm: MPI_Comm) -> Result<Self> {
        let mut group = constants::group_null();
        // SAFETY: a local; the host checks the handle.
        check(unsafe { host::PMPI_Comm_group(comm, &raw mut group) })?;
        Ok(Self(group))
    }

    /// The group of the job's ranks, in the same order. `None` if some process is not in the job.
    pub(crate) fn in_job(&self, process: &Process) -> Result<Option<Group>> {
        in_job(self.0, process)
    }

    /// Whether all its processes are in the host's world: for processes without a job.
    pub(crate) fn is_in_world(&self) -> Result<bool> {
        let world = Self::of(constants::comm_world())?;
        Ok(translated(self.0, world.0)?.is_some())
    }
}

fn in_job(theirs: MPI_Group, process: &Process) -> Result<Option<Group>> {
    let Some(ranks) = translated(theirs, process.world)? else {
        return Ok(None);
    };
    let group = process.job.world().group().include(&ranks);
    Ok(Some(group.map_err(Failure::from)?))
}

/// Translates the ranks of one group to those of another. `None` if the other lacks a process.
fn translated(theirs: MPI_Group, into: MPI_Group) -> Result<Option<Vec<u32>>> {
    let mut size = 0;
    // SAFETY: a local; the host checks the handle.
    check(unsafe { host::PMPI_Group_size(theirs, &raw mut size) })?;
    let places: Vec<c_int> = (0..size).collect();
    let mut ranks = vec![0; places.len()];
    // SAFETY: both lists have that many numbers.
    check(unsafe {
        host::PMPI_Group_translate_ranks(theirs, size, places.as_ptr(), into, ranks.as_mut_ptr())
    })?;
    Ok(ranks.iter().map(|&rank| u32::try_from(rank).ok()).collect())
}

/// The groups that the program passed last, by the host's handles: programs post and start with the same groups
/// repeatedly. An entry is removed when its handle is freed, as the host may reuse it. All references to a group have
/// one handle.
static KNOWN: [Known; PLACES] = [const { Known(UnsafeCell::new(None)) }; PLACES];
const PLACES: usize = 64;

/// A group of the host's, by its handle.
struct Known(UnsafeCell<Option<(Number, Group)>>);

// SAFETY: one thread at a time accesses the cell: the one that holds the lock of `CHANGING` or, where calls of several
// threads do not overlap, the one that is in a call.
unsafe impl Sync for Known {}

static CHANGING: Mutex<()> = Mutex::new(());

/// While this is 0, a freed group is not looked for.
static REMEMBERED: AtomicUsize = AtomicUsize::new(0);

/// Handles are consecutive numbers, or addresses of small structures.
#[inline(always)]
#[allow(clippy::unnecessary_cast, reason = "as wide as the host's handles are")]
fn place(handle: Number) -> &'static Known {
    let row = match cfg!(handles_are_numbers) {
        true => handle,
        false => handle >> 4 ^ handle >> 10,
    };
    &KNOWN[row as usize % PLACES]
}

/// The group that a call on a window was passed.
#[inline]
pub(crate) fn find(theirs: MPI_Group) -> Result<Group> {
    // If calls of threads do not overlap, the lock would cost as much as the rest.
    let changing = process::is_concurrent().then(|| lock(&CHANGING));
    // SAFETY: the lock is held, or no other thread is in a call. The clone is made before that changes.
    match unsafe { &*place(theirs.number()).0.get() } {
        Some((known, group)) if *known == theirs.number() => return Ok(group.clone()),
        _ => drop(changing),
    }
    find_far(theirs)
}

#[cold]
fn find_far(theirs: MPI_Group) -> Result<Group> {
    if theirs == constants::group_null() {
        return Err(bad(ErrorClass::Group, "the group is MPI_GROUP_NULL"));
    }
    let Some(process) = process() else {
        return Err(bad(ErrorClass::Other, report::why_no_job()));
    };
    let group = in_job(theirs, &process)?.ok_or_else(|| {
        bad(
            ErrorClass::Group,
            "the group has processes that are not of the job",
        )
    })?;
    remember(theirs.number(), &group);
    Ok(group)
}

fn remember(handle: Number, group: &Group) {
    let _changing = lock(&CHANGING);
    // SAFETY: this thread holds the lock, which other threads also take where calls overlap.
    let before = unsafe { (*place(handle).0.get()).replace((handle, group.clone())) };
    if before.is_none() {
        REMEMBERED.fetch_add(1, Ordering::Release);
    }
}

in_front! {
    fn MPI_Group_free PMPI_Group_free(group: *mut MPI_Group) or host {
        if REMEMBERED.load(Ordering::Acquire) > 0 && !group.is_null() {
            // SAFETY: the program's own handle.
            let handle = unsafe { *group }.number();
            forget(place(handle), |known| known == handle);
        }
        host()
    }
}

/// The host may reuse the handle for another group.
#[cold]
fn forget(known: &Known, which: impl FnOnce(Number) -> bool) {
    let _changing = lock(&CHANGING);
    // SAFETY: as in `remember`.
    let known = unsafe { &mut *known.0.get() };
    if known.take_if(|(handle, _)| which(*handle)).is_some() {
        REMEMBERED.fetch_sub(1, Ordering::Release);
    }
}

/// Call it before the job ends, because its ranks end with it.
pub(crate) fn end() {
    for known in &KNOWN {
        forget(known, |_| true);
    }
}
