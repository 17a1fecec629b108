//! A fence that one thread makes for all others, so that they need none of their own.

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence};

use rustix::thread::{MembarrierCommand, membarrier};

/// Registers this process for the fences of [`fence_all`]. False if the kernel refuses: it has no membarrier, or a
/// filter of system calls forbids it.
#[must_use]
pub fn take_fences() -> bool {
    static TAKES: OnceLock<bool> = OnceLock::new();
    *TAKES.get_or_init(|| membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok())
}

/// A full fence in every thread, running or not, of all processes of this machine that [`take_fences`]. Either the
/// caller sees what a thread did before [`light_fence`], or the thread sees after that what the caller did before this
/// call. Takes some microseconds. False if the kernel refuses.
#[must_use]
pub fn fence_all() -> bool {
    membarrier(MembarrierCommand::GlobalExpedited).is_ok()
}

/// The counterpart of [`fence_all`]: a compiler fence, which costs nothing.
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
