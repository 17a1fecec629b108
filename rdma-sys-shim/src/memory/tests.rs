use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{arch, portable};

mod rows;
mod sums;

type Copy = unsafe fn(*mut u8, *const u8, usize);

/// Every implementation runs every test, whatever this machine would choose.
const COPIES: [(&str, Copy); 2] = [("arch", super::copy), ("portable", portable::copy)];
const ADDS: [(&str, Copy); 2] = [("arch", super::add_f64), ("portable", portable::add_f64)];

const GUARD: usize = 128;

/// Bytes that start at `align` past a 128-byte boundary, with a guard on both sides.
struct Guarded {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Guarded {
    fn new(len: usize, align: usize, seed: u32) -> Self {
        let mut state = seed | 1;
        let random = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state >> 8) as u8
        });
        // The period is a prime, so that nothing moved by a round number of bytes looks right.
        let period: Vec<u8> = random.take(4099).collect();
        let mut bytes = period.repeat((len + 4 * GUARD).div_ceil(period.len()));
        bytes.truncate(len + 4 * GUARD);
        let start = GUARD + bytes.as_ptr().align_offset(GUARD) + align;
        Self { bytes, start, len }
    }

    fn range(&self) -> std::ops::Range<usize> {
        self.start..self.start + self.len
    }

    fn inner(&self) -> &[u8] {
        &self.bytes[self.range()]
    }

    fn ptr(&mut self) -> *mut u8 {
        self.bytes[self.start..].as_mut_ptr()
    }
}

#[track_caller]
fn check_copy(copy: Copy, what: &str, len: usize, to_align: usize, from_align: usize) {
    // SAFETY: what it is called with is what such a function takes.
    let copy = |to, from, len| unsafe { copy(to, from, len) };
    check_copy_by(copy, what, len, to_align, from_align);
}

/// `copy` is called with pointers to so many bytes, which nothing else refers to.
#[track_caller]
fn check_copy_by(
    copy: impl Fn(*mut u8, *const u8, usize),
    what: &str,
    len: usize,
    to_align: usize,
    from_align: usize,
) {
    let mut from = Guarded::new(len, from_align, 0x9e37);
    let mut to = Guarded::new(len, to_align, 0x1234_5678);
    let from_before = from.bytes.clone();
    let mut expected = to.bytes.clone();
    expected[to.range()].copy_from_slice(from.inner());
    copy(to.ptr(), from.ptr(), len);
    // Not assert_eq: nobody reads a printed megabyte.
    assert!(
        to.bytes == expected,
        "{what}: {len} bytes, {from_align} to {to_align}"
    );
    assert!(
        from.bytes == from_before,
        "{what}: the source of {len} bytes changed"
    );
}

#[test]
fn every_short_length_at_every_alignment() {
    for (what, copy) in COPIES {
        for len in 0..=300 {
            // Every pair where the code branches on the length, a diagonal sample of the rest.
            let stride = if len <= 40 { 1 } else { 7 };
            for pair in (0..256).step_by(stride) {
                check_copy(copy, what, len, pair % 16, pair / 16);
            }
        }
    }
}

#[test]
fn lengths_around_the_thresholds() {
    let interesting = [1024, 4096, 65536, 512 << 10, 1 << 20, 4 << 20, 8 << 20];
    for (what, copy) in COPIES {
        for base in interesting {
            for len in [base - 65, base - 1, base, base + 1, base + 255, base + 257] {
                check_copy(copy, what, len, 0, 16);
                check_copy(copy, what, len, 61, 3);
            }
        }
    }
}

