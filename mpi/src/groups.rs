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

/// A group that is given back.
pub(crate) struct HostGroup(MPI_Group);

impl Drop for HostGroup {
    fn drop(&mut self) {
        // SAFETY: made in `of`, for this alone.
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

    /// The group of the job's ranks that it has, in its order. `None` if it has others.
    pub(crate) fn in_job(&self, process: &Process) -> Result<Option<Group>> {
        in_job(self.0, process)
    }

    /// Whether all of it are of the host's world: for processes without a job.
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

/// The ranks in one group of those in another, or `None` if it has not all of them.
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

/// Programs post and start with the same groups again and again: those that were passed last, by the host's handles, until
/// one is freed, when its handle may come again for another. Several references to one group have one handle.
static KNOWN: [Known; PLACES] = [const { Known(UnsafeCell::new(None)) }; PLACES];
const PLACES: usize = 64;

/// A group of the host's, by its handle.
struct Known(UnsafeCell<Option<(Number, Group)>>);

// SAFETY: what is in the cell is looked at and changed by one thread at a time: by whoever holds the lock of `CHANGING`,
// or, where calls of several threads do not overlap, by the one that is in a call.
unsafe impl Sync for Known {}

static CHANGING: Mutex<()> = Mutex::new(());

/// As long as this is 0, a group that is freed is not looked for.
static REMEMBERED: AtomicUsize = AtomicUsize::new(0);

/// Handles are numbers in a row, or addresses of small structures.
#[inline(always)]
#[allow(clippy::unnecessary_cast, reason = "as wide as the host's handles are")]
fn place(handle: Number) -> &'static Known {
    let row = match cfg!(handles_are_numbers) {
        true => handle,
        false => handle >> 4 ^ handle >> 10,
    };
    &KNOWN[row as usize % PLACES]
}

/// What a call on a window was passed.
#[inline]
pub(crate) fn find(theirs: MPI_Group) -> Result<Group> {
    // Without threads that overlap, a lock costs as much as all the rest.
    let changing = process::is_concurrent().then(|| lock(&CHANGING));
    // SAFETY: the lock is held, or no other thread is in a call; the clone is made before that changes.
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
    // SAFETY: the lock is held, which others take as well where calls overlap.
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

/// The handle may come again, for another group.
#[cold]
fn forget(known: &Known, which: impl FnOnce(Number) -> bool) {
    let _changing = lock(&CHANGING);
    // SAFETY: as in `remember`.
    let known = unsafe { &mut *known.0.get() };
    if known.take_if(|(handle, _)| which(*handle)).is_some() {
        REMEMBERED.fetch_sub(1, Ordering::Release);
    }
}

/// The job is about to end, and its ranks with it.
pub(crate) fn end() {
    for known in &KNOWN {
        forget(known, |_| true);
    }
}
