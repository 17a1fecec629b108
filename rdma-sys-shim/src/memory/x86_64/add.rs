//! Element-wise addition into a window.

use std::arch::asm;

const ELEMENT: usize = size_of::<f64>();
const LINE: usize = 64;

/// What one turn of a vector loop adds.
const BLOCK: usize = 256;

/// Adds `len` bytes of elements.
pub(in super::super) type Add = unsafe fn(*mut u8, *const u8, usize);

pub(in super::super) unsafe fn add_f64(to: *mut u8, from: *const u8, count: usize) {
    let len = count * ELEMENT;
    let blocks: Add = if len < BLOCK + LINE {
        add_each
    } else if is_x86_feature_detected!("avx512f") {
        add_512
    } else if is_x86_feature_detected!("avx") {
        add_256
    } else {
        add_each
    };
    // Vectors that straddle lines cost double. Elements that do cannot be helped.
    let to_line = to.addr().wrapping_neg() % LINE;
    let head = if to_line.is_multiple_of(ELEMENT) {
        to_line.min(len)
    } else {
        0
    };
    let body = (len - head) / BLOCK * BLOCK;
    let tail = head + body;
    // SAFETY: `head`, `body` and the rest make up the `len` bytes that the caller vouches for, each in whole
    // elements. A vector loop is only chosen if the processor has its instructions and `len` holds the head and
    // a block.
    unsafe {
        add_each(to, from, head);
        blocks(to.add(head), from.add(head), body);
        add_each(to.add(tail), from.add(tail), len - tail);
    }
}

/// Adds one element at a time.
///
/// # Safety
/// As [`super::super::add_f64`], for `len` bytes, a multiple of [`ELEMENT`].
unsafe fn add_each(to: *mut u8, from: *const u8, len: usize) {
    for at in (0..len).step_by(ELEMENT) {
        // SAFETY: the element at `at` is one of those that the caller vouches for.
        unsafe {
            asm!("movsd {t}, qword ptr [{from} + {at}]", "addsd {t}, qword ptr [{to} + {at}]",
                "movsd qword ptr [{to} + {at}], {t}",
                t = out(xmm_reg) _, from = in(reg) from, to = in(reg) to, at = in(reg) at,
                options(nostack));
        }
    }
}

/// Defines a loop that adds `len` bytes of elements.
macro_rules! add_loop {
    ($name:ident, $($register:literal $offset:literal),+) => {
        /// # Safety
        /// As [`super::super::add_f64`]; the processor has the instructions, and `len` is a positive multiple
        /// of [`BLOCK`].
        unsafe fn $name(to: *mut u8, from: *const u8, len: usize) {
            // SAFETY: the loop touches exactly the `len` bytes that the caller vouches for. Clobbering the low
            // part of a vector register declares all of it that a caller may hold.
            unsafe {
                asm!(
                    "2:",
                    $(concat!("vmovupd ", $register, ", [{from} + ", $offset, "]"),)+
                    $(concat!("vaddpd ", $register, ", ", $register, ", [{to} + ", $offset, "]"),)+
                    $(concat!("vmovupd [{to} + ", $offset, "], ", $register),)+
                    "add {from}, 256",
                    "add {to}, 256",
                    "sub {len}, 256",
                    "jnz 2b",
                    "vzeroupper",
                    from = inout(reg) from => _, to = inout(reg) to => _, len = inout(reg) len => _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    options(nostack));
            }
        }
    };
}

add_loop!(add_512, "zmm0" "0", "zmm1" "64", "zmm2" "128", "zmm3" "192");
add_loop!(
    add_256, "ymm0" "0", "ymm1" "32", "ymm2" "64", "ymm3" "96",
    "ymm4" "128", "ymm5" "160", "ymm6" "192", "ymm7" "224"
);

/// Every vector loop that this processor can run, also those never chosen on it. The length is in bytes.
#[cfg(test)]
pub(in super::super) fn add_loops() -> Vec<(&'static str, Add)> {
    let mut all: Vec<(_, Add)> = Vec::new();
    if is_x86_feature_detected!("avx") {
        all.push(("256", add_256));
    }
    if is_x86_feature_detected!("avx512f") {
        all.push(("512", add_512));
    }
    all
}
