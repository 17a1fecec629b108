//! The routines for processors without a file of their own.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering, fence};

type MemMove = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;

/// Called through a volatile read: LLVM understands a direct call as a memory access, and may assume that nothing races
/// with it.
static MEMMOVE: MemMove = libc::memmove;

/// # Safety
/// As [`super::copy`].
unsafe fn move_bytes(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: a reference to a static is readable.
    let memmove = unsafe { ptr::read_volatile(&MEMMOVE) };
    // SAFETY: the caller vouches for both ranges, and memmove allows them to overlap.
    unsafe { memmove(to.cast(), from.cast(), len) };
}

#[inline]
pub(super) unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
    macro_rules! one_word {
        ($atomic:ty) => {
            if to.cast::<$atomic>().is_aligned() && from.cast::<$atomic>().is_aligned() {
                // SAFETY: the caller vouches for `len` bytes on both sides, which is this word's size; both are
                // aligned; only `load` is called on the source, so it need not be writable.
                unsafe {
                    let value = (*from.cast::<$atomic>()).load(Ordering::Relaxed);
                    (*to.cast::<$atomic>()).store(value, Ordering::Relaxed);
                }
                return;
            }
        };
    }
    match len {
        #[cfg(target_has_atomic = "64")]
        8 => one_word!(std::sync::atomic::AtomicU64),
        4 => one_word!(AtomicU32),
        2 => one_word!(AtomicU16),
        1 => one_word!(AtomicU8),
        _ => {}
    }
    // SAFETY: the caller's promise is the one asked for.
    unsafe { move_bytes(to, from, len) };
}

/// There is one method for all lengths.
pub(super) unsafe fn copy_part(to: *mut u8, from: *const u8, len: usize, _whole: usize) {
    // SAFETY: the caller's promise is the one asked for.
    unsafe { copy(to, from, len) }
}

/// There are no nontemporal stores.
pub(super) fn streams(_len: usize) -> bool {
    false
}

/// No hint is known.
#[inline(always)]
pub(super) fn prefetch_for_write(_at: *const u8) {}

pub(super) fn gains_by_prefetch() -> bool {
    false
}

/// [`copy`] of a length that the compiler knows.
///
/// # Safety
/// As [`super::copy`].
#[inline(always)]
pub(super) unsafe fn copy_fixed<const LEN: usize>(to: *mut u8, from: *const u8) {
    // SAFETY: the caller's promise is the one asked for.
    unsafe { copy(to, from, LEN) }
}

#[inline]
pub(super) fn full_fence() {
    fence(Ordering::SeqCst);
}

/// # Safety
/// As [`super::add_f64`], for elements that any bytes are valid for.
unsafe fn add_by<T: Copy + Default>(
    to: *mut u8,
    from: *const u8,
    count: usize,
    add: impl Fn(T, T) -> T,
) {
    // The sums are formed in private memory, where the compiler may vectorise them.
    const CHUNK: usize = 128;
    let mut sums = [T::default(); CHUNK];
    let mut terms = [T::default(); CHUNK];
    let mut done = 0;
    while done < count {
        let n = CHUNK.min(count - done);
        let (at, bytes) = (done * size_of::<T>(), n * size_of::<T>());
        // SAFETY: `at + bytes` is at most `count` elements, for which the caller vouches on both sides; the
        // arrays hold `n` elements, and any bytes are one.
        unsafe {
            copy(sums.as_mut_ptr().cast(), to.add(at), bytes);
            copy(terms.as_mut_ptr().cast(), from.add(at), bytes);
        }
        for (sum, term) in sums[..n].iter_mut().zip(&terms[..n]) {
            *sum = add(*sum, *term);
        }
        // SAFETY: as above; `to` is writable too.
        unsafe { copy(to.add(at), sums.as_ptr().cast(), bytes) };
        done += n;
    }
}

macro_rules! adds {
    ($($name:ident: $element:ty, $add:expr;)+) => {
        $(pub(super) unsafe fn $name(to: *mut u8, from: *const u8, count: usize) {
            // SAFETY: the caller's promise is the one asked for.
            unsafe { add_by::<$element>(to, from, count, $add) }
        })+
    };
}

adds! {
    add_f64: f64, |a, b| a + b;
    add_f32: f32, |a, b| a + b;
    add_i64: i64, i64::wrapping_add;
    add_i32: i32, i32::wrapping_add;
    add_i16: i16, i16::wrapping_add;
    add_i8: i8, i8::wrapping_add;
}
