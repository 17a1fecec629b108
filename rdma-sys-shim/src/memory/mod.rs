//! The routines through which every byte of a window moves.
//!
//! Other processes may read and write a window while it is copied, and programs are allowed to have such
//! races. In Rust and LLVM, a data race of a plain copy is undefined behaviour. So the compiler sees none of
//! the accesses below: each is made by inline assembly, by a call that the optimiser cannot inspect, or by an
//! atomic. A race then leaves unspecified bytes in the destination, and nothing worse.

mod buffer;
mod direction;
mod numbers;
#[cfg(any(not(target_arch = "x86_64"), test))]
#[cfg_attr(test, allow(dead_code, reason = "for processors without their own"))]
mod portable;
mod rows;
#[cfg(feature = "testkit")]
mod testkit;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub use buffer::Buffer;
pub use direction::Direction;
pub use numbers::Number;
#[cfg(feature = "testkit")]
pub use testkit::{StoreHooks, copy_unseen, set_store_hooks};

#[cfg(not(target_arch = "x86_64"))]
use portable as arch;
#[cfg(target_arch = "x86_64")]
use x86_64 as arch;

#[cfg(test)]
mod tests;

/// Called before bytes are stored to memory that may be a peer's.
#[inline(always)]
fn before_store(to: *mut u8, len: usize) {
    #[cfg(feature = "testkit")]
    testkit::before_store(to, len);
    #[cfg(not(feature = "testkit"))]
    let _ = (to, len);
}

/// Copies `len` bytes. A release store after the call publishes them, whatever instructions moved them.
///
/// Eight or four bytes, naturally aligned on both sides, move in one access and are never torn. The ranges may
/// overlap, and the result is then that of `memmove`; if the same memory is mapped twice and the ranges
/// overlap through different addresses, the overlapping bytes are unspecified.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, for the whole call, and no Rust reference to either
/// range is in use that the copy would contradict. Both may be raced by other processes and by copies made
/// through this function.
#[inline]
pub unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
    before_store(to, len);
    // SAFETY: the caller's promise is the one asked for.
    unsafe { arch::copy(to, from, len) }
}

/// As [`copy`] of a part of `whole` bytes, by the method for `whole` bytes.
///
/// # Safety
/// As for [`copy`].
pub(crate) unsafe fn copy_part(to: *mut u8, from: *const u8, len: usize, whole: usize) {
    before_store(to, len);
    // SAFETY: the caller's promise is the one asked for.
    unsafe { arch::copy_part(to, from, len, whole) }
}

/// Whether copies of this length use nontemporal stores: the caches are unlikely to hold either side.
pub(crate) fn streams(len: usize) -> bool {
    arch::streams(len)
}

/// Whether the processor only lets a load overtake an earlier store, and not across a sequentially consistent atomic:
/// total store order, with atomics that are full fences.
pub const TOTAL_STORE_ORDER: bool = cfg!(target_arch = "x86_64");

/// Completes this thread's earlier stores before its later loads, as a flush needs. It is the one order that x86 does
/// not ensure. It is also a compiler barrier.
#[inline]
pub fn full_fence() {
    before_flag();
    arch::full_fence();
}

/// Called before a store or an atomic of the processor that signals earlier stores of this process. Processors keep
/// these in order, as do the hooks of a device for tests.
#[inline(always)]
pub fn before_flag() {
    #[cfg(feature = "testkit")]
    testkit::before_flag();
}

/// Called after a load of a word that a device may have written, before loads of the data that it wrote earlier.
/// aarch64 orders acquire loads with respect to processors, but devices may be outside of that shareability domain.
#[inline(always)]
pub fn after_flag() {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier touches no memory, no register and no flag.
    unsafe {
        std::arch::asm!("dmb oshld", options(nostack, preserves_flags));
    }
}

/// Prefetches the cache line at `at` for a write soon. A hint, for any address.
#[inline(always)]
pub fn prefetch_for_write(at: *const u8) {
    arch::prefetch_for_write(at);
}

/// `to[i] += from[i]` for `count` elements, at any alignment. If `to` and `from` overlap without being equal,
/// the sums are unspecified.
///
/// If a sum of two NaNs could be either, the result is one of them.
///
/// # Safety
/// As for [`copy`], with `to` readable as well. The caller holds the target's accumulate lock, without which
/// concurrent updates are lost; others may read `to` meanwhile.
#[inline]
pub unsafe fn add_f64(to: *mut u8, from: *const u8, count: usize) {
    before_store(to, 8 * count);
    // SAFETY: the caller's promise is the one asked for.
    unsafe { arch::add_f64(to, from, count) }
}

/// As [`add_f64`], for floats of 32 bits.
///
/// # Safety
/// As for [`add_f64`].
pub unsafe fn add_f32(to: *mut u8, from: *const u8, count: usize) {
    before_store(to, 4 * count);
    // SAFETY: the caller's promise is the one asked for.
    unsafe { arch::add_f32(to, from, count) }
}

/// As [`add_f64`], for integers of 64 bits of either sign; sums wrap.
///
/// # Safety
/// As for [`add_f64`].
pub unsafe fn add_i64(to: *mut u8, from: *const u8, count: usize) {
    before_store(to, 8 * count);
    // SAFETY: the caller's promise is the one asked for.
    unsafe { arch::add_i64(to, from, count) }
}

/// As [`add_f64`], for integers of 32 bits of either sign; sums wrap.
///
/// # Safety
/// As for [`add_f64`].
pub unsafe fn add_i32(to: *mut u8, from: *const u8, count: usize) {
    before_store(to, 4 * count);
    // SAFETY: the caller's promise is the one asked for.
    unsafe { arch::add_i32(to, from, count) }
}

/// As [`add_f64`], for integers of 16 bits of either sign; sums wrap.
///
/// # Safety
/// As for [`add_f64`].
pub unsafe fn add_i16(to: *mut u8, from: *const u8, count: usize) {
    before_store(to, 2 * count);
    // SAFETY: the caller's promise is the one asked for.
    unsafe { arch::add_i16(to, from, count) }
}

/// As [`add_f64`], for integers of 8 bits of either sign; sums wrap.
///
/// # Safety
/// As for [`add_f64`].
pub unsafe fn add_i8(to: *mut u8, from: *const u8, count: usize) {
    before_store(to, count);
    // SAFETY: the caller's promise is the one asked for.
    unsafe { arch::add_i8(to, from, count) }
}

/// Equal blocks of two memories, each with its own distance from one block to the next.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// Bytes of a block.
    pub len: usize,
    /// The number of blocks.
    pub count: usize,
    /// The distance between blocks at the destination.
    pub to_stride: isize,
    /// The distance between blocks at the source.
    pub from_stride: isize,
}

/// Copies the blocks in an unspecified order, each as [`copy`] does.
///
/// # Safety
/// As for [`copy`], for every block.
pub unsafe fn copy_rows(to: *mut u8, from: *const u8, rows: Rows) {
    #[cfg(feature = "testkit")]
    if testkit::are_set() {
        for index in 0..rows.count as isize {
            let row = to.wrapping_offset(index.wrapping_mul(rows.to_stride));
            testkit::before_store(row, rows.len);
        }
    }
    // SAFETY: the caller's promise is the one asked for.
    unsafe { rows::copy(to, from, rows) }
}
