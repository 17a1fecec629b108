//! Sums of the types beside f64, of any bytes, against adding them one by one.

use std::fmt::Debug;

use super::super::{add_f32, add_i8, add_i16, add_i32, add_i64, portable};
use super::{Copy, Guarded, arch};

const ALIGNMENTS: [(usize, usize); 6] = [(0, 0), (8, 16), (4, 0), (60, 4), (1, 63), (63, 7)];

trait Element: std::marker::Copy + Debug {
    const NAME: &'static str;
    fn read(bytes: &[u8]) -> Self;
    fn is_sum(self, a: Self, b: Self) -> bool;
}

macro_rules! elements {
    ($($t:ident: |$sum:ident, $a:ident, $b:ident| $is_sum:expr;)+) => {
        $(impl Element for $t {
            const NAME: &'static str = stringify!($t);
            fn read(bytes: &[u8]) -> Self {
                Self::from_ne_bytes(bytes.try_into().expect("one element"))
            }
            fn is_sum(self, $a: Self, $b: Self) -> bool {
                let $sum = self;
                $is_sum
            }
        })+
    };
}
elements! {
    f32: |sum, a, b| sum.to_bits() == (a + b).to_bits() || sum.is_nan() && (a + b).is_nan();
    i64: |sum, a, b| sum == a.wrapping_add(b);
    i32: |sum, a, b| sum == a.wrapping_add(b);
    i16: |sum, a, b| sum == a.wrapping_add(b);
    i8: |sum, a, b| sum == a.wrapping_add(b);
}

/// `add` takes a length in elements.
fn check<T: Element>(add: impl Fn(*mut u8, *const u8, usize), what: &str, counts: &[usize]) {
    let size = size_of::<T>();
    for &count in counts {
        for (to_align, from_align) in ALIGNMENTS {
            let mut from = Guarded::new(count * size, from_align, 5);
            let mut to = Guarded::new(count * size, to_align, 6);
            let (from_before, to_before) = (from.bytes.clone(), to.bytes.clone());
            add(to.ptr(), from.ptr(), count);
            let what = format!(
                "{what} {}: {count} at {to_align} from {from_align}",
                T::NAME
            );
            let range = to.range();
            for (i, sum) in to.inner().chunks_exact(size).enumerate() {
                let a = T::read(&to_before[range.start + i * size..][..size]);
                let b = T::read(&from.inner()[i * size..][..size]);
                let sum = T::read(sum);
                assert!(sum.is_sum(a, b), "{what}: {a:?} + {b:?} = {sum:?} at {i}");
            }
            assert!(
                to.bytes[..range.start] == to_before[..range.start],
                "{what}: before"
            );
            assert!(
                to.bytes[range.end..] == to_before[range.end..],
                "{what}: after"
            );
            assert!(from.bytes == from_before, "{what}: the source changed");
        }
    }
}

fn check_all<T: Element>(adds: [(&str, Copy); 2]) {
    for (what, add) in adds {
        let counts: Vec<_> = (0..=90)
            .chain([127, 128, 129, 257, 319, 320, 383, 639, 8192, 131_075])
            .collect();
        // SAFETY: `check` gives buffers of `count` elements, to which nothing else refers.
        check::<T>(
            |to, from, count| unsafe { add(to, from, count) },
            what,
            &counts,
        );
    }
    #[cfg(target_arch = "x86_64")]
    for (what, add) in arch::add_loops(T::NAME) {
        let size = size_of::<T>();
        // SAFETY: as above, and the counts below are whole blocks.
        let add = |to, from, count: usize| unsafe { add(to, from, count * size) };
        check::<T>(add, what, &[256 / size, 512 / size, 65536 / size]);
    }
}

#[test]
fn floats_of_32_bits() {
    check_all::<f32>([("arch", add_f32), ("portable", portable::add_f32)]);
}

#[test]
fn integers_of_64_bits_wrap() {
    check_all::<i64>([("arch", add_i64), ("portable", portable::add_i64)]);
}

#[test]
fn integers_of_32_bits_wrap() {
    check_all::<i32>([("arch", add_i32), ("portable", portable::add_i32)]);
}

#[test]
fn integers_of_16_bits_wrap() {
    check_all::<i16>([("arch", add_i16), ("portable", portable::add_i16)]);
}

#[test]
fn integers_of_8_bits_wrap() {
    check_all::<i8>([("arch", add_i8), ("portable", portable::add_i8)]);
}
