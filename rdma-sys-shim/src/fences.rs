//! A fence that one thread makes for all others, so that they need none of their own.

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence};

use rustix::thread::{MembarrierCommand, membarrier};

/// Has the kernel make fences of [`fence_all`] in this process, too. Whether it does: a kernel without membarrier,
/// or a filter of system calls, refuses.
#[must_use]
pub fn take_fences() -> bool {
    static TAKES: OnceLock<bool> = OnceLock::new();
    *TAKES.get_or_init(|| membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok())
}

/// A full fence in every thread, running or not, of all processes of this machine that [`take_fences`]: what a
/// thread did before [`light_fence`] is seen by whoever called this, or else the thread sees after its fence what
/// that one did before the call. Takes some microseconds. False if the kernel refuses.
#[must_use]
pub fn fence_all() -> bool {
    membarrier(MembarrierCommand::GlobalExpedited).is_ok()
}

/// The other side of [`fence_all`]: keeps the compiler's order, and costs nothing.
#[inline(always)]
pub fn light_fence() {
    compiler_fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_makes_fences_or_says_that_it_does_not() {
        let takes = take_fences();
        assert_eq!(take_fences(), takes);
        assert!(!takes || fence_all());
    }
}
