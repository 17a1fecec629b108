//! Windows for programs of [rsmpi](https://docs.rs/mpi), the crate `mpi`, which has no one-sided communication.
//!
//! [`job`] makes the processes of an rsmpi communicator the ranks of a Transom job. [`communicator`] makes a
//! communicator of the job from another rsmpi communicator, such as a split.
//!
//! ```no_run
//! use mpi::collective::SystemOperation;
//! use mpi::traits::*;
//! use transom::{Op, Result, Window};
//!
//! fn main() -> Result<()> {
//!     let universe = mpi::initialize().expect("MPI was initialized before");
//!     let world = universe.world();
//!     let job = transom_rsmpi::job(&world)?;
//!
//!     let mut window = Window::<u64>::allocate(job.world(), 1)?;
//!     let mine = [u64::from(job.world().rank()) + 1];
//!     window.fence(|epoch| epoch.target(0)?.accumulate(Op::Sum, 0, &mine))?;
//!
//!     let mut sum = 0;
//!     world.all_reduce_into(&mine[0], &mut sum, SystemOperation::sum());
//!     if world.rank() == 0 {
//!         println!("{} by the window, {sum} by rsmpi", window.local()?[0]);
//!     }
//!     window.free()
//! }
//! ```
//!
//! # Rules
//! - **Order**: make the job after `mpi::initialize`, and end it before the `Universe` is dropped, as in the example,
//!   where both are local variables. A job that lasts longer still works, but its waits no longer let MPI make
//!   progress.
//! - **Threads**: MPI's thread level applies to the calls of both libraries together. Below `Threading::Multiple`, no
//!   call of Transom may overlap with another, or with a call of MPI.
//! - **Failures**: after an error that says that a rank died, end the program by rsmpi's `abort`. Dropping the
//!   `Universe` calls `MPI_Finalize`, which may wait for the dead rank.

use std::ffi::{c_char, c_int};
use std::mem::ManuallyDrop;
use std::sync::OnceLock;

use mpi::Threading;
use mpi::ffi;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{AsRaw, Communicator, Group as _};
use transom::lower::{Allgather, AllgatherError, error, several_ranks};
use transom::{Job, Result, SystemError, ThreadLevel};

/// The processes of a communicator, in its order, with a communicator of their own that only this library uses.
struct Ranks {
    private: ManuallyDrop<SimpleCommunicator>,
    rank: u32,
    size: u32,
}

// SAFETY: the handle is a number or a pointer to data that MPI protects. `may_call_mpi` prevents calls of threads that
// the program's thread level does not allow.
unsafe impl Send for Ranks {}
// SAFETY: as above.
unsafe impl Sync for Ranks {}

/// The ranks of the job. A process joins one job in its life; `MPI_Finalize` frees the communicator.
static JOB: OnceLock<Ranks> = OnceLock::new();

/// Whether MPI is running, and its thread level allows this thread to call it.
fn may_call_mpi() -> bool {
    if !mpi::environment::is_initialized() || mpi::environment::is_finalized() {
        return false;
    }
    let mut is_main = 0;
    // SAFETY: the flag is a local; MPI runs.
    unsafe { ffi::MPI_Is_thread_main(&raw mut is_main) };
    is_main != 0 || mpi::environment::threading_support() >= Threading::Serialized
}

fn failed(operation: &'static str, source: impl Into<AllgatherError>) -> transom::Error {
    let source = source.into();
    error(operation, SystemError::Allgather { source })
}

fn check(code: c_int) -> std::result::Result<(), AllgatherError> {
    if code == 0 {
        return Ok(());
    }
    // MPI_MAX_ERROR_STRING is 512 in MPICH and 256 in Open MPI.
    let (mut text, mut len) = ([0_u8; 8192], 0);
    // SAFETY: there is more room than any MPI needs.
    unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast::<c_char>(), &raw mut len) };
    let len = usize::try_from(len).unwrap_or(0).min(text.len());
    Err(String::from_utf8_lossy(&text[..len]).into())
}

impl Ranks {
    /// Collective over `comm`.
    fn of(operation: &'static str, comm: &impl Communicator) -> Result<Self> {
        if !mpi::environment::is_initialized() {
            return Err(failed(operation, "MPI is not initialized yet"));
        }
        if mpi::environment::is_finalized() {
            return Err(failed(operation, "MPI_Finalize was called before"));
        }
        if comm.test_inter() {
            let text = "the communicator is an inter-communicator, whose processes are two groups";
            return Err(failed(operation, text));
        }
        let private = comm.duplicate();
        // SAFETY: the communicator was just made, and the handler is MPI's own.
        check(unsafe { ffi::MPI_Comm_set_errhandler(private.as_raw(), ffi::RSMPI_ERRORS_RETURN) })
            .map_err(|source| failed(operation, source))?;
        Ok(Self {
            rank: private.rank().unsigned_abs(),
            size: private.size().unsigned_abs(),
            private: ManuallyDrop::new(private),
        })
    }

