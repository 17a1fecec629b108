//! Threads of this crate's own, which run none of the program's signal handlers but those of faults.

/// Signals for the thread that causes them. If one is blocked, the kernel kills the process. Programs that use them to
/// watch their own memory, or to emulate system calls, keep working.
const FAULTS: [libc::c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGSYS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
];

/// Runs `body` with all other signals blocked. A thread started in it inherits this: the program's handlers expect to
/// run on the program's threads.
pub fn without_signals<R>(body: impl FnOnce() -> R) -> R {
    // SAFETY: sigfillset initialises the set; only the mask of the calling thread changes, and it is restored.
    unsafe {
        let mut most: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut most);
        for signal in FAULTS {
            libc::sigdelset(&raw mut most, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const most, &raw mut before);
        let result = body();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        result
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;
    use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

    use super::*;
    use crate::memory;

    const LEN: usize = 1 << 16;

    static WATCHED: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

    /// Opens what is watched; any other fault ends the process, as it does without a handler.
    extern "C" fn open_watched(
        signal: libc::c_int,
        info: *mut libc::siginfo_t,
        _: *mut libc::c_void,
    ) {
        let watched = WATCHED.load(Ordering::Relaxed);
        // SAFETY: the kernel passes a valid record of a fault; the calls are those that handlers may make.
        unsafe {
            let at = (*info).si_addr();
            if at.addr().wrapping_sub(watched.addr()) < LEN {
                libc::mprotect(watched.cast(), LEN, libc::PROT_READ | libc::PROT_WRITE);
            } else {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }

    #[test]
    fn a_program_that_watches_its_memory_sees_a_fault_of_our_thread() {
        // So that its handler stands behind this one, and stays when this one goes.
        crate::guard::watch();
        let _alone = crate::guard::alone();
        // SAFETY: new memory, which only this test uses; the handler is put back before it ends, and serves any thread.
        unsafe {
            let watched = libc::mmap(
                ptr::null_mut(),
                LEN,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(watched, libc::MAP_FAILED);
            WATCHED.store(watched.cast(), Ordering::Relaxed);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = open_watched as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            let mut before: libc::sigaction = std::mem::zeroed();
            assert_eq!(
                libc::sigaction(libc::SIGSEGV, &raw const action, &raw mut before),
                0
            );
            let found = AtomicU64::new(7);
            std::thread::scope(|scope| {
                without_signals(|| {
                    scope.spawn(|| {
                        let watched = WATCHED.load(Ordering::Relaxed);
                        memory::copy(found.as_ptr().cast(), watched, 8);
                    });
                });
            });
            assert_eq!(found.into_inner(), 0);
            assert_eq!(
                libc::sigaction(libc::SIGSEGV, &raw const before, ptr::null_mut()),
                0
            );
            assert_eq!(libc::munmap(watched, LEN), 0);
        }
    }
}
