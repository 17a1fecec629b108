//! The memory that a process's adapters lock, and its limit.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::completion::lock;
use crate::error::{Errno, Result};
use crate::personality::LockLimit;

/// The bytes that this process has locked, under a lock so that the limit is not passed by two threads.
static LOCKED: Mutex<u64> = Mutex::new(0);

/// Memory that counts as locked until this is dropped.
pub(crate) struct Locked {
    bytes: u64,
}

impl Locked {
    /// Counts memory as locked, as `ib_umem_get` of the kernel does.
    ///
    /// # Errors
    /// The limit would be passed.
    pub(crate) fn take(limit: LockLimit, bytes: u64) -> Result<Self> {
        let most = match limit {
            LockLimit::System if !may_lock_all() => system_limit()?,
            LockLimit::None | LockLimit::System => u64::MAX,
            LockLimit::Bytes(most) => most,
        };
        let mut locked = lock(&LOCKED);
        if bytes > most.saturating_sub(*locked) {
            return Err(Errno::NO_MEMORY);
        }
        *locked += bytes;
        Ok(Self { bytes })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        *lock(&LOCKED) -= self.bytes;
    }
}

fn system_limit() -> Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a place for the answer.
    match unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) } {
        0 => Ok(limit.rlim_cur),
        _ => Err(Errno::last()),
    }
}

/// Whether this thread has `CAP_IPC_LOCK`.
fn may_lock_all() -> bool {
    const IPC_LOCK: u32 = 1 << 14;
    // Version 3 of the call: effective, permitted and inheritable capabilities, in two halves.
    let mut header = [0x2008_0522_u32, 0];
    let mut sets = [[0_u32; 3]; 2];
    // SAFETY: places of the sizes that version 3 asks for.
    let code = unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()) };
    code == 0 && sets[0][0] & IPC_LOCK != 0
}

pub(crate) fn page_size() -> u64 {
    static PAGE: AtomicU64 = AtomicU64::new(0);
    if PAGE.load(Ordering::Relaxed) == 0 {
        // SAFETY: has no preconditions.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        PAGE.store(u64::try_from(size).unwrap_or(4096), Ordering::Relaxed);
    }
    PAGE.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_memory_is_locked_than_the_limit_allows_until_some_is_unlocked() {
        let take = |bytes| Locked::take(LockLimit::Bytes(1 << 20), bytes);
        let first = take(1 << 19).unwrap();
        assert_eq!(take((1 << 19) + 1).err(), Some(Errno::NO_MEMORY));
        let second = take(1 << 19).unwrap();
        assert_eq!(take(1).err(), Some(Errno::NO_MEMORY));
        let beyond = Locked::take(LockLimit::None, 1 << 30).unwrap();
        assert_eq!(beyond.bytes(), 1 << 30);
        drop((first, beyond));
        let third = take(1 << 19).unwrap();
        drop((second, third));
        assert_eq!(*lock(&LOCKED), 0);
    }
}
