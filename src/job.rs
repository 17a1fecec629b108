//! A rank's membership in its job: where a program begins.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rdma_sys_shim::Usage;
use transom_launch::pmi::Client;

use crate::comm::{Communicator, world_block_bytes};
use crate::datatype::Element;
use crate::error::{AbortCause, Error, Misuse, Result};
use crate::peers::{Context, is_forked, named_device, not_forked};
use crate::terms::ThreadLevel;
use crate::typed::Buffer;
use crate::window::Info;

/// This process's membership in a parallel job.
///
/// Dropping it leaves the job: ranks that still wait for this one get an error. Dropping it while
/// panicking aborts the job.
///
/// ```no_run
/// let job = transom::Job::init()?;
/// println!("rank {} of {}", job.world().rank(), job.world().size());
/// # Ok::<(), transom::Error>(())
/// ```
pub struct Job {
    context: Arc<Context>,
    world: Communicator,
}

/// A process can be a rank of one job, once: launchers accept one client.
static TAKEN: AtomicBool = AtomicBool::new(false);

impl Job {
    /// Collective over the job. Joins the job that this process was launched into
    /// (`transom run`, `mpiexec.hydra`, `srun --mpi=pmi2`), or a job of one rank where there is no
    /// launcher.
    ///
    /// The environment variable `TRANSOM_DEVICE` chooses the device; unset or `auto`, it is soft
    /// where all ranks share a host, and else an RDMA device. `TRANSOM_CONTROL_BYTES` is the size of
    /// the memory from which windows and communicators take the words that their peers write: 16 MiB
    /// of address space, or 4 MiB on devices that lock such memory into physical memory, or what
    /// the number of ranks needs, if that is more.
    ///
    /// # Errors
    /// The launcher's environment is broken; the device is unknown or refused by the system, or
    /// none joins the hosts that the ranks run on; this process joined a job before. Where only some
    /// ranks fail, the others get an error when they first need one of those.
    pub fn init() -> Result<Self> {
        Self::init_thread(ThreadLevel::default())
    }

    /// Collective over the job. As [`Job::init`], with a promise about threads (MPI-4.1, section
    /// 11.6.2, `MPI_Init_thread`).
    ///
    /// # Errors
    /// As for [`Job::init`].
    pub fn init_thread(level: ThreadLevel) -> Result<Self> {
        if TAKEN.swap(true, Ordering::SeqCst) {
            return Err(Error::new("job start", Misuse::JobTaken));
        }
        let named = named_device();
        let client = Client::from_env()?;
        if client.is_none() && named.is_err() {
            // Nobody waits for this process: it may try another device.
            TAKEN.store(false, Ordering::SeqCst);
        }
        let context = Context::join(level, client, named, world_block_bytes)?;
        let world = Communicator::world(&context);
        Ok(Self { context, world })
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
        not_forked("alloc")?;
        Buffer::new(&**self.context.device(), len)
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
    pub fn abort(&self, code: i32, message: &str) {
        self.context.abort_everywhere(AbortCause::Aborted);
        self.context.tell_launcher_abort(code, message);
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
        if std::thread::panicking() {
            self.context.abort_everywhere(AbortCause::Panicked);
        } else {
            self.context.leave();
        }
    }
}
