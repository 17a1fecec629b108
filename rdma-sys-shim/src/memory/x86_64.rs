//! The routines for x86-64. All of it is assembly, which the compiler cannot see into, so that memory raced by
//! other processes is never accessed in Rust's own terms.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, CpuidResult};
use std::sync::OnceLock;

mod add;
mod caches;
mod large;
mod medium;

#[cfg(test)]
pub(super) use add::tests::add_loops;
pub(super) use add::{add_f32, add_f64, add_i8, add_i16, add_i32, add_i64};
#[cfg(test)]
pub(super) use large::tests::all_methods;
pub(super) use large::{copy_part, streams};

/// The longest copy that takes a few instructions.
const SHORT: usize = 32;

#[inline]
pub(super) unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
    // Flags, counters and elements have eight bytes, and their latency matters: no call for them.
    if len == 8 {
        // SAFETY: the caller vouches for 8 bytes on both sides.
        unsafe {
            asm!("mov {t}, qword ptr [{from}]", "mov qword ptr [{to}], {t}",
                t = out(reg) _, from = in(reg) from, to = in(reg) to,
                options(nostack, preserves_flags));
        }
    } else if len <= SHORT {
        // SAFETY: the caller's promise is the one asked for, and the length was checked.
        unsafe { copy_short(to, from, len) }
    } else {
        // SAFETY: the caller's promise is the one asked for.
        unsafe { copy_long(to, from, len) }
    }
}

/// Out of line, since its calls would make the callers' short code longer.
///
/// # Safety
/// As [`super::copy`].
#[inline(never)]
unsafe fn copy_long(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the caller's promise is the one asked for, and the length was checked.
    unsafe {
        if len < medium::FLOOR {
            memmove(to, from, len);
        } else if len < large::FLOOR {
            medium::copy(to, from, len);
        } else {
            large::copy(to, from, len);
        }
    }
}

/// Moves any `len` from one to two units by two accesses that may overlap. The loads come before the stores, so that
/// overlapping ranges are correct.
macro_rules! two_ends {
    ($mov:literal, $class:ident, $modifier:literal, $unit:literal, $to:ident, $from:ident, $len:ident) => {
        asm!(
            concat!($mov, " {a", $modifier, "}, [{from}]"),
            concat!($mov, " {b", $modifier, "}, [{from} + {len} - ", $unit, "]"),
            concat!($mov, " [{to}], {a", $modifier, "}"),
            concat!($mov, " [{to} + {len} - ", $unit, "], {b", $modifier, "}"),
            a = out($class) _, b = out($class) _, from = in(reg) $from, to = in(reg) $to, len = in(reg) $len,
            options(nostack, preserves_flags))
    };
}

/// # Safety
/// As [`super::copy`]; `len` is at most [`SHORT`].
#[inline(never)]
unsafe fn copy_short(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: each branch touches the first and the last bytes of the two ranges of `len` bytes, never more than
    // `len` of them; the caller vouches for those.
    unsafe {
        if len > 16 {
            two_ends!("movups", xmm_reg, "", "16", to, from, len);
        } else if len > 8 {
            two_ends!("mov", reg, "", "8", to, from, len);
        } else if len > 4 {
            two_ends!("mov", reg, ":e", "4", to, from, len);
        } else if len == 4 {
            // One access: two overlapping ones would store the word twice.
            asm!("mov {t:e}, dword ptr [{from}]", "mov dword ptr [{to}], {t:e}",
                t = out(reg) _, from = in(reg) from, to = in(reg) to,
                options(nostack, preserves_flags));
        } else if len > 1 {
            two_ends!("mov", reg, ":x", "2", to, from, len);
        } else if len == 1 {
            asm!("mov {t}, byte ptr [{from}]", "mov byte ptr [{to}], {t}",
                t = out(reg_byte) _, from = in(reg) from, to = in(reg) to,
                options(nostack, preserves_flags));
        }
    }
}

/// Prefetches the line at `at` for a write; any address is allowed. Processors without the instruction ignore it.
#[inline(always)]
pub(super) fn prefetch_for_write(at: *const u8) {
    // SAFETY: a hint, which never faults.
    unsafe { asm!("prefetchw [{at}]", at = in(reg) at, options(nostack, preserves_flags)) }
}

/// Whether [`prefetch_for_write`] pays before stores to many lines. AMD's processors have enough of them under way
/// without it, and lose a fifth with it.
pub(super) fn gains_by_prefetch() -> bool {
    static GAINS: OnceLock<bool> = OnceLock::new();
    *GAINS.get_or_init(|| vendor() != *b"AuthenticAMD")
}

/// The vendor of the processor.
fn vendor() -> [u8; 12] {
    #[allow(unused_unsafe, reason = "__cpuid is unsafe in older Rust")]
    // SAFETY: every x86-64 processor has the instruction and its leaf 0.
    let CpuidResult { ebx, ecx, edx, .. } = unsafe { __cpuid(0) };
    let words = [ebx, edx, ecx].map(u32::to_le_bytes);
    std::array::from_fn(|at| words[at / 4][at % 4])
}

/// The family of an AMD or Intel processor.
fn family() -> u32 {
    #[allow(unused_unsafe, reason = "__cpuid is unsafe in older Rust")]
    // SAFETY: every x86-64 processor has the instruction and its leaf 1.
    let CpuidResult { eax, .. } = unsafe { __cpuid(1) };
    // The second part counts only if all bits of the first are set, as in all x86-64 processors of AMD.
    let [base, extended] = [eax >> 8 & 0xf, eax >> 20 & 0xff];
    base + if base == 0xf { extended } else { 0 }
}

/// [`copy`] of a length that the compiler knows: 1, 2, 4, 8 or 16, in one access each way.
///
/// # Safety
/// As [`super::copy`].
#[inline(always)]
pub(super) unsafe fn copy_fixed<const LEN: usize>(to: *mut u8, from: *const u8) {
    macro_rules! one {
        ($mov:literal, $class:ident, $modifier:literal) => {
            asm!(
                concat!($mov, " {t", $modifier, "}, [{from}]"),
                concat!($mov, " [{to}], {t", $modifier, "}"),
                t = out($class) _, from = in(reg) from, to = in(reg) to,
                options(nostack, preserves_flags))
        };
    }
    // SAFETY: the caller vouches for `LEN` bytes on both sides.
    unsafe {
        match LEN {
            1 => one!("mov", reg_byte, ""),
            2 => one!("mov", reg, ":x"),
            4 => one!("mov", reg, ":e"),
            8 => one!("mov", reg, ":r"),
            16 => one!("movups", xmm_reg, ""),
            _ => copy(to, from, LEN),
        }
    }
}

/// The C library's memmove: its memcpy, which also allows overlap.
///
/// # Safety
/// As [`super::copy`].
#[inline]
unsafe fn memmove(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the caller vouches for the ranges. The stack is aligned for a call, because `nostack` is not
    // claimed, and everything that the C convention lets the callee change is declared changed.
    unsafe {
        asm!("call qword ptr [rip + {f}@GOTPCREL]", f = sym libc::memmove,
            inout("rdi") to => _, inout("rsi") from => _, inout("rdx") len => _, clobber_abi("C"));
    }
}

#[inline]
pub(super) fn full_fence() {
    // A locked instruction drains the store buffer in fewer cycles than mfence.
    // SAFETY: OR with zero changes nothing, whatever lies in the red zone below the stack pointer.
    unsafe { asm!("lock or dword ptr [rsp - 8], 0", options(nostack)) }
}
