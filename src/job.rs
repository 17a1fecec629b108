//! A rank's membership in its job: where a program begins.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rdma_sys_shim::{JobSecret, Usage};
use transom_launch::start;

use crate::comm::{Communicator, Group, world_block_bytes};
use crate::datatype::Element;
use crate::diagnostics;
use crate::error::{AbortCause, Error, Misuse, Result};
use crate::liveness::Awaited;
use crate::lower::Allgather;
use crate::peers::{Context, check_rank, is_forked, job_secret, named_device, not_forked};
use crate::terms::{ThreadLevel, WorldRank};
use crate::typed::Buffer;
use crate::wait::set_hook;
use crate::window::Info;

/// This process's membership in a parallel job.
///
/// Dropping it leaves the job, as [`Job::finish`] does: ranks that still wait for this one get an
/// error. Dropping it while panicking aborts the job.
///
/// ```no_run
/// let job = transom::Job::init()?;
/// println!("rank {} of {}", job.world().rank(), job.world().size());
/// # Ok::<(), transom::Error>(())
/// ```
pub struct Job {
    context: Arc<Context>,
    world: Communicator,
    /// Whether this rank has left already.
    finished: bool,
}

/// A process can be a rank of one job, once: launchers accept one client.
static TAKEN: AtomicBool = AtomicBool::new(false);

fn take() -> Result<()> {
    if TAKEN.swap(true, Ordering::SeqCst) {
        return Err(Error::new("job start", Misuse::JobTaken));
    }
    diagnostics::prepare();
    Ok(())
}

impl Job {
    /// Collective over the job. Joins the job that this process was launched into
    /// (`transom run`, `mpiexec.hydra`, `srun --mpi=pmi2`, or by PMIx Open MPI's `mpirun` and `srun
    /// --mpi=pmix`), or the one whose ranks meet where the environment says, or a job of one rank where
    /// there are no others.
    ///
    /// Ranks that no launcher started together are told who they are by `TRANSOM_RANK` and
    /// `TRANSOM_SIZE`, and where they meet by `TRANSOM_RENDEZVOUS=HOST:PORT`: there rank 0 listens, and the
    /// others come to it over TCP. `TRANSOM_JOB_SECRET`, the same for all, is how they know each other; it may
    /// be missing where all are on one host (`localhost`). Under torchrun none of these is needed but the
    /// secret, in indexed jobs of Kubernetes and under Flux not the rank. Such a job has no launcher afterwards:
    /// see [`Job::over`].
    ///
    /// The environment variable `TRANSOM_DEVICE` chooses the device; unset or `auto`, it is soft
    /// where all ranks share a host, and else an RDMA device. `TRANSOM_CONTROL_BYTES` is the size of
    /// the memory from which windows and communicators take the words that their peers write. Unless it is
    /// set, that memory grows as it is needed, from 16 MiB of address space, or 4 MiB on devices that lock such memory
    /// into physical memory, or what the number of ranks needs, if that is more.
    ///
    /// `TRANSOM_LOG`, `TRANSOM_REPORT` and `TRANSOM_TRACE` have what happens shown: warnings and more on
    /// standard error, where this program has set no subscriber of `tracing` before; a table of what each window
    /// did; a trace for Perfetto.
    ///
    /// # Errors
    /// The environment says that there are other ranks, and not how to reach them; ranks do not come within
    /// `TRANSOM_START_TIMEOUT` (seconds; 600), or do not belong together; the device is unknown or refused
    /// by the system, or none joins the hosts that the ranks run on; this process joined a job before.
    /// If a rank cannot start, no rank does, and the others are told which it is.
    pub fn init() -> Result<Self> {
        Self::init_thread(ThreadLevel::default())
    }

    /// Collective over the job. As [`Job::init`], with a promise about threads (MPI-4.1, section
    /// 11.6.2, `MPI_Init_thread`).
    ///
    /// # Errors
    /// As for [`Job::init`].
    pub fn init_thread(level: ThreadLevel) -> Result<Self> {
        take()?;
        let named = named_device(job_secret());
        let by = start::join()?;
        if by.size() == 1 && !by.has_launcher() && named.is_err() {
            // Nobody waits for this process: it may try another device.
            TAKEN.store(false, Ordering::SeqCst);
        }
        let started = by.name();
        let context = Context::join(by, level, named, world_block_bytes)?;
        Ok(Self::of(context, started))
    }

