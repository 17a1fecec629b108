//! The host's groups, as groups of the job's ranks.

use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use transom::{ErrorClass, Group};

use crate::errors::{Failure, Result, bad};
use crate::exported::exported;
use crate::host::{check, host};
use crate::mpi_h::{MPI_Comm, MPI_Group};
use crate::process::{Process, process};
use crate::windows::lock;
use crate::{constants, report};

/// A group that is given back.
pub(crate) struct HostGroup(MPI_Group);

impl Drop for HostGroup {
    fn drop(&mut self) {
        // SAFETY: made in `of`, for this alone.
        unsafe { host!(PMPI_Group_free(*mut MPI_Group))(&raw mut self.0) };
    }
}

impl HostGroup {
    /// The group of a communicator.
    pub(crate) fn of(comm: MPI_Comm) -> Result<Self> {
        let mut group = constants::group_null();
        // SAFETY: a local; the host checks the handle.
        check(unsafe { host!(PMPI_Comm_group(MPI_Comm, *mut MPI_Group))(comm, &raw mut group) })?;
        Ok(Self(group))
    }

    /// The group of the job's ranks that it has, in its order. `None` if it has others.
    pub(crate) fn in_job(&self, process: &Process) -> Result<Option<Group>> {
        in_job(self.0, process)
    }

    /// Whether all of it are of the host's world, which sessions may be without: for processes without a job.
    pub(crate) fn is_in_world(&self) -> Result<bool> {
        let mut has_begun = 0;
        // SAFETY: a local.
        check(unsafe { host!(PMPI_Initialized(*mut c_int))(&raw mut has_begun) })?;
        if has_begun == 0 {
            return Ok(false);
        }
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
    check(unsafe { host!(PMPI_Group_size(MPI_Group, *mut c_int))(theirs, &raw mut size) })?;
    let places: Vec<c_int> = (0..size).collect();
    let mut ranks = vec![0; places.len()];
    // SAFETY: both lists have that many numbers.
    check(unsafe {
        host!(PMPI_Group_translate_ranks(MPI_Group, c_int, *const c_int, MPI_Group, *mut c_int))(
            theirs,
            size,
            places.as_ptr(),
            into,
            ranks.as_mut_ptr(),
        )
    })?;
    Ok(ranks.iter().map(|&rank| u32::try_from(rank).ok()).collect())
}

/// Programs post and start with the same groups again and again: those used lately, by the host's handles, until
/// one is freed, when its handle may come again for another.
static LATELY: Mutex<Vec<(usize, Group)>> = Mutex::new(Vec::new());
const MOST: usize = 8;
/// As long as this is 0, a group that is freed is not looked for.
static REMEMBERED: AtomicUsize = AtomicUsize::new(0);

fn number(group: MPI_Group) -> usize {
    group.0 as usize
}

/// What a call on a window was passed.
pub(crate) fn find(theirs: MPI_Group) -> Result<Group> {
    let handle = number(theirs);
    let known = lock(&LATELY)
        .iter()
        .find(|(known, _)| *known == handle)
        .map(|(_, group)| group.clone());
    match known {
        Some(group) => Ok(group),
        None => find_far(theirs),
    }
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
    let mut lately = lock(&LATELY);
    if lately.len() == MOST {
        lately.remove(0);
    }
    lately.push((number(theirs), group.clone()));
    REMEMBERED.store(lately.len(), Ordering::Release);
    Ok(group)
}

exported! {
    fn MPI_Group_free PMPI_Group_free(group: *mut MPI_Group) {
        if REMEMBERED.load(Ordering::Acquire) > 0 && !group.is_null() {
            // SAFETY: the program's own handle.
            forget(unsafe { *group });
        }
        // SAFETY: what the program passed goes on to where it would have gone without us.
        unsafe { host!(PMPI_Group_free(*mut MPI_Group))(group) }
    }
}

#[cold]
fn forget(group: MPI_Group) {
    let mut lately = lock(&LATELY);
    lately.retain(|(known, _)| *known != number(group));
    REMEMBERED.store(lately.len(), Ordering::Release);
}

/// The job is about to end, and its ranks with it.
pub(crate) fn end() {
    lock(&LATELY).clear();
}
