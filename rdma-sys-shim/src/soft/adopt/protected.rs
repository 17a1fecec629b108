//! Moving pages while other threads run and write to them. The argument is in the module above.
//! Between protect and wake nothing is allocated, no lock is taken, and only the stack is
//! written: another thread may be waiting for the wake with any lock in its hands, and anything
//! else of this process may be on the protected pages.

use super::direct;
use super::stretch::Stretch;
use super::sys::{self, Refusal, SignalsBlocked};
use super::uffd::Uffd;

/// Moves private pages into the memfd.
///
/// # Safety
/// The pages are plain private memory whose mapping no other thread changes, no system call of
/// another thread writes to them unless `uffd` holds those too, and neither this thread's stack
/// nor its thread-local storage is on them.
pub(super) unsafe fn adopt(uffd: &Uffd, stretch: &Stretch) -> Result<(), Refusal> {
    // Write protection of kernels before 6.4 lets first writes to unpopulated pages through.
    sys::advise(stretch.addr, stretch.len, libc::MADV_POPULATE_WRITE)?;
    let _blocked = SignalsBlocked::new();
    uffd.protect(stretch.addr, stretch.len)?;
    // SAFETY: the pages are mapped; every write to them waits.
    let moved = unsafe { stretch.store() }.and_then(|()| {
        // SAFETY: the memfd holds what the pages hold: every write since they were protected is
        // still waiting.
        unsafe { stretch.map_shared() }
    });
    match moved {
        Ok(()) => uffd.wake(stretch.addr, stretch.len),
        Err(_) => uffd.release(stretch.addr, stretch.len),
    }
    moved
}

/// Moves adopted pages back into private memory.
///
/// # Safety
/// Nobody writes to the memfd but threads of this process through these addresses, whose mapping
/// no other thread changes; no system call of another thread writes to them unless `uffd` holds
/// those too; and neither this thread's stack nor its thread-local storage is on them.
pub(super) unsafe fn give_back(uffd: &Uffd, stretch: &Stretch) -> Result<(), Refusal> {
    // SAFETY: nothing is replaced.
    let staging = unsafe { stretch.map_private(None)? };
    // SAFETY: the staging pages are this call's, and the caller guarantees the rest.
    let moved = unsafe { replace(uffd, stretch, staging) };
    if moved.is_err() {
        // SAFETY: the staging pages stayed where they were, and nothing refers to them.
        unsafe { sys::unmap(staging, stretch.len) };
    }
    moved
}

/// # Safety
/// As for [`give_back`]; `staging` is as long as the stretch, zeroed and this call's own.
unsafe fn replace(uffd: &Uffd, stretch: &Stretch, staging: usize) -> Result<(), Refusal> {
    let _blocked = SignalsBlocked::new();
    uffd.protect(stretch.addr, stretch.len)?;
    // SAFETY: the staging pages are the caller's own.
    let loaded = unsafe { stretch.load(staging) };
    if loaded.is_err() {
        uffd.release(stretch.addr, stretch.len);
        return loaded;
    }
    // SAFETY: the staging pages hold what the adopted ones hold: every write since they were
    // protected is still waiting. The kernel replaces the ones by the others in one step.
    let moved = unsafe { sys::move_pages(staging, stretch.len, stretch.addr) };
    if moved.is_err() {
        // In theory the kernel may have unmapped the target before it failed.
        // SAFETY: the memfd holds everything, and no write went elsewhere.
        unsafe { direct::restore(stretch) };
    }
    uffd.wake(stretch.addr, stretch.len);
    moved
}
