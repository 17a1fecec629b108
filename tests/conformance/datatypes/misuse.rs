//! Mistakes: the class, the operands, and a window that works on as if nothing had been tried.

use transom::raw::{Assert, Committed, Datatype, Layout, Order, Window};
use transom::{BasicType, ErrorClass, Job, LockKind, Op, Result};

use super::transfer::{get_layout, put_layout};
use crate::case::{Case, Outcome, cases, check_eq};
use crate::exposed::{Exposed, MEMORIES, Memory};
use crate::refused::refused;

pub(crate) const CASES: &[Case] = cases!["datatypes":
    constructors_with_bad_arguments @ [1],
    layouts_of_other_elements @ [2],
    layouts_that_leave_the_window @ [2],
    layouts_that_overflow @ [1],
    layouts_outside_an_epoch @ [2],
    layouts_without_buffers @ [1],
    accumulates_of_mixed_elements @ [2],
];

/// Put, get and a sum between two layouts, each with a buffer of its own that is kept for ever.
fn each(
    window: &Window,
    near: Layout<'_>,
    target: u32,
    disp: u64,
    far: Layout<'_>,
) -> [Result<()>; 3] {
    let buffer = || {
        let words = Vec::leak(vec![0_u64; 1000]);
        words.as_mut_ptr().wrapping_add(500).cast::<u8>()
    };
    // SAFETY: the buffer is kept, and nobody else has it.
    let sum = unsafe { window.accumulate_layout(buffer(), near, target, disp, far, Op::Sum) };
    [
        put_layout(window, buffer(), near, target, disp, far),
        get_layout(window, buffer(), near, target, disp, far),
        sum,
    ]
}

fn constructors_with_bad_arguments(_: &Job) -> Outcome {
    use ErrorClass::{Arg, Count};
    let f64s = Datatype::from(BasicType::F64);
    refused(
        Datatype::contiguous(-3, &f64s),
        Count,
        &["contiguous", "-3", "negative"],
    )?;
    refused(
        Datatype::vector(2, -7, 1, &f64s),
        Arg,
        &["vector", "block length", "-7"],
    )?;
    refused(
        Datatype::hvector(3, 1, i64::MAX, &f64s),
        Count,
        &["hvector", "3 blocks", "f64", "64 bits"],
    )?;
    refused(
        Datatype::indexed(&[1, 2, 3], &[0, 9], &f64s),
        Arg,
        &["indexed", "3", "2", "entries"],
    )?;
    refused(
        Datatype::structure(&[1], &[0, 1], std::slice::from_ref(&f64s)),
        Arg,
        &["struct", "1", "2"],
    )?;
    refused(
        Datatype::resized(&f64s, i64::MIN, -8),
        Count,
        &["resized", "extent", "-8", "64 bits"],
    )?;
    refused(
        Datatype::subarray(&[4, 5], &[2, 6], &[0, 0], Order::C, &f64s),
        Arg,
        &["subarray", "subsize", "6", "1 to 5"],
    )?;
    refused(
        Datatype::subarray(&[4, 5], &[2, 3], &[0, 3], Order::Fortran, &f64s),
        Arg,
        &["subarray", "start", "3", "0 to 2"],
    )
}

