//! What operations need of their target while it computes, and whose atomics they are.

use rdma_sys_shim::{AtomicDomain, TargetThread};

use super::Window;
use crate::terms::Flavor;

/// What has to run at the target for operations on a window to complete there. The target's program never needs to call
/// the library: it may compute, sleep, or wait for something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// Nothing: the origin's processor or devices carry out every operation, whatever the target's process does, even
    /// while it is stopped. There is one exception on the soft device: while a thread of the target waits in a call of
    /// this library, it may copy a part of an operation for the origin. If the process is stopped or loses its
    /// processor during that copy, the operation ends once the process continues. The device option `assist=off`
    /// removes the exception.
    Always,
    /// A thread of the library in the target's process carries out some operations, on memory that the system does not
    /// let origins access. They complete while the program's threads compute, but may be late if these leave the thread
    /// no processor, and wait while the process is stopped.
    TargetThread,
}

impl Window {
    /// Local. The guarantee for every operation on this window, whichever rank is its target. Single operations may
    /// need less: memory of `alloc_mem` is as good as memory that a window allocated. MPI leaves progress to the
    /// implementation (MPI-4.1, sections 2.9 and 12.7.3).
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

    /// Local. The unit that carries out the atomics of this window; the same on all its ranks. Over RDMA devices it is
    /// [`AtomicDomain::Cpu`] if the ranks share a host and map each other's memory, in windows that are allocated or
    /// created over memory of `alloc_mem`.
    ///
    /// With [`AtomicDomain::Cpu`], a program's own atomics on its part are atomic to elementwise accumulates, except
    /// accumulates of 16 or more elements in an allocated window, which are atomic only to calls of the window. With
    /// [`AtomicDomain::Device`], the program's atomics and those of the window are not atomic to each other. With
    /// [`AtomicDomain::Global`], those of eight bytes are, since the device's atomics are atomic to the processor's.
    #[must_use]
    pub fn atomic_domain(&self) -> AtomicDomain {
        self.atomic_domain
    }
}
