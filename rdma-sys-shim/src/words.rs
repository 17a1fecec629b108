//! Atomics of the processor on words of registered memory.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Evaluates an expression on the atomic word `$word` of `$width` bytes at `$at`, whose integer type it calls `$int`.
/// `None` for other widths and misaligned words.
macro_rules! on_word {
    ($at:ident, $width:ident, |$word:ident: $int:ident| $body:expr) => {
        on_word!($at, $width, |$word: $int| $body;
            1 AtomicU8 u8, 2 AtomicU16 u16, 4 AtomicU32 u32, 8 AtomicU64 u64)
    };
    ($at:ident, $width:ident, |$word:ident: $int:ident| $body:expr;
     $($bytes:literal $atomic:ident $integer:ident),+) => {
        match $width {
            $($bytes if $at.addr().is_multiple_of($bytes) => {
                type $int = $integer;
                // SAFETY: mapped, and shared with peers, by the caller's promise; aligned.
                let $word = unsafe { $atomic::from_ptr($at.cast()) };
                Some(u64::from($body))
            })+
            _ => None,
        }
    };
}

/// A locked add; `None` for widths other than 1, 2, 4 and 8 and for misaligned words.
///
/// # Safety
/// The word is mapped, and all other accesses to it meanwhile are those of memory shared with peers.
pub(crate) unsafe fn fetch_add(at: *mut u8, width: usize, add: u64) -> Option<u64> {
    on_word!(at, width, |word: Int| word
        .fetch_add(add as Int, Ordering::SeqCst))
}

/// A locked compare-and-swap; `None` as for [`fetch_add`].
///
/// # Safety
/// As for [`fetch_add`].
pub(crate) unsafe fn compare_swap(at: *mut u8, width: usize, expect: u64, new: u64) -> Option<u64> {
    let (success, failure) = (Ordering::SeqCst, Ordering::SeqCst);
    on_word!(at, width, |word: Int| word
        .compare_exchange(expect as Int, new as Int, success, failure)
        .unwrap_or_else(|old| old))
}

/// An atomic store; `None` as for [`fetch_add`].
///
/// # Safety
/// As for [`fetch_add`].
pub(crate) unsafe fn store(at: *mut u8, width: usize, value: u64) -> Option<u64> {
    on_word!(at, width, |word: Int| {
        word.store(value as Int, Ordering::SeqCst);
        0_u8
    })
}
