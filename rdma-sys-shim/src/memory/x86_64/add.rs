//! Element-wise addition into a window.

use std::arch::asm;

const LINE: usize = 64;

/// The bytes that one iteration of a vector loop adds.
const BLOCK: usize = 256;

/// Adds `len` bytes of elements.
pub(in super::super) type Add = unsafe fn(*mut u8, *const u8, usize);

/// The loops for elements of one type.
struct Loops {
    element: usize,
    /// A few elements at a time, or one.
    each: Add,
    /// The loop for whole blocks; `each` if there may be no whole block.
    blocks: Add,
}

/// # Safety
/// As [`super::super::add_f64`], for elements of `loops`, whose instructions the processor has; `blocks` is
/// `each` for less than a block and a line.
#[inline(always)]
unsafe fn add(to: *mut u8, from: *const u8, count: usize, loops: Loops) {
    let Loops {
        element,
        each,
        blocks,
    } = loops;
    let len = count * element;
    // Vectors that straddle lines cost twice as much. For misaligned elements, this cannot be avoided.
    let to_line = to.addr().wrapping_neg() % LINE;
    let head = if to_line.is_multiple_of(element) {
        to_line.min(len)
    } else {
        0
    };
    let body = (len - head) / BLOCK * BLOCK;
    let tail = head + body;
    // SAFETY: `head`, `body` and the rest make up the `len` bytes that the caller vouches for, each in whole
    // elements. A loop of blocks is only given if `len` holds the head and a block.
    unsafe {
        each(to, from, head);
        blocks(to.add(head), from.add(head), body);
        each(to.add(tail), from.add(tail), len - tail);
    }
}

/// Defines a loop that adds one element at a time: it loads one of `from`, and adds.
macro_rules! add_each {
    ($name:ident, $element:ty, $class:ident, $($instruction:literal),+) => {
        /// # Safety
        /// As [`super::super::add_f64`], for `len` bytes of whole elements.
        #[inline]
        unsafe fn $name(to: *mut u8, from: *const u8, len: usize) {
            for at in (0..len).step_by(size_of::<$element>()) {
                // SAFETY: the element at `at` is one of those that the caller vouches for.
                unsafe {
                    asm!($($instruction),+,
                        t = out($class) _, from = in(reg) from, to = in(reg) to, at = in(reg) at,
                        options(nostack));
                }
            }
        }
    };
}

/// Defines a loop that adds narrow elements: 16 bytes at a time by the vector instruction `$add`, the rest by `$one`.
macro_rules! add_narrow {
    ($name:ident, $add:literal, $one:ident) => {
        /// # Safety
        /// As [`super::super::add_f64`], for `len` bytes of whole elements.
        unsafe fn $name(to: *mut u8, from: *const u8, len: usize) {
            let vectors = len / 16 * 16;
            // SAFETY: the bytes are those that the caller vouches for.
            unsafe {
                for at in (0..vectors).step_by(16) {
                    asm!("movdqu {t}, [{from} + {at}]",
                        "movdqu {held}, [{to} + {at}]",
                        concat!($add, " {t}, {held}"),
                        "movdqu [{to} + {at}], {t}",
                        t = out(xmm_reg) _, held = out(xmm_reg) _,
                        from = in(reg) from, to = in(reg) to, at = in(reg) at,
                        options(nostack, preserves_flags));
                }
                $one(to.add(vectors), from.add(vectors), len - vectors);
            }
        }
    };
}