    /// Lets MPI make progress.
    fn progress(&self) {
        if !may_call_mpi() {
            return;
        }
        let mut flag = 0;
        // SAFETY: the flag is a local. Nobody sends on the communicator, and this thread may call MPI.
        unsafe {
            ffi::MPI_Iprobe(
                ffi::RSMPI_ANY_SOURCE,
                ffi::RSMPI_ANY_TAG,
                self.private.as_raw(),
                &raw mut flag,
                ffi::RSMPI_STATUS_IGNORE,
            )
        };
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        if may_call_mpi() {
            // SAFETY: this is the last use of the field. If MPI may not be called, its finalization frees the
            // communicator.
            unsafe { ManuallyDrop::drop(&mut self.private) };
        }
    }
}

// SAFETY: `MPI_Allgather` stores the block of the communicator's rank `r` at place `r` on each rank, and matches the
// collectives of one communicator in their order. Only this library uses the communicator, and errors of MPI are
// returned.
unsafe impl Allgather for Ranks {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn allgather(&self, mine: &[u8]) -> std::result::Result<Vec<Vec<u8>>, AllgatherError> {
        if !may_call_mpi() {
            return Err("MPI_Finalize was called, or this thread may not call MPI".into());
        }
        let len = c_int::try_from(mine.len())?;
        let mut all = vec![0_u8; mine.len() * self.size as usize];
        // SAFETY: each rank passes `len` bytes, and there is room for `size` times as many. MPI does not write to the
        // sent data.
        check(unsafe {
            ffi::MPI_Allgather(
                mine.as_ptr().cast(),
                len,
                ffi::RSMPI_UINT8_T,
                all.as_mut_ptr().cast(),
                len,
                ffi::RSMPI_UINT8_T,
                self.private.as_raw(),
            )
        })?;
        Ok(all.chunks(mine.len()).map(<[u8]>::to_vec).collect())
    }
}

/// A launcher that the program's MPI does not know starts ranks each of which is a world of its own.
fn warn_if_launcher_is_another_mpis() {
    if SimpleCommunicator::world().size() > 1 {
        return;
    }
    if let Some((0, name, size)) = several_ranks() {
        eprintln!(
            "transom: the launcher has started {size} ranks ({name}={size}), and the program's MPI does not know it, so that \
             each rank is a job of its own: start the program with the mpiexec of its own MPI, or unset {name} if it is to run \
             alone"
        );
    }
}

/// Collective over `comm`. Makes its processes the ranks of a job, in their order. A process can join only one job. The
/// device is chosen as by [`Job::init`]. Calls may overlap in time if MPI was initialized with `Threading::Multiple`.
///
/// Waits of the job let MPI make progress, and [`Job::abort`] calls `MPI_Abort`.
///
/// # Errors
/// MPI is not running, or `comm` is an inter-communicator; the errors of [`Job::over`].
pub fn job(comm: &impl Communicator) -> Result<Job> {
    let ranks = Ranks::of("job", comm)?;
    warn_if_launcher_is_another_mpis();
    let level = match mpi::environment::threading_support() {
        Threading::Multiple => ThreadLevel::Multiple,
        _ => ThreadLevel::Serialized,
    };
    let job = Job::over(&ranks, level)?;
    let ranks = JOB.get_or_init(|| ranks);
    job.on_wait(|| ranks.progress());
    job.on_abort(|code, _| {
        if may_call_mpi() {
            // SAFETY: the communicator is alive, since it is never freed.
            unsafe { ffi::MPI_Abort(ranks.private.as_raw(), code) };
        }
    });
    Ok(job)
}

/// Collective over `comm`. A communicator of the job with the same ranks in the same order, for windows and for
/// collectives of Transom. It does not need `comm` afterwards. MPI carries its collectives, including the creation of
/// windows. Accesses to windows do not use MPI.
///
/// # Errors
/// MPI is not running, or `comm` is an inter-communicator; one of its processes is not a rank of this job, or [`job`]
/// did not make this job.
pub fn communicator(job: &Job, comm: &impl Communicator) -> Result<transom::Communicator> {
    const OPERATION: &str = "communicator";
    let ranks = Ranks::of(OPERATION, comm)?;
    let of_job = (JOB.get())
        .ok_or_else(|| failed(OPERATION, "the job was not made by transom_rsmpi::job"))?
        .private
        .group();
    let group = ranks.private.group();
    let chosen = (0..group.size()).map(|rank| {
        let in_job = group.translate_rank(rank, &of_job);
        in_job.map(i32::unsigned_abs).ok_or_else(|| {
            let text = format!("rank {rank} of the communicator is not a rank of the job");
            failed(OPERATION, text)
        })
    });
    let chosen: Vec<u32> = chosen.collect::<Result<_>>()?;
    let group = job.world().group().include(&chosen)?;
    job.communicator(&group, ranks)
}
