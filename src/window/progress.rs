//! What operations need of their target while it computes, and whose atomics they are.

use rdma_sys_shim::{AtomicDomain, TargetThread};

use super::Window;
use crate::terms::Flavor;

/// What has to run at the target for operations on a window to complete there. No operation needs
/// the target's program to call in, ever: it may compute, sleep, or wait for something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// Nothing: every operation is carried out by its origin's processor or by devices, whatever the target's process does, also
    /// while it is stopped. One exception on the soft device: while a thread of the target waits in a call of this
    /// library, it may copy a part of an operation for the origin. If the process is stopped, or loses its processor, in the middle of that copy,
    /// the operation ends once the process goes on. With the device option `assist=off` there is no exception.
    Always,
    /// For some operations, on memory to which the system refuses origins the way, a thread that the
    /// library keeps in the target's process. They complete while the program's threads compute, but
    /// may be late where these leave it no processor, and wait while the process is stopped.
    TargetThread,
}

impl Window {
    /// Local. What is guaranteed of every operation on this window, whichever rank is its target.
    /// Single operations may need less: memory of `alloc_mem` is as good as what a window allocated.
    /// MPI leaves progress to the implementation (MPI-4.1, sections 2.9 and 12.7.3).
    #[must_use]
    pub fn progress(&self) -> Progress {
        match self.team.fabric.device.capabilities().target_thread {
            TargetThread::Never => Progress::Always,
            TargetThread::ForRegistered => match self.flavor {
                Flavor::Allocate | Flavor::Shared => Progress::Always,
                Flavor::Create | Flavor::Dynamic => Progress::TargetThread,
            },
            TargetThread::ForAll => Progress::TargetThread,
        }
    }

    /// Local. Who carries out the atomics of this window: the same on all its ranks. Over RDMA devices it is
    /// [`AtomicDomain::Cpu`] in allocated windows, and created ones over memory of `alloc_mem`, whose ranks share a host and
    /// map each other's memory.
    ///
    /// With [`AtomicDomain::Cpu`], a program's own atomics on its part take part in elementwise accumulates, but for those
    /// of 16 elements and more in an allocated window, which are atomic to calls of the window only. With
    /// [`AtomicDomain::Device`], they and those of the window are not atomic to each other. With [`AtomicDomain::Global`],
    /// those of eight bytes are, since the device says that its atomics are the processor's, too.
    #[must_use]
    pub fn atomic_domain(&self) -> AtomicDomain {
        self.atomic_domain
    }
}