/// Defines a loop that adds `len` bytes of elements by the vector instruction `$add`.
macro_rules! add_blocks {
    ($name:ident, $add:literal, $($register:literal $offset:literal),+) => {
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
                    $(concat!($add, " ", $register, ", ", $register, ", [{to} + ", $offset, "]"),)+
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

/// Defines `$name` and its loops for one type.
macro_rules! adds {
    ($name:ident, $element:ty, each $each:ident: $class:ident $($instruction:literal)+, $($blocks:tt)+) => {
        add_each!($each, $element, $class, $($instruction),+);
        adds!(@ $name, $element, $each, $($blocks)+);
    };
    ($name:ident, $element:ty, each $each:ident by $add:literal and $one:ident: $class:ident $($instruction:literal)+,
     $($blocks:tt)+) => {
        add_each!($one, $element, $class, $($instruction),+);
        add_narrow!($each, $add, $one);
        adds!(@ $name, $element, $each, $($blocks)+);
    };
    (@ $name:ident, $element:ty, $each:ident,
     blocks $add:literal: $add_512:ident if $has_512:tt, $add_256:ident if $has_256:tt) => {
        add_blocks!($add_512, $add, "zmm0" "0", "zmm1" "64", "zmm2" "128", "zmm3" "192");
        add_blocks!(
            $add_256, $add, "ymm0" "0", "ymm1" "32", "ymm2" "64", "ymm3" "96",
            "ymm4" "128", "ymm5" "160", "ymm6" "192", "ymm7" "224"
        );

        /// # Safety
        /// As [`super::super::add_f64`].
        #[inline]
        pub(in super::super) unsafe fn $name(to: *mut u8, from: *const u8, count: usize) {
            // A single element needs no call.
            if count == 1 {
                // SAFETY: the caller's promise.
                return unsafe { $each(to, from, size_of::<$element>()) };
            }
            let blocks: Add = if count * size_of::<$element>() < BLOCK + LINE {
                $each
            } else if is_x86_feature_detected!($has_512) {
                $add_512
            } else if is_x86_feature_detected!($has_256) {
                $add_256
            } else {
                $each
            };
            let loops = Loops {
                element: size_of::<$element>(),
                each: $each,
                blocks,
            };
            // SAFETY: the caller's promise; the features and the length were checked.
            unsafe { add(to, from, count, loops) }
        }
    };
}

adds!(
    add_f64, f64,
    each add_each_f64: xmm_reg
        "movsd {t}, qword ptr [{from} + {at}]"
        "addsd {t}, qword ptr [{to} + {at}]"
        "movsd qword ptr [{to} + {at}], {t}",
    blocks "vaddpd": add_512_f64 if "avx512f", add_256_f64 if "avx"
);
adds!(
    add_f32, f32,
    each add_each_f32: xmm_reg
        "movss {t}, dword ptr [{from} + {at}]"
        "addss {t}, dword ptr [{to} + {at}]"
        "movss dword ptr [{to} + {at}], {t}",
    blocks "vaddps": add_512_f32 if "avx512f", add_256_f32 if "avx"
);
adds!(
    add_i64, i64,
    each add_each_i64: reg
        "mov {t}, qword ptr [{from} + {at}]"
        "add qword ptr [{to} + {at}], {t}",
    blocks "vpaddq": add_512_i64 if "avx512f", add_256_i64 if "avx2"
);
adds!(
    add_i32, i32,
    each add_each_i32: reg
        "mov {t:e}, dword ptr [{from} + {at}]"
        "add dword ptr [{to} + {at}], {t:e}",
    blocks "vpaddd": add_512_i32 if "avx512f", add_256_i32 if "avx2"
);
adds!(
    add_i16, i16,
    each add_each_i16 by "paddw" and add_one_i16: reg
        "mov {t:x}, word ptr [{from} + {at}]"
        "add word ptr [{to} + {at}], {t:x}",
    blocks "vpaddw": add_512_i16 if "avx512bw", add_256_i16 if "avx2"
);
adds!(
    add_i8, i8,
    each add_each_i8 by "paddb" and add_one_i8: reg_byte
        "mov {t}, byte ptr [{from} + {at}]"
        "add byte ptr [{to} + {at}], {t}",
    blocks "vpaddb": add_512_i8 if "avx512bw", add_256_i8 if "avx2"
);

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Every vector loop that this processor can run, also those never chosen on it, by the type of
    /// its elements. The length is in bytes.
    pub(in super::super::super) fn add_loops(element: &str) -> Vec<(&'static str, Add)> {
        let avx = is_x86_feature_detected!("avx");
        let avx2 = is_x86_feature_detected!("avx2");
        let avx512 = is_x86_feature_detected!("avx512f");
        let avx512bw = is_x86_feature_detected!("avx512bw");
        let (wide, narrow): ((bool, Add), (bool, Add)) = match element {
            "f64" => ((avx512, add_512_f64), (avx, add_256_f64)),
            "f32" => ((avx512, add_512_f32), (avx, add_256_f32)),
            "i64" => ((avx512, add_512_i64), (avx2, add_256_i64)),
            "i32" => ((avx512, add_512_i32), (avx2, add_256_i32)),
            "i16" => ((avx512bw, add_512_i16), (avx2, add_256_i16)),
            "i8" => ((avx512bw, add_512_i8), (avx2, add_256_i8)),
            _ => return Vec::new(),
        };
        let all = [("256", narrow), ("512", wide)];
        let usable = all.into_iter().filter(|(_, (has, _))| *has);
        usable.map(|(name, (_, add))| (name, add)).collect()
    }
}
