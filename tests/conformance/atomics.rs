//! Fetch_and_op, compare_and_swap and accumulate, one rank at a time.

use std::fmt::Debug;

use transom::raw::Assert;
use transom::{Accumulate, ErrorClass, Job, LockKind, Op};

use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::exposed::{Exposed, MEMORIES, Memory};
use crate::ops::{accumulate, compare_and_swap, fetch_and_op, get};
use crate::refused::refused;

pub(crate) const CASES: &[Case] = cases!["atomics":
    every_type_and_operation @ [1, 2, 3],
    sums_wrap @ [2],
    neighbours_are_untouched @ [2],
    misaligned_elements @ [2],
    many_elements_at_once @ [2],
    floats_add_as_ieee_says @ [2],
    float_bits_survive @ [2],
    operations_that_are_not_defined @ [1],
    an_order_that_is_kept @ [2],
];

/// What the suite needs of a type.
trait Number: Accumulate + PartialEq + Debug {
    fn small(value: u8) -> Self;
    fn plus(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($t:ty),*) => {$(impl Number for $t {
        fn small(value: u8) -> Self {
            value.into()
        }
        fn plus(self, other: Self) -> Self {
            self.wrapping_add(other)
        }
    })*};
}
integers!(i32, u32, i64, u64);

impl Number for f64 {
    fn small(value: u8) -> Self {
        value.into()
    }
    fn plus(self, other: Self) -> Self {
        self + other
    }
}

/// The element at byte `at` of the target, got by a get.
fn element<T: Number>(window: &Exposed<'_>, target: u32, at: u64) -> transom::Result<T> {
    let mut bytes = vec![0; size_of::<T>()];
    get(window, &mut bytes, target, at)?;
    window.flush(target)?;
    Ok(bytemuck::pod_read_unaligned(&bytes))
}

fn every_type_and_operation(job: &Job) -> Outcome {
    fn of<T: Number>(window: &Exposed<'_>, target: u32, at: u64, integer: bool) -> Outcome {
        let n = T::small;
        accumulate(window, &[n(5)], target, at, Op::Replace)?;
        check_eq!(fetch_and_op(window, n(3), target, at, Op::Sum)?, n(5));
        check_eq!(fetch_and_op(window, n(99), target, at, Op::NoOp)?, n(8));
        check_eq!(fetch_and_op(window, n(20), target, at, Op::Replace)?, n(8));
        accumulate(window, &[n(7)], target, at, Op::Sum)?;
        let nothing = accumulate(window, &[n(50)], target, at, Op::NoOp);
        refused(nothing, ErrorClass::Op, &["accumulate", "NoOp"])?;
        check_eq!(element::<T>(window, target, at)?, n(27));
        let swapped = compare_and_swap(window, n(27), n(4), target, at);
        if integer {
            check_eq!(swapped?, n(27));
            check_eq!(compare_and_swap(window, n(27), n(9), target, at)?, n(4));
            check_eq!(element::<T>(window, target, at)?, n(4));
        } else {
            let error = swapped.unwrap_err();
            check!(error.to_string().contains("f64"), "{error}");
            check_eq!(element::<T>(window, target, at)?, n(27));
        }
        // With a null origin, NO_OP only fetches.
        let mut old = T::zeroed();
        let (to, nothing) = ((&raw mut old).cast(), std::ptr::null());
        // SAFETY: a local, and the flush completes the operation.
        unsafe { window.fetch_and_op(nothing, to, T::TYPE, target, at, Op::NoOp)? };
        window.flush(target)?;
        check_eq!(old, element::<T>(window, target, at)?);
        Ok(())
    }
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 4096, 1)?;
        let me = u64::from(window.rank());
        window.lock_all(Assert::NONE)?;
        for target in 0..window.ranks() {
            let at = 1000 * me + 64;
            of::<i32>(&window, target, at, true)?;
            of::<u32>(&window, target, at + 8, true)?;
            of::<i64>(&window, target, at + 16, true)?;
            of::<u64>(&window, target, at + 24, true)?;
            of::<f64>(&window, target, at + 32, false)?;
        }
        window.unlock_all()?;
        window.close()?;
    }
    Ok(())
}