#[test]
fn parts_of_copies_are_copied_whatever_the_whole() {
    for whole in [300_000, 1 << 20, 16 << 20, 1 << 40] {
        for (turn, len) in [0, 1, 8, 64, 4097, 262_144, 300_000]
            .into_iter()
            .enumerate()
        {
            let copy = |to, from, len| {
                // SAFETY: `check_copy` calls it with what `copy` takes.
                unsafe { super::copy_part(to, from, len, whole) }
            };
            check_copy_by(copy, "a part", len, turn * 9 % 64, turn * 5 % 64);
        }
    }
    assert!(!super::streams(64 << 10));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn every_method_for_large_copies() {
    for (what, copy) in arch::all_methods() {
        for len in [
            0,
            1,
            63,
            64,
            65,
            255,
            256,
            319,
            320,
            321,
            1023,
            1024,
            1055,
            1056,
            1057,
            1311,
            1312,
            1313,
            5000,
            65536,
            1 << 20,
            (1 << 20) + 77,
        ] {
            for (to_align, from_align) in [(0, 0), (0, 16), (16, 0), (1, 63), (63, 1), (40, 8)] {
                check_copy(copy, what, len, to_align, from_align);
            }
        }
    }
}

#[test]
fn overlap_is_as_memmove() {
    let lengths = [
        1,
        2,
        3,
        4,
        5,
        7,
        8,
        9,
        15,
        16,
        17,
        31,
        32,
        33,
        64,
        300,
        5000,
        3 << 20,
        (4 << 20) + 77,
    ];
    for (what, copy) in COPIES {
        for len in lengths {
            for shift in [0, 1, 4, 8, 15, 64, 512 << 10, len - 1, len] {
                for forwards in [true, false] {
                    let mut buffer = Guarded::new(len + shift, 3, 77);
                    let (from, to) = if forwards { (0, shift) } else { (shift, 0) };
                    let mut expected = buffer.bytes.clone();
                    let start = buffer.start;
                    expected.copy_within(start + from..start + from + len, start + to);
                    let base = buffer.ptr();
                    // SAFETY: both ranges lie in the buffer, which nothing else refers to.
                    unsafe { copy(base.add(to), base.add(from), len) };
                    assert!(
                        buffer.bytes == expected,
                        "{what}: {len} bytes from {from} to {to}"
                    );
                }
            }
        }
    }
}

#[track_caller]
fn check_add(
    add: impl Fn(*mut u8, *const u8, usize),
    what: &str,
    count: usize,
    to_align: usize,
    from_align: usize,
) {
    let specials = [
        0.0,
        -0.0,
        1.5,
        -2.25,
        f64::INFINITY,
        f64::NAN,
        5e-324,
        f64::MAX,
        1e300,
        -1e-300,
    ];
    let element =
        |i: usize, step: usize| specials[i * step % specials.len()] + 0.0_f64.copysign(-1.0);
    let mut from = Guarded::new(count * 8, from_align, 5);
    let mut to = Guarded::new(count * 8, to_align, 6);
    let mut expected = Vec::new();
    for i in 0..count {
        let (a, b) = (element(i, 3), element(i / 10, 7));
        let (at_to, at_from) = (to.start + i * 8, from.start + i * 8);
        to.bytes[at_to..at_to + 8].copy_from_slice(&a.to_ne_bytes());
        from.bytes[at_from..at_from + 8].copy_from_slice(&b.to_ne_bytes());
        expected.push(black_box(a) + black_box(b));
    }
    let (to_before, from_before) = (to.bytes.clone(), from.bytes.clone());
    add(to.ptr(), from.ptr(), count);
    for (i, bytes) in to.inner().chunks_exact(8).enumerate() {
        let sum = f64::from_ne_bytes(bytes.try_into().unwrap());
        let same = sum.to_bits() == expected[i].to_bits() || (sum.is_nan() && expected[i].is_nan());
        assert!(
            same,
            "{what}: element {i} of {count} is {sum:e}, expected {:e}",
            expected[i]
        );
    }
    let inner = to.range();
    assert!(
        to.bytes[..inner.start] == to_before[..inner.start],
        "{what}: before, {count}"
    );
    assert!(
        to.bytes[inner.end..] == to_before[inner.end..],
        "{what}: after, {count}"
    );
    assert!(
        from.bytes == from_before,
        "{what}: the source of {count} changed"
    );
}

#[test]
fn add_at_every_short_count_and_alignment() {
    for (what, add) in ADDS {
        // SAFETY: `check_add` gives buffers of `count` elements, to which nothing else refers.
        let add = |to, from, count| unsafe { add(to, from, count) };
        for count in (0..=80).chain([127, 128, 129, 255, 256, 257, 8192, 131_075]) {
            for (to_align, from_align) in
                [(0, 0), (8, 16), (56, 0), (0, 24), (1, 0), (4, 4), (63, 7)]
            {
                check_add(add, what, count, to_align, from_align);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn every_loop_that_adds() {
    for (what, add) in arch::add_loops("f64") {
        // SAFETY: `check_add` gives buffers of `count` elements, to which nothing else refers; `count * 8` is a
        // multiple of the loop's block.
        let add = |to, from, count: usize| unsafe { add(to, from, count * 8) };
        for count in [32, 64, 96, 4096] {
            for (to_align, from_align) in [(0, 0), (8, 16), (1, 63)] {
                check_add(add, what, count, to_align, from_align);
            }
        }
    }
}

#[test]
fn copies_keep_every_bit() {
    let patterns = [
        f64::NAN.to_bits(),
        0x7ff0_0000_0000_0001,
        0xfff8_dead_beef_0001,
        (-0.0f64).to_bits(),
        0,
        u64::MAX,
    ];
    for (what, copy) in COPIES {
        for mut pattern in patterns {
            let mut copied = !pattern;
            // SAFETY: two separate words.
            unsafe { copy((&raw mut copied).cast(), (&raw mut pattern).cast(), 8) };
            assert_eq!(copied, pattern, "{what}");
        }
    }
}

#[test]
fn add_gives_negative_zero_and_nan() {
    for (what, add) in ADDS {
        let mut to = [-0.0f64, -0.0, f64::NAN, 1.0, f64::INFINITY];
        let mut from = [-0.0f64, 0.0, 1.0, f64::NAN, f64::NEG_INFINITY];
        // SAFETY: two separate arrays of five.
        unsafe { add(to.as_mut_ptr().cast(), from.as_mut_ptr().cast(), 5) };
        assert_eq!(to[0].to_bits(), (-0.0f64).to_bits(), "{what}");
        assert_eq!(to[1].to_bits(), 0, "{what}");
        assert!(to[2..].iter().all(|sum| sum.is_nan()), "{what}: {to:?}");
    }
}

/// Stops the threads of a test also when it fails, which would otherwise wait for them forever.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A cache line of its own, so that threads race for the line that is meant.
#[derive(Default)]
#[repr(align(128))]
struct Line<T>(T);

#[test]
fn aligned_words_are_never_torn() {
    // Only reads that race show anything; on a busy machine the two threads seldom run at once.
    const CHANGES: usize = 200_000;
    const PATIENCE: Duration = Duration::from_secs(3);
    for (what, copy) in COPIES {
        let word = Line(AtomicU64::new(0));
        let half = Line(AtomicU32::new(0));
        let stop = Line(AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.0.load(Ordering::Relaxed) {
                    for (whole, part) in [(0, 0), (u64::MAX, u32::MAX)] {
                        // SAFETY: the sources are this thread's; the words are only accessed as atomics and
                        // by copies, which may be raced.
                        unsafe {
                            copy(word.0.as_ptr().cast(), (&raw const whole).cast(), 8);
                            copy(half.0.as_ptr().cast(), (&raw const part).cast(), 4);
                        }
                    }
                }
            });
            let _stop = StopOnDrop(&stop.0);
            while word.0.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            let start = Instant::now();
            let (mut changes, mut last) = (0, 0);
            while changes < CHANGES && start.elapsed() < PATIENCE {
                let (mut whole, mut part) = (1u64, 1u32);
                // SAFETY: as above, the other way round.
                unsafe {
                    copy(
                        (&raw mut whole).cast(),
                        word.0.as_ptr().cast_const().cast(),
                        black_box(8),
                    );
                    copy(
                        (&raw mut part).cast(),
                        half.0.as_ptr().cast_const().cast(),
                        black_box(4),
                    );
                }
                assert!(whole == 0 || whole == u64::MAX, "{what}: {whole:x}");
                assert!(part == 0 || part == u32::MAX, "{what}: {part:x}");
                changes += usize::from(whole != last);
                last = whole;
            }
        });
    }
}

/// Waits without giving up the processor, unless the other thread seems to have none.
fn wait_for(counter: &AtomicU64, at_least: u64) {
    let mut spins = 0;
    while counter.load(Ordering::Acquire) < at_least {
        spins += 1;
        if spins % 1000 == 0 {
            std::thread::yield_now();
        }
    }
}

/// In how many rounds both of two threads, each of which stores its own flag, fences and loads the other's,
/// saw the flag that was not yet stored.
fn rounds_reordered(fence: fn()) -> u64 {
    const ROUNDS: u64 = 200_000;
    #[derive(Default)]
    struct Side {
        flag: Line<AtomicU64>,
        seen: Line<AtomicU64>,
        done: Line<AtomicU64>,
    }
    let sides: [Side; 2] = Default::default();
    let reordered = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for me in 0..2 {
            let (mine, theirs, reordered) = (&sides[me], &sides[1 - me], &reordered);
            scope.spawn(move || {
                for round in 1..=ROUNDS {
                    mine.flag.0.store(round, Ordering::Relaxed);
                    fence();
                    let other = theirs.flag.0.load(Ordering::Relaxed);
                    mine.seen.0.store(other, Ordering::Relaxed);
                    mine.done.0.store(round, Ordering::Release);
                    wait_for(&theirs.done.0, round);
                    if other < round && theirs.seen.0.load(Ordering::Relaxed) < round {
                        reordered.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    reordered.into_inner()
}

#[test]
fn a_fence_orders_a_store_before_a_load() {
    assert_eq!(rounds_reordered(super::full_fence), 0);
    assert_eq!(rounds_reordered(portable::full_fence), 0);
}