fn layouts_of_other_elements(job: &Job) -> Outcome {
    let f64s = Committed::of(BasicType::F64);
    let i64s = Committed::of(BasicType::I64);
    let column = Datatype::vector(10, 1, 3, &BasicType::F64.into())?.commit();
    let members = [BasicType::F64.into(), BasicType::I64.into()];
    let mixed = Datatype::structure(&[5, 5], &[0, 40], &members)?.commit();
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 1000, 8)?;
        let target = (window.rank() + 1) % window.ranks();
        window.fence(Assert::NONE)?;
        for (near, far, words) in [
            (
                i64s.times(10),
                column.times(1),
                ["10 × [i64]", "vector of 10 × f64"],
            ),
            (
                column.times(1),
                mixed.times(1),
                ["10 × f64", "struct of 10 elements"],
            ),
        ] {
            for result in each(&window, near, target, 1, far).into_iter().take(2) {
                refused(result, ErrorClass::Type, &words)?;
            }
        }
        // More than there is room for.
        for (near, far, words) in [
            (
                f64s.times(11),
                column.times(1),
                ["11 × [f64]", "vector of 10 × f64"],
            ),
            (f64s.times(1), f64s.times(0), ["1 × [f64]", "0 × [f64]"]),
        ] {
            let [put, _, sum] = each(&window, near, target, 1, far);
            refused(put, ErrorClass::Type, &words)?;
            refused(sum, ErrorClass::Type, &words)?;
            let [_, get, _] = each(&window, far, target, 1, near);
            refused(get, ErrorClass::Type, &words)?;
        }
        // As many bytes of the same types in another order are something else, too.
        let turned = Datatype::structure(&[5, 5], &[40, 0], &members)?.commit();
        let swapped = [BasicType::I64.into(), BasicType::F64.into()];
        let other = Datatype::structure(&[5, 5], &[0, 40], &swapped)?.commit();
        let buffer = vec![1_u64; 10].leak().as_ptr().cast();
        let wrong = put_layout(&window, buffer, mixed.times(1), target, 0, other.times(1));
        refused(wrong, ErrorClass::Type, &["struct", "put"])?;
        // Some of those above were right, and have put something there.
        window.fence(Assert::NONE)?;
        put_layout(&window, buffer, mixed.times(1), target, 0, turned.times(1))?;
        window.fence(Assert::NONE)?;
        check_eq!(window.read_u64(72), 1);
        check_eq!(window.read_u64(80), 0);
        window.close()?;
    }
    Ok(())
}

fn layouts_that_leave_the_window(job: &Job) -> Outcome {
    let old = Datatype::from(BasicType::U64);
    let dense = old.commit();
    let column = Datatype::vector(4, 1, 5, &old)?.commit();
    let backwards = Datatype::hvector(4, 1, -40, &old)?.commit();
    let below = Datatype::resized(&old, 0, -40)?.commit();
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 8 * 20, 8)?;
        for target in 0..window.ranks() {
            window.lock(LockKind::Shared, target, Assert::NONE)?;
            let far = [
                (column.times(1), 5_u64),
                (column.times(1), 20),
                (column.times(2), 0),
                (column.times(1), u64::MAX),
                (column.times(1), u64::MAX / 8),
                (backwards.times(1), 14),
                (backwards.times(1), 20),
                (backwards.times(1), 0),
                (backwards.times(1), u64::MAX / 8 + 1),
                (below.times(4), 14),
                (below.times(4), 20),
                (below.times(4), 0),
                (below.times(4), u64::MAX / 8 + 1),
            ];
            for (layout, disp) in far {
                let count = if layout.to_string().starts_with('2') {
                    8
                } else {
                    4
                };
                for result in each(&window, dense.times(count), target, disp, layout) {
                    let words = [&*format!("displacement {disp} × unit 8"), "160 bytes"];
                    refused(result, ErrorClass::RmaRange, &words)?;
                }
            }
            // The last that fit.
            for (layout, disp) in [
                (column.times(1), 4),
                (backwards.times(1), 19),
                (backwards.times(1), 15),
                (below.times(4), 19),
                (below.times(4), 15),
            ] {
                for result in each(&window, dense.times(4), target, disp, layout) {
                    result?;
                }
            }
            window.unlock(target)?;
        }
        job.world().barrier()?;
        check_eq!(window.bytes(), vec![0; 160]);
        window.close()?;
    }
    Ok(())
}

fn layouts_that_overflow(job: &Job) -> Outcome {
    let old = Datatype::from(BasicType::U64);
    let dense = old.commit();
    let sparse = Datatype::resized(&old, 0, 1 << 40)?.commit();
    let window = Exposed::open(job, Memory::Allocate, 80, 8)?;
    window.fence(Assert::NONE)?;
    for (near, far) in [
        (dense.times(u64::MAX), dense.times(u64::MAX)),
        (dense.times(1 << 61), dense.times(1 << 61)),
        (dense.times(1 << 30), sparse.times(1 << 30)),
        (sparse.times(1 << 30), dense.times(1 << 30)),
    ] {
        for result in each(&window, near, 0, 0, far) {
            refused(result, ErrorClass::Count, &["u64", "64 bits"])?;
        }
    }
    for result in each(&window, dense.times(1 << 50), 0, 0, dense.times(1 << 50)) {
        refused(result, ErrorClass::RmaRange, &["80 bytes"])?;
    }
    window.fence(Assert::NONE)?;
    window.close()
}