fn sums_wrap(job: &Job) -> Outcome {
    fn of<T: Number>(window: &Exposed<'_>, at: u64, from: T, add: T, to: T) -> Outcome {
        let target = 1 - window.rank();
        let at = at + 64 * u64::from(window.rank());
        accumulate(window, &[from], target, at, Op::Replace)?;
        check_eq!(fetch_and_op(window, add, target, at, Op::Sum)?, from);
        check_eq!(element::<T>(window, target, at)?, to);
        accumulate(window, &[from], target, at, Op::Replace)?;
        accumulate(window, &[add], target, at, Op::Sum)?;
        check_eq!(element::<T>(window, target, at)?, to);
        Ok(())
    }
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 256, 1)?;
        window.lock_all(Assert::NONE)?;
        of(&window, 0, i32::MAX, 1, i32::MIN)?;
        of(&window, 0, i32::MIN, -1, i32::MAX)?;
        of(&window, 4, u32::MAX, 2, 1)?;
        of(&window, 8, i64::MIN, -3, i64::MAX - 2)?;
        of(&window, 16, u64::MAX, u64::MAX, u64::MAX - 1)?;
        // Into the neighbour's bytes nothing carries over.
        of(&window, 4, u32::MAX, u32::MAX, u32::MAX - 1)?;
        window.unlock_all()?;
        window.close()?;
    }
    Ok(())
}

fn neighbours_are_untouched(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 1024, 1)?;
        window.write(0, &[0xff; 1024]);
        job.world().barrier()?;
        let (me, target) = (window.rank(), 1 - window.rank());
        window.lock_all(Assert::NONE)?;
        for (i, at) in (16..400).step_by(24).enumerate() {
            let at = at as u64 + 512 * u64::from(me);
            match i % 4 {
                0 => drop(fetch_and_op(&window, 1_u32, target, at, Op::Sum)?),
                1 => drop(compare_and_swap(&window, -1_i32, 0, target, at)?),
                2 => accumulate(&window, &[0_u32], target, at, Op::Replace)?,
                _ => drop(fetch_and_op(&window, 0_i32, target, at, Op::Replace)?),
            }
            window.flush(target)?;
        }
        window.unlock_all()?;
        job.world().barrier()?;
        let mut wanted = vec![0xff; 1024];
        for at in (16..400).step_by(24) {
            let at = at + 512 * target as usize;
            wanted[at..at + 4].fill(0);
        }
        check!(window.bytes() == wanted, "{memory:?}");
        window.close()?;
    }
    Ok(())
}

fn misaligned_elements(job: &Job) -> Outcome {
    fn of<T: Number>(window: &Exposed<'_>, at: u64, integer: bool) -> Outcome {
        let (me, target) = (window.rank(), 1 - window.rank());
        let at = at + 2048 * u64::from(me);
        let n = T::small;
        accumulate(window, &[n(200), n(1), n(2)], target, at, Op::Replace)?;
        accumulate(window, &[n(100); 3], target, at, Op::Sum)?;
        let next = at + size_of::<T>() as u64;
        check_eq!(
            fetch_and_op(window, n(1), target, at, Op::Sum)?,
            n(200).plus(n(100))
        );
        check_eq!(
            fetch_and_op(window, n(9), target, next, Op::Replace)?,
            n(101)
        );
        if integer {
            check_eq!(compare_and_swap(window, n(8), n(7), target, next)?, n(9));
            check_eq!(compare_and_swap(window, n(9), n(7), target, next)?, n(9));
            check_eq!(element::<T>(window, target, next)?, n(7));
        }
        check_eq!(element::<T>(window, target, at)?, n(200).plus(n(101)));
        Ok(())
    }
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 4096, 1)?;
        window.lock_all(Assert::NONE)?;
        for shift in 0..8 {
            of::<i32>(&window, shift, true)?;
            of::<u32>(&window, 100 + shift, true)?;
            of::<i64>(&window, 200 + shift, true)?;
            of::<u64>(&window, 300 + shift, true)?;
            of::<f64>(&window, 400 + shift, false)?;
            // Across the end of a line.
            of::<u64>(&window, 572 + shift, true)?;
        }
        window.unlock_all()?;
        window.close()?;
    }
    Ok(())
}

