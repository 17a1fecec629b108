//! This process's part in the job, which begins and ends with the host's.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use transom::lower::not_forked;
use transom::raw::PROC_NULL;
use transom::{Communicator, Comparison, ErrorClass, Group, Job, ThreadLevel};

use crate::errors::{Result, bad};
use crate::host::{self, check};
use crate::meeting::{Meeting, NoJob};
use crate::mpi_h::{MPI_Comm, MPI_Datatype, MPI_Group};
use crate::world::{self, Ranks};
use crate::{constants, host_progress, launcher, report};

/// The job, between the host's Init and its Finalize.
pub(crate) struct Process {
    pub(crate) job: Job,
    /// The host's group of the job's ranks.
    pub(crate) world: MPI_Group,
    /// A communicator of the same ranks, for this library alone.
    private: MPI_Comm,
    level: ThreadLevel,
}

static PROCESS: RwLock<Option<Arc<Process>>> = RwLock::new(None);

/// Whether this process has a job in which calls of several threads may overlap.
static IS_CONCURRENT: AtomicBool = AtomicBool::new(false);

#[inline(always)]
pub(crate) fn is_concurrent() -> bool {
    IS_CONCURRENT.load(Ordering::Relaxed)
}

/// The job, if there is one. Returns it without a lock, because handlers and callbacks of the program may end it.
pub(crate) fn process() -> Option<Arc<Process>> {
    PROCESS
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

/// Collective over the host's world, which has just begun. Without a job, all windows are the host's.
pub(crate) fn begin() {
    world::begins();
    if report::takes_part() {
        launcher::check();
    }
    match start(report::takes_part()) {
        Ok(process) => {
            let process = Some(Arc::new(process));
            *PROCESS.write().unwrap_or_else(PoisonError::into_inner) = process;
        }
        Err(NoJob::Agreed(why)) => report::no_job(why),
        Err(NoJob::Failed(failure)) => {
            let why = failure.text();
            report::failed(&why);
            report::no_job(why);
        }
    }
}

fn start(takes_part: bool) -> std::result::Result<Process, NoJob> {
    let mut meeting = Meeting::new()?;
    let mut private = meeting.duplicate_world()?;
    let (mut provided, mut world) = (0, constants::group_null());
    // SAFETY: all are locals; the host has begun.
    unsafe {
        check(host::PMPI_Query_thread(&raw mut provided))?;
        // Errors on it are reported by the program's call.
        check(host::PMPI_Comm_set_errhandler(
            private,
            constants::errors_return(),
        ))?;
    }
    let ranks = Ranks::of(private)?;
    if let Err(why) = meeting.all_take_part(private, ranks.count(), takes_part) {
        // SAFETY: nobody else has the handle, and all ranks come here.
        unsafe { host::PMPI_Comm_free(&raw mut private) };
        return Err(why);
    }
    // SAFETY: a local; the communicator is alive.
    unsafe {
        check(host::PMPI_Comm_group(private, &raw mut world))?;
    }
    let level = match provided == constants::thread_multiple() {
        true => ThreadLevel::Multiple,
        false => ThreadLevel::Serialized,
    };
    IS_CONCURRENT.store(level == ThreadLevel::Multiple, Ordering::Relaxed);
    let job = Job::over(&ranks, level)?;
    job.on_wait(move || progress(private));
    let gone = move |code: i32, _: &str| {
        // SAFETY: the communicator is alive as long as the job. The call does not return.
        unsafe { host::PMPI_Abort(private, code) };
    };
    job.on_abort(gone);
    host_progress::begin(&job);
    Ok(Process {
        job,
        world,
        private,
        level,
    })
}

/// Lets the host make progress during a wait of ours.
fn progress(private: MPI_Comm) {
    let mut flag = 0;
    // SAFETY: the flag is a local, and nobody sends on the communicator. The thread is in a call of MPI, so every
    // thread level allows this call.
    unsafe {
        host::PMPI_Iprobe(
            constants::any_source(),
            constants::any_tag(),
            private,
            &raw mut flag,
            constants::status_ignore(),
        )
    };
}

/// Lets the host make progress. For a program that polls, which is not a wait of ours. In a forked child, the host would
/// take the messages of the rank.
#[cold]
pub(crate) fn let_host_go_on() {
    if let Some(process) = process()
        && not_forked("progress").is_ok()
    {
        progress(process.private);
    }
}

/// The same in one of 256 calls, for calls that programs make in loops and that have to be quick.
#[inline(always)]
pub(crate) fn now_and_then() {
    if is_due() {
        let_host_go_on();
    }
}

/// The same, for those calls that `at_once` did not complete. That is about one in 64, and this acts in one of 4 of
/// them: one of 256 altogether.
pub(crate) fn after_quick_ones() {
    if counted().is_multiple_of(4) {
        let_host_go_on();
    }
}

/// Whether this call is the one of 256 in which the host should make progress.
#[inline(always)]
pub(crate) fn is_due() -> bool {
    counted().is_multiple_of(256)
}

#[inline(always)]
fn counted() -> u32 {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    // Threads may lose each other's counts.
    let calls = CALLS.load(Ordering::Relaxed).wrapping_add(1);
    CALLS.store(calls, Ordering::Relaxed);
    calls
}

/// Collective over the host's world, which is about to end.
pub(crate) fn end() {
    let process = PROCESS
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .take()
        // Any other owner is in a call that never returned.
        .and_then(Arc::into_inner);
    let Some(Process {
        job,
        mut world,
        mut private,
        ..
    }) = process
    else {
        return;
    };
    // SAFETY: all ranks come here, and both handles are alive until these calls. Ranks that still use windows need
    // those that leave, but after the barrier no rank uses any.
    unsafe {
        host::PMPI_Barrier(private);
        host_progress::end();
        host::PMPI_Group_free(&raw mut world);
        if let Err(error) = job.finish() {
            report::trouble(&format!("the job's end: {error}"));
        }
        host::PMPI_Comm_free(&raw mut private);
    }
}

impl Process {
    /// The communicator of all ranks, for collectives of this group, if it has all ranks. Threads that make windows at
    /// once, on several communicators of the same ranks, would disturb each other's collectives.
    pub(crate) fn world_for(&self, group: &Group) -> Option<&Communicator> {
        let world = self.job.world();
        let alike = group.compare(world.group()) == Comparison::Identical;
        (alike && self.level == ThreadLevel::Serialized).then_some(world)
    }

    /// Whether the host lets the program use the type. The host says how a type was made, but not whether it was
    /// committed.
    pub(crate) fn is_committed(&self, datatype: MPI_Datatype) -> bool {
        let mut request = constants::request_null();
        // SAFETY: the request is a local, and may be dropped, since it is complete.
        unsafe {
            let code = host::receive_from_nobody(datatype, self.private, &raw mut request);
            if code == 0 {
                host::PMPI_Request_free(&raw mut request);
            }
            code == 0
        }
    }
}

/// A target that must be a rank.
#[inline(always)]
pub(crate) fn somebody(target: c_int) -> Option<u32> {
    u32::try_from(target).ok()
}

/// A target's rank, in Transom's form. One negative number is `MPI_PROC_NULL`.
#[inline(always)]
pub(crate) fn rank(theirs: c_int) -> Result<u32> {
    match u32::try_from(theirs) {
        Ok(rank) => Ok(rank),
        Err(_) if theirs == constants::proc_null() => Ok(PROC_NULL),
        Err(_) => Err(bad(
            ErrorClass::Rank,
            format!("rank {theirs} is not one of the window's ranks, which begin with 0"),
        )),
    }
}
