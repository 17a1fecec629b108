//! What a device for tests learns of the stores that this process makes to memory of its peers.

use std::sync::OnceLock;

use super::arch;

/// Hooks that the copying routines for windows call.
pub struct StoreHooks {
    /// Called before this many bytes are stored from an address on.
    pub before_store: fn(*mut u8, usize),
    /// Called before a fence, and before a store or an atomic that signals earlier stores.
    pub before_flag: fn(),
}

static HOOKS: OnceLock<&'static StoreHooks> = OnceLock::new();

/// Sets the hooks for the rest of this process. Only the first call counts.
pub fn set_store_hooks(hooks: &'static StoreHooks) {
    HOOKS.get_or_init(|| hooks);
}

#[inline]
pub(super) fn are_set() -> bool {
    HOOKS.get().is_some()
}

#[inline]
pub(super) fn before_store(to: *mut u8, len: usize) {
    if let Some(hooks) = HOOKS.get() {
        (hooks.before_store)(to, len);
    }
}

#[inline]
pub(super) fn before_flag() {
    if let Some(hooks) = HOOKS.get() {
        (hooks.before_flag)();
    }
}

/// Copies as [`copy`](super::copy) does, but without calling the hooks: for the hooks themselves.
///
/// # Safety
/// As for [`copy`](super::copy).
pub unsafe fn copy_unseen(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { arch::copy(to, from, len) }
}
