//! Copies of more than a few cache lines that fit into the second-level cache.
//!
//! AMD's processors report that `rep movsb` is fast. On Zen 5 it is: it is never slower than a loop of vector
//! instructions, and two to ten times as fast if the target's processor has the destination in its cache, since it does
//! not read what it overwrites. On Zen 3 and 4 it is slower: by a fifth; by half if the offset from source to destination
//! is slightly more than a multiple of 4 KiB, as between the start of a page and memory of `malloc`; and twentyfold if
//! the destination is then not aligned to 16 bytes. Which of both the C library uses depends on its version. Processors
//! of other vendors were not measured.

use std::arch::asm;
use std::sync::OnceLock;

/// Shorter copies do not come here: the C library also uses a loop for them.
pub(super) const FLOOR: usize = 1 << 10;

/// The family of AMD's processors from Zen 5 on.
const ZEN_5: u32 = 0x1a;

/// Bytes of one iteration of the loop.
const TURN: usize = 256;

/// From this length on, `rep movsb` is faster on Zen 5.
const REP_FLOOR: usize = 2 << 10;

#[derive(Clone, Copy)]
enum Method {
    RepMovsb,
    Vectors,
    OfLibrary,
}

/// # Safety
/// As [`super::super::copy`]; `len` is at least [`FLOOR`].
pub(super) unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
    let apart = to.addr().abs_diff(from.addr()) >= len;
    // SAFETY: the caller's promise; for both methods of ours, the ranges do not overlap, and `fastest` has checked that
    // there is AVX.
    unsafe {
        match fastest() {
            Method::RepMovsb if apart && len > REP_FLOOR => rep_movsb(to, from, len),
            Method::Vectors if apart => by_vectors(to, from, len),
            _ => super::memmove(to, from, len),
        }
    }
}

/// The fastest method on this processor.
fn fastest() -> Method {
    static FASTEST: OnceLock<Method> = OnceLock::new();
    *FASTEST.get_or_init(|| {
        if super::vendor() != *b"AuthenticAMD" || !is_x86_feature_detected!("ermsb") {
            Method::OfLibrary
        } else if super::family() >= ZEN_5 {
            Method::RepMovsb
        } else if is_x86_feature_detected!("avx") {
            Method::Vectors
        } else {
            Method::OfLibrary
        }
    })
}

/// # Safety
/// As [`super::super::copy`]; the ranges do not overlap.
pub(super) unsafe fn rep_movsb(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: copies the `len` bytes that the caller vouches for, upwards: the direction flag is clear.
    unsafe {
        asm!("rep movsb", inout("rcx") len => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
}

/// # Safety
/// As [`super::super::copy`]; the ranges do not overlap, and the processor has AVX.
pub(super) unsafe fn by_vectors(to: *mut u8, from: *const u8, len: usize) {
    if len < FLOOR {
        // SAFETY: the caller's promise.
        return unsafe { super::memmove(to, from, len) };
    }
    // At least one byte, so that the address after it is aligned.
    let head = 32 - to.addr() % 32;
    let body = (len - head) / TURN * TURN;
    let rest = len - head - body;
    // SAFETY: copies the first 32 bytes; then from `head` on, where `to` is aligned, the `body`, which is not zero, in
    // iterations; then whole 32 bytes of the `rest`. Now `rest` is 32 less than what is left, and the last 32 bytes of
    // the `len` that the caller vouches for are copied, some of them again. `vzeroupper` changes sixteen registers, and
    // clobbering the low part of one declares all of it.
    unsafe {
        asm!(
            "vmovdqu ymm0, [{from}]",
            "vmovdqu [{to}], ymm0",
            "add {from}, {head}",
            "add {to}, {head}",
            "2:",
            "vmovdqu ymm0, [{from}]",
            "vmovdqu ymm1, [{from} + 32]",
            "vmovdqu ymm2, [{from} + 64]",
            "vmovdqu ymm3, [{from} + 96]",
            "vmovdqu ymm4, [{from} + 128]",
            "vmovdqu ymm5, [{from} + 160]",
            "vmovdqu ymm6, [{from} + 192]",
            "vmovdqu ymm7, [{from} + 224]",
            "vmovdqa [{to}], ymm0",
            "vmovdqa [{to} + 32], ymm1",
            "vmovdqa [{to} + 64], ymm2",
            "vmovdqa [{to} + 96], ymm3",
            "vmovdqa [{to} + 128], ymm4",
            "vmovdqa [{to} + 160], ymm5",
            "vmovdqa [{to} + 192], ymm6",
            "vmovdqa [{to} + 224], ymm7",
            "add {from}, 256",
            "add {to}, 256",
            "sub {body}, 256",
            "jnz 2b",
            "sub {rest}, 32",
            "jb 4f",
            "3:",
            "vmovdqu ymm0, [{from}]",
            "vmovdqa [{to}], ymm0",
            "add {from}, 32",
            "add {to}, 32",
            "sub {rest}, 32",
            "jae 3b",
            "4:",
            "vmovdqu ymm0, [{from} + {rest}]",
            "vmovdqu [{to} + {rest}], ymm0",
            "vzeroupper",
            from = inout(reg) from => _, to = inout(reg) to => _, head = in(reg) head,
            body = inout(reg) body => _, rest = inout(reg) rest => _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nostack));
    }
}
