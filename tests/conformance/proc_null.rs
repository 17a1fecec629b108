//! The target that is no rank: every communication call accepts it, in any state of the window, and
//! touches nothing.

use transom::raw::{Assert, Committed, PROC_NULL, Window};
use transom::{BasicType, ErrorClass, Job, Op};

use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::exposed::{Exposed, MEMORIES, Memory};
use crate::refused::{each_operation, refused, works};

pub(crate) const CASES: &[Case] = cases!["proc_null":
    nothing_is_transferred @ [1, 2],
    arguments_are_checked @ [1],
    a_line_of_ranks @ [3],
];

fn nothing_is_transferred(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 64, 8)?;
        window.write(0, &[7; 64]);
        every_call(&window)?;
        window.fence(Assert::NONE)?;
        every_call(&window)?;
        window.fence(Assert::NO_SUCCEED)?;
        window.lock_all(Assert::NONE)?;
        every_call(&window)?;
        window.unlock_all()?;
        check!(window.bytes() == [7; 64], "{memory:?}");
        works(job, &window)?;
        window.close()?;
    }
    Ok(())
}

fn every_call(window: &Window) -> Outcome {
    let dense = Committed::of(BasicType::I32);
    let (mut near, mut out) = ([5_i32; 4], [6_i32; 4]);
    let (from, to) = (
        near.as_mut_ptr().cast::<u8>(),
        out.as_mut_ptr().cast::<u8>(),
    );
    let (ty, disp, layout) = (BasicType::I32, u64::MAX, dense.times(4));
    // SAFETY: the buffers have four elements, and no call keeps them.
    unsafe {
        window.put(from, 16, PROC_NULL, disp)?;
        window.get(to, 16, PROC_NULL, disp)?;
        window.put_notify(from, 16, PROC_NULL, disp, 0)?;
        window.accumulate(from, 4, ty, PROC_NULL, disp, Op::Max)?;
        window.get_accumulate(from, to, 4, ty, PROC_NULL, disp, Op::Sum)?;
        window.get_accumulate(from, std::ptr::null_mut(), 4, ty, PROC_NULL, disp, Op::Sum)?;
        window.fetch_and_op(from, to, ty, PROC_NULL, disp, Op::Replace)?;
        window.compare_and_swap(from, from, to, ty, PROC_NULL, disp)?;
        window.put_layout(from, layout, PROC_NULL, disp, layout)?;
        window.get_layout(to, layout, PROC_NULL, disp, layout)?;
        window.accumulate_layout(from, layout, PROC_NULL, disp, layout, Op::Sum)?;
        window.get_accumulate_layout(from, layout, to, layout, PROC_NULL, disp, layout, Op::Sum)?;
    }
    check_eq!((near, out), ([5; 4], [6; 4]));
    for request in requests(window)? {
        request.wait()?;
    }
    for mut request in requests(window)? {
        check!(request.test()?);
    }
    Ok(())
}

fn requests(window: &Window) -> Result<[transom::raw::Request; 8], transom::Error> {
    // Nothing is kept, so that it need not live on.
    let dense = Committed::of(BasicType::I64);
    let mut word = [0_u8; 8];
    let (at, disp, layout) = (word.as_mut_ptr(), 1 << 60, dense.times(1));
    let ty = BasicType::I64;
    // SAFETY: the word is not touched, as a target that is no rank has nothing to transfer.
    unsafe {
        Ok([
            window.rput(at, 8, PROC_NULL, disp)?,
            window.rget(at, 8, PROC_NULL, disp)?,
            window.raccumulate(at, 1, ty, PROC_NULL, disp, Op::Sum)?,
            window.rget_accumulate(at, at, 1, ty, PROC_NULL, disp, Op::Sum)?,
            window.rput_layout(at, layout, PROC_NULL, disp, layout)?,
            window.rget_layout(at, layout, PROC_NULL, disp, layout)?,
            window.raccumulate_layout(at, layout, PROC_NULL, disp, layout, Op::Sum)?,
            window.rget_accumulate_layout(
                at,
                layout,
                at,
                layout,
                PROC_NULL,
                disp,
                layout,
                Op::Sum,
            )?,
        ])
    }
}

/// What is wrong for every target is wrong for this one; so is locking it.
fn arguments_are_checked(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    let mut word = [0_u8; 8];
    let at = word.as_mut_ptr();
    // SAFETY: nothing is transferred.
    let (undefined, nothing) = unsafe {
        (
            window.accumulate(at, 1, BasicType::F64, PROC_NULL, 0, Op::Band),
            window.accumulate(at, 1, BasicType::F64, PROC_NULL, 0, Op::NoOp),
        )
    };
    refused(undefined, ErrorClass::Op, &["accumulate", "Band"])?;
    refused(nothing, ErrorClass::Op, &["accumulate", "NoOp"])?;
    let locked = window.lock(transom::LockKind::Shared, PROC_NULL, Assert::NONE);
    refused(locked, ErrorClass::Rank, &["lock"])?;
    window.fence(Assert::NONE)?;
    // Its neighbours, and what a rank wraps to, are ranks that are none.
    for rank in [PROC_NULL - 1, PROC_NULL + 1, 0_u32.wrapping_sub(1)] {
        for (_, result) in each_operation(&window, rank, 0) {
            check!(result.is_err());
        }
    }
    window.fence(Assert::NO_SUCCEED)?;
    works(job, &window)?;
    window.close()
}

/// What it is for: the ends of the line need no code of their own.
fn a_line_of_ranks(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Heap, 2, 1)?;
    let (me, ranks) = (window.rank(), window.ranks());
    let left = me.checked_sub(1).unwrap_or(PROC_NULL);
    let right = Some(me + 1)
        .filter(|&right| right < ranks)
        .unwrap_or(PROC_NULL);
    window.fence(Assert::NONE)?;
    let mine = me as u8 + 1;
    // SAFETY: the fence completes the operations.
    unsafe {
        window.put(&raw const mine, 1, left, 1)?;
        window.put(&raw const mine, 1, right, 0)?;
    }
    window.fence(Assert::NO_SUCCEED)?;
    let wanted = [me as u8, if right == PROC_NULL { 0 } else { mine + 1 }];
    check_eq!(window.bytes(), wanted);
    window.close()
}