fn layouts_outside_an_epoch(job: &Job) -> Outcome {
    let column = Datatype::vector(4, 1, 2, &BasicType::I32.into())?.commit();
    let window = Exposed::open(job, Memory::Allocate, 64, 4)?;
    let target = window.ranks() - 1;
    for result in each(&window, column.times(1), target, 0, column.times(1)) {
        refused(result, ErrorClass::RmaSync, &["no epoch is open"])?;
    }
    for result in each(&window, column.times(1), window.ranks(), 0, column.times(1)) {
        refused(result, ErrorClass::Rank, &["rank 2"])?;
    }
    window.fence(Assert::NONE)?;
    let mut buffer = [0_u32; 8];
    let (layout, place) = (column.times(1), buffer.as_mut_ptr().cast::<u8>());
    // SAFETY: all are refused.
    let requests = unsafe {
        [
            window.rput_layout(place, layout, target, 0, layout),
            window.rget_layout(place, layout, target, 0, layout),
            window.raccumulate_layout(place, layout, target, 0, layout, Op::Sum),
            window.rget_accumulate_layout(place, layout, place, layout, target, 0, layout, Op::Sum),
        ]
    };
    for request in requests {
        refused(request, ErrorClass::RmaSync, &["a fence epoch is open"])?;
    }
    for result in each(&window, layout, target, 0, layout) {
        result?;
    }
    window.fence(Assert::NONE)?;
    window.close()
}

fn layouts_without_buffers(job: &Job) -> Outcome {
    let column = Datatype::vector(4, 1, 2, &BasicType::I32.into())?.commit();
    let window = Exposed::open(job, Memory::Allocate, 64, 4)?;
    window.fence(Assert::NONE)?;
    let (null, layout) = (std::ptr::null_mut(), column.times(1));
    let words = ["null buffer", "16 bytes"];
    refused(
        put_layout(&window, null, layout, 0, 0, layout),
        ErrorClass::Buffer,
        &words,
    )?;
    refused(
        get_layout(&window, null, layout, 0, 0, layout),
        ErrorClass::Buffer,
        &words,
    )?;
    let mut old = [0_u8; 32];
    // SAFETY: refused, or complete at the fence.
    unsafe {
        let summed = window.accumulate_layout(null, layout, 0, 0, layout, Op::Sum);
        refused(summed, ErrorClass::Buffer, &words)?;
        let place = old.as_mut_ptr();
        let fetched =
            window.get_accumulate_layout(place, layout, null, layout, 0, 0, layout, Op::Sum);
        refused(fetched, ErrorClass::Buffer, &words)?;
        // Without operands, their buffer and layout do not matter.
        let other = Committed::of(BasicType::F64).times(99);
        window.get_accumulate_layout(null, other, place, layout, 0, 0, layout, Op::NoOp)?;
    }
    window.fence(Assert::NONE)?;
    window.close()
}

fn accumulates_of_mixed_elements(job: &Job) -> Outcome {
    let members = [BasicType::F64.into(), BasicType::I32.into()];
    let record = Datatype::structure(&[1, 1], &[0, 8], &members)?.commit();
    let pair = Committed::of(BasicType::DoubleInt);
    let f64s = Committed::of(BasicType::F64);
    let window = Exposed::open(job, Memory::Allocate, 64, 8)?;
    let target = (window.rank() + 1) % window.ranks();
    window.fence(Assert::NONE)?;
    let words = ["accumulate", "one predefined type", "struct"];
    let mut values = [0_u64; 4];
    let place = values.as_mut_ptr().cast::<u8>();
    // SAFETY: refused, or complete at the fence.
    unsafe {
        for near in [record.times(2), pair.times(2)] {
            let mixed =
                window.accumulate_layout(place, near, target, 0, record.times(2), Op::Replace);
            refused(mixed, ErrorClass::Type, &words)?;
        }
        // The same members are no pair, as far as operations go.
        let mixed =
            window.accumulate_layout(place, record.times(2), target, 0, pair.times(2), Op::Maxloc);
        refused(mixed, ErrorClass::Type, &words)?;
        let undefined =
            window.accumulate_layout(place, f64s.times(2), target, 0, f64s.times(2), Op::Band);
        refused(undefined, ErrorClass::Op, &["Band", "f64"])?;
        window.accumulate_layout(place, pair.times(2), target, 0, pair.times(2), Op::Maxloc)?;
    }
    window.fence(Assert::NONE)?;
    window.close()
}