    /// Collective over the job. Joins a job whose ranks somebody else has started, and which an
    /// allgather of theirs joins: another communication library, a program that made the processes by
    /// itself. The device is chosen as by [`Job::init`]. Unstable: see [`lower`](crate::lower).
    ///
    /// `by` is needed here only, a few times. Then this rank knows how to reach all others, and the
    /// library makes no use of what they have in common otherwise. Nobody tells it then of ranks that
    /// died: it finds out itself, where it waits for one or looks at it.
    ///
    /// # Errors
    /// On every rank if one rank fails, where `by` brings them together: the device is unknown or
    /// refused by the system, or none joins the hosts that the ranks run on; ranks that differ in who
    /// they say they are. On this rank: `by` failed, or names a rank beyond its size; this process
    /// joined a job before, or failed to in a way that others may know of.
    pub fn over(by: &dyn Allgather, level: ThreadLevel) -> Result<Self> {
        let ranks = check_rank(by)?;
        take()?;
        let named = named_device(JobSecret::default());
        let context = Context::over(by, ranks, level, named, world_block_bytes)?;
        Ok(Self::of(context, "an allgather"))
    }

    /// `started`: by what the ranks found each other.
    fn of(context: Arc<Context>, started: &str) -> Self {
        let rank = context.rank().0;
        let host = |rank| context.hosts().host_of(rank);
        let is_first = (0..rank).all(|other| host(other) != host(rank));
        diagnostics::joined(rank, is_first, context.identity());
        tracing::info!(
            ranks = context.size(),
            device = context.device().name(),
            by = started,
            "joined the job"
        );
        if context.patience().is_oversubscribed() {
            tracing::info!(
                "there are more ranks than processors here: waits give theirs away soon"
            );
        }
        let world = Communicator::world(&context);
        Self {
            context,
            world,
            finished: false,
        }
    }

    /// Local. All ranks of the job.
    #[must_use]
    pub fn world(&self) -> &Communicator {
        &self.world
    }

    /// Local. A communicator of this rank alone.
    ///
    /// # Errors
    /// Out of control memory; the process was forked from the rank.
    pub fn alone(&self) -> Result<Communicator> {
        Communicator::alone(&self.context)
    }

    /// Local. A communicator of the ranks of `group`, in that order, whose collectives `by` carries: an
    /// allgather of the same ranks in the same order. It takes no control memory, and making a window
    /// on it is two allgathers. Its barriers and collectives cost more than those of other
    /// communicators; those that are made from it are as others. It may go before its windows.
    /// Unstable: see [`lower`](crate::lower).
    ///
    /// If `by` fails in a collective, that is an error on this rank, and aborts the job, since the other
    /// ranks may know nothing of it.
    ///
    /// # Errors
    /// `by` is of another number of ranks, or this rank is another one there than in the group. Groups
    /// that differ are an error of the first collective, on all ranks.
    pub fn communicator(
        &self,
        group: &Group,
        by: impl Allgather + Send + 'static,
    ) -> Result<Communicator> {
        Communicator::over(&self.context, group, Box::new(by))
    }

    /// Local. Has every long wait call `hook`, in place of an earlier one: each thread that waits in a
    /// call of this library calls it, some microseconds after the wait began and then again and again,
    /// until what is awaited has come or the wait failed. So a host that has to be called makes
    /// progress meanwhile. While there is a hook, waits sleep for 0.1 ms at most. Calls that only ask,
    /// such as [`Request::test`](crate::raw::Request::test), do not call it. Unstable: see
    /// [`lower`](crate::lower).
    ///
    /// The hook makes no call of this library that other ranks have a part in, and does not wait for
    /// other ranks. Waits of several threads call it at once. A panic in it aborts the process. It is
    /// dropped with the job.
    pub fn on_wait(&self, hook: impl Fn() + Send + Sync + 'static) {
        set_hook(Some(Arc::new(hook)));
    }

    /// Local. Has [`Job::abort`] call `hook` with its arguments, in place of an earlier one, after the
    /// other ranks were told. Unstable: see [`lower`](crate::lower).
    pub fn on_abort(&self, hook: impl Fn(i32, &str) + Send + Sync + 'static) {
        self.context.set_on_abort(Arc::new(hook));
    }

    /// Local. Waits until `done` says true, asked again and again, as calls of this library wait: it
    /// spins, yields, then sleeps in growing steps up to a millisecond, and calls the hook of
    /// [`Job::on_wait`]. `awaited`: the rank of the world that has a part in it; if that is `None`, it
    /// may be any. Unstable: see [`lower`](crate::lower).
    ///
    /// # Errors
    /// The job was aborted; the awaited rank died or left, or any died where none is named; there is
    /// no such rank; the process was forked from the rank. Where it fails, `done` had said false.
    pub fn wait_until(&self, awaited: Option<u32>, mut done: impl FnMut() -> bool) -> Result<()> {
        const OPERATION: &str = "wait_until";
        not_forked(OPERATION)?;
        let size = self.world.size();
        let any = |turn: u32| (turn < size).then_some(WorldRank(turn));
        let awaited = match awaited {
            Some(rank) => {
                self.world.team().check_rank(OPERATION, rank)?;
                Awaited::Rank(WorldRank(rank))
            }
            None => Awaited::AnyOf {
                ranks: &any,
                // What it did before is there.
                excused: &|_, has_left| has_left,
                surely: None,
            },
        };
        let patience = self.context.patience();
        let place = || "of the job".to_owned();
        patience.wait(
            || Ok(done()),
            || self.context.check(OPERATION, awaited, &place),
        )
    }