fn many_elements_at_once(job: &Job) -> Outcome {
    fn of<T: Number>(window: &Exposed<'_>, count: usize, shift: u64) -> Outcome {
        let (me, target) = (window.rank(), 1 - window.rank());
        let at = shift + 600_000 * u64::from(me);
        let base: Vec<T> = (0..count).map(|i| T::small(i as u8)).collect();
        let more: Vec<T> = (0..count).map(|i| T::small(i as u8 ^ 0x5a)).collect();
        accumulate(window, &base, target, at, Op::Replace)?;
        accumulate(window, &more, target, at, Op::Sum)?;
        window.flush(target)?;
        let mut bytes = vec![0; size_of_val(&base[..])];
        get(window, &mut bytes, target, at)?;
        window.flush(target)?;
        let found: Vec<T> = bytemuck::pod_collect_to_vec(&bytes);
        let wanted: Vec<T> = base.iter().zip(&more).map(|(&a, &b)| a.plus(b)).collect();
        check!(
            found == wanted,
            "{count} elements of {:?} at {shift}",
            T::TYPE
        );
        Ok(())
    }
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 1_200_000, 1)?;
        window.lock_all(Assert::NONE)?;
        // Each element may be an atomic of its own. Other memory of these lengths is as aligned, or as unaligned.
        let longest = match memory {
            Memory::Allocate => 20_000,
            Memory::Odd => 1000,
            _ => 8192,
        };
        for count in [0, 1, 2, 3, 17, 64, 1000, 8192, 20_000] {
            for shift in [0, 8, 1] {
                if count > longest || count > 1000 && shift == 8 {
                    continue;
                }
                of::<i32>(&window, count, shift)?;
                of::<u64>(&window, count, shift)?;
                of::<f64>(&window, count, shift)?;
            }
        }
        window.unlock_all()?;
        window.close()?;
    }
    Ok(())
}

fn floats_add_as_ieee_says(job: &Job) -> Outcome {
    for memory in [Memory::Allocate, Memory::Odd] {
        let window = Exposed::open(job, memory, 64, 8)?;
        let (me, target) = (window.rank(), 1 - window.rank());
        let disp = u64::from(me);
        window.lock(LockKind::Shared, target, Assert::NONE)?;
        for (a, b) in [
            (0.1, 0.2),
            (1e308, 1e308),
            (f64::INFINITY, f64::NEG_INFINITY),
            (-0.0, 0.0),
            (-0.0, -0.0),
            (5e-324, 5e-324),
            (1.0, f64::NAN),
        ] {
            accumulate(&window, &[a], target, disp, Op::Replace)?;
            accumulate(&window, &[b], target, disp, Op::Sum)?;
            let sum: f64 = fetch_and_op(&window, 0.0, target, disp, Op::NoOp)?;
            let wanted: f64 = a + b;
            check!(
                sum.to_bits() == wanted.to_bits() || sum.is_nan() && wanted.is_nan(),
                "{a} + {b} = {sum}"
            );
        }
        window.unlock(target)?;
        window.close()?;
    }
    Ok(())
}

fn float_bits_survive(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 8)?;
    let (me, target) = (window.rank(), 1 - window.rank());
    let disp = u64::from(me);
    window.lock(LockKind::Shared, target, Assert::NONE)?;
    for bits in [
        0x7ff0_0000_0000_0001,
        0xfff8_1234_5678_9abc,
        1 << 63,
        1,
        u64::MAX,
    ] {
        let value = f64::from_bits(bits);
        accumulate(&window, &[value], target, disp, Op::Replace)?;
        let back = fetch_and_op(&window, value, target, disp, Op::Replace)?;
        check_eq!(back.to_bits(), bits);
        check_eq!(fetch_and_op(&window, 0_u64, target, disp, Op::NoOp)?, bits);
    }
    window.unlock(target)?;
    window.close()
}

fn operations_that_are_not_defined(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 8)?;
    window.lock(LockKind::Exclusive, 0, Assert::NONE)?;
    for op in [Op::Minloc, Op::Maxloc] {
        let single = fetch_and_op(&window, 7_u64, 0, 0, op).unwrap_err();
        let bulk = accumulate(&window, &[7_f64; 4], 0, 1, op).unwrap_err();
        for (error, ty) in [(single, "u64"), (bulk, "f64")] {
            check_eq!(error.class(), ErrorClass::Op, "{error}");
            let message = error.to_string();
            check!(
                message.contains(&format!("{op:?}")) && message.contains(ty),
                "{message}"
            );
        }
    }
    window.unlock(0)?;
    check_eq!(window.bytes(), vec![0; 64]);
    window.close()
}

/// Accumulates of one origin on one element take place in the order of the calls.
fn an_order_that_is_kept(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 64, 8)?;
        let (me, target) = (window.rank(), 1 - window.rank());
        let disp = u64::from(me);
        window.lock_all(Assert::NONE)?;
        let values: Vec<u64> = (1..=300).collect();
        for value in &values {
            accumulate(
                &window,
                std::slice::from_ref(value),
                target,
                disp,
                Op::Replace,
            )?;
            accumulate(&window, &[1_000_000_u64], target, disp, Op::Sum)?;
            let seen = fetch_and_op(&window, 0_u64, target, disp, Op::NoOp)?;
            check_eq!(seen, value + 1_000_000, "{memory:?}");
        }
        window.unlock_all()?;
        window.close()?;
    }
    Ok(())
}
