//! Copies too large for the second-level cache.
//!
//! Streaming stores do not read the destination first. This nearly doubles the speed if the last-level cache does not
//! hold both sides, and loses up to half of it if it does.

use std::arch::asm;
use std::sync::LazyLock;

use super::{caches, medium};

/// No shorter copy streams, whatever the caches: that was never faster.
pub(super) const FLOOR: usize = 512 << 10;

/// Copies of at least this length stream.
static STREAMS_FROM: LazyLock<usize> = LazyLock::new(|| match is_x86_feature_detected!("avx") {
    true => streams_from(&super::vendor(), caches::l3),
    false => usize::MAX,
});

/// A usual size of the third-level cache. Virtual machines often do not report the size.
const USUAL_L3: usize = 32 << 20;

/// Copies stream if both sides together take half of the third-level cache or more. On Intel's processors no copies
/// stream: that was slower.
fn streams_from(vendor: &[u8; 12], l3: impl FnOnce() -> Option<usize>) -> usize {
    match vendor {
        b"GenuineIntel" => usize::MAX,
        _ => (l3().unwrap_or(USUAL_L3) / 4).max(FLOOR),
    }
}

pub(in super::super) fn streams(len: usize) -> bool {
    // Short copies do not query the processor: the first query takes a while.
    len >= FLOOR && len >= *STREAMS_FROM
}

/// # Safety
/// As [`super::super::copy`].
#[cold]
pub(super) unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the caller's promise is the one asked for.
    unsafe { copy_part(to, from, len, len) };
}

/// # Safety
/// As [`super::super::copy_part`].
#[cold]
pub(in super::super) unsafe fn copy_part(to: *mut u8, from: *const u8, len: usize, whole: usize) {
    let apart = to.addr().abs_diff(from.addr()) >= len;
    // SAFETY: the caller's promise; ranges that stream do not overlap, and then the processor has AVX. The part may be
    // of any length.
    unsafe {
        match apart && streams(whole) {
            true => stream(to, from, len),
            false if len < FLOOR => super::copy(to, from, len),
            false => medium::copy(to, from, len),
        }
    }
}

/// Copies 256 bytes per iteration. The fence orders the streaming stores before every later store; otherwise a flag
/// could be visible before its data.
///
/// # Safety
/// As [`super::super::copy`]; the ranges do not overlap, and the processor has AVX.
unsafe fn stream(to: *mut u8, from: *const u8, len: usize) {
    // A streaming store must be aligned, and should fill its line.
    let head = (to.addr().wrapping_neg() % 64).min(len);
    let body = (len - head) / 256 * 256;
    let tail = head + body;
    // SAFETY: `head`, `body` and the rest make up the `len` bytes that the caller vouches for, and the
    // loop touches exactly `body`, starting where `to` is aligned. Clobbering the low part of a vector
    // register declares all of it that a caller may hold.
    unsafe {
        super::memmove(to, from, head);
        asm!(
            "test {len}, {len}",
            "jz 3f",
            "2:",
            "vmovdqu ymm0, [{from}]",
            "vmovdqu ymm1, [{from} + 32]",
            "vmovdqu ymm2, [{from} + 64]",
            "vmovdqu ymm3, [{from} + 96]",
            "vmovdqu ymm4, [{from} + 128]",
            "vmovdqu ymm5, [{from} + 160]",
            "vmovdqu ymm6, [{from} + 192]",
            "vmovdqu ymm7, [{from} + 224]",
            "vmovntdq [{to}], ymm0",
            "vmovntdq [{to} + 32], ymm1",
            "vmovntdq [{to} + 64], ymm2",
            "vmovntdq [{to} + 96], ymm3",
            "vmovntdq [{to} + 128], ymm4",
            "vmovntdq [{to} + 160], ymm5",
            "vmovntdq [{to} + 192], ymm6",
            "vmovntdq [{to} + 224], ymm7",
            "add {from}, 256",
            "add {to}, 256",
            "sub {len}, 256",
            "jnz 2b",
            "vzeroupper",
            "sfence",
            "3:",
            from = inout(reg) from.add(head) => _, to = inout(reg) to.add(head) => _,
            len = inout(reg) body => _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nostack));
        super::memmove(to.add(tail), from.add(tail), len - tail);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    type Method = unsafe fn(*mut u8, *const u8, usize);

    /// Every method that this processor can run, also those never chosen on it.
    pub(in super::super::super) fn all_methods() -> Vec<(&'static str, Method)> {
        let mut all: Vec<(_, Method)> = vec![
            ("memmove", super::super::memmove),
            ("rep movsb", medium::rep_movsb),
        ];
        if is_x86_feature_detected!("avx") {
            all.extend([
                ("vectors", medium::by_vectors as Method),
                ("stream", stream),
            ]);
        }
        all
    }

    #[test]
    fn the_rule_follows_the_third_level() {
        let of_amd = |l3| streams_from(b"AuthenticAMD", || l3);
        assert_eq!(of_amd(Some(32 << 20)), 8 << 20);
        assert_eq!(of_amd(Some(4 << 20)), 1 << 20);
        assert_eq!(of_amd(Some(1 << 20)), FLOOR);
        assert_eq!(of_amd(None), 8 << 20);
        let of_intel = streams_from(b"GenuineIntel", || panic!("it does not matter"));
        assert_eq!(of_intel, usize::MAX);
    }
}