    /// Local. Leaves the job, as dropping it does, and says how that went. Waits for no other rank.
    ///
    /// # Errors
    /// The job was aborted, or the launcher did not take the farewell: then this rank has left all the
    /// same. The process was forked from the rank, and leaves nothing.
    pub fn finish(mut self) -> Result<()> {
        const OPERATION: &str = "finish";
        not_forked(OPERATION)?;
        // Whoever finds out is to tell others, for which it must still be there.
        let aborted = self.context.check_aborted(OPERATION);
        self.finished = true;
        diagnostics::leaving();
        let left = self.context.leave();
        diagnostics::left();
        set_hook(None);
        aborted.and(left.map_err(|error| error.during(OPERATION)))
    }

    /// Local. The device that the job runs over.
    #[must_use]
    pub fn device_name(&self) -> &str {
        self.context.device().name()
    }

    /// Local. What this process has taken from the device: registered memory, queue pairs,
    /// completion queue entries. `None` for devices on which nothing of it is scarce.
    #[must_use]
    pub fn device_usage(&self) -> Option<Usage> {
        self.context.device().usage()
    }

    /// Local. By which addresses peers reach this process, and at which it has reached others, in words. `None` for devices
    /// whose peers are not reached by addresses of a network.
    #[must_use]
    pub fn device_addresses(&self) -> Option<String> {
        self.context.device().addresses()
    }

    /// Local. Allocates `size` zeroed bytes that a window created over them serves as fast as one
    /// that allocates its own, and that operations transfer from and to without a copy (MPI-4.1,
    /// section 9.2, `MPI_Alloc_mem`). Aligned to 64, or more with the hint `mpi_minimum_memory_alignment`.
    /// Freed with [`Job::free_mem`] or with the job.
    ///
    /// # Errors
    /// Out of memory, or a malformed hint.
    pub fn alloc_mem(&self, size: usize, info: &Info) -> Result<NonNull<u8>> {
        not_forked("alloc_mem")?;
        self.context.alloc_mem(size, info.alignment())
    }

    /// Local. `len` elements, all bytes zero, in memory that the device can transfer from and to
    /// without a copy (MPI-4.1, section 9.2, `MPI_Alloc_mem`). Freed when dropped.
    ///
    /// ```
    /// # fn main() -> transom::Result<()> {
    /// # let job = transom::Job::init()?;
    /// let mut window = transom::Window::<f64>::allocate(job.world(), 1000)?;
    /// let mut block = job.alloc::<f64>(1000)?;
    /// block.fill(0.5);
    /// window.fence(|epoch| epoch.target(0)?.put(0, &block))??;
    /// # window.free()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `len` elements are more than 2^63 − 1 bytes; out of memory, or of memory that may be locked.
    pub fn alloc<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        Buffer::new(&self.world, len)
    }

    /// Local. Frees what [`Job::alloc_mem`] returned (MPI-4.1, section 9.2, `MPI_Free_mem`).
    ///
    /// # Errors
    /// `base` was not handed out, or was freed already.
    ///
    /// # Safety
    /// No window over the memory is alive, and nothing refers to it any more.
    pub unsafe fn free_mem(&self, base: NonNull<u8>) -> Result<()> {
        not_forked("free_mem")?;
        self.context.free_mem(base)
    }

    /// Local. Ends the job: every rank that waits for another gets an error, and the launcher is
    /// told to end all ranks with this exit code (MPI-4.1, section 11.4.2, `MPI_Abort`). Does nothing
    /// in a process that was forked from the rank.
    ///
    /// A job of [`Job::over`], or one whose ranks met by themselves, has no launcher, but the hook of
    /// [`Job::on_abort`].
    pub fn abort(&self, code: i32, message: &str) {
        self.context.abort_everywhere(AbortCause::Aborted);
        self.context.report_abort_to_launcher(code, message);
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("world", &self.world)
            .field("device", &self.device_name())
            .finish_non_exhaustive()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // A forked child drops a copy; the job, with its threads and connections, is its parent's.
        if is_forked() {
            std::mem::forget(self.context.clone());
            return;
        }
        if self.finished {
            return;
        }
        diagnostics::leaving();
        if std::thread::panicking() {
            self.context.abort_everywhere(AbortCause::Panicked);
        } else if let Err(error) = self.context.leave() {
            tracing::warn!(%error, "the launcher did not take the farewell");
        }
        diagnostics::left();
        set_hook(None);
    }
}
