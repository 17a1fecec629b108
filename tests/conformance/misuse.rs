//! Operands that are wrong, and calls of the job that are: the class of the error, the operands in its
//! message, and a window that works on as if nothing had been tried.

use std::ptr::{NonNull, null, null_mut};

use transom::raw::{Assert, Window};
use transom::{BasicType, Error, ErrorClass, Info, Job, LockKind, Op};

use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::exposed::{Exposed, MEMORIES, Memory};
use crate::ops::{accumulate, get, put};
use crate::refused::{each_refused, refused, works};

pub(crate) const CASES: &[Case] = cases!["misuse":
    ranks_that_are_none @ [1, 3],
    displacements_past_the_end @ [2],
    displacements_that_overflow @ [2],
    counts_that_overflow @ [1],
    null_buffers @ [2],
    freeing_twice @ [1],
    a_job_is_joined_once @ [1],
];

fn ranks_that_are_none(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    let ranks = window.ranks();
    let class = ErrorClass::Rank;
    for rank in [ranks, ranks + 1, u32::MAX] {
        let named = format!("rank {rank} ");
        let legal = format!("0 to {}", ranks - 1);
        let words: &[&str] = &[&named, &legal];
        refused(
            window.lock(LockKind::Shared, rank, Assert::NONE),
            class,
            words,
        )?;
        refused(window.unlock(rank), class, words)?;
        refused(window.flush(rank), class, words)?;
        window.lock_all(Assert::NONE)?;
        each_refused(&window, rank, 0, class, words)?;
        refused(window.flush(rank), class, words)?;
        refused(window.flush_local(rank), class, words)?;
        window.unlock_all()?;
        refused(window.size_of(rank), class, words)?;
    }
    works(job, &window)?;
    window.close()
}

fn displacements_past_the_end(job: &Job) -> Outcome {
    for memory in MEMORIES {
        for unit in [1, 8, 24] {
            let size = 240;
            let window = Exposed::open(job, memory, size, unit)?;
            window.write(0, &[3; 240]);
            job.world().barrier()?;
            let end = size as u64 / unit;
            window.lock_all(Assert::NONE)?;
            for target in 0..2 {
                for disp in [end, end + 1, 1 << 40] {
                    let words = [
                        format!("displacement {disp} "),
                        format!("unit {unit} "),
                        "8 bytes".to_owned(),
                        format!("rank {target}'s window of 240 bytes"),
                    ];
                    let words = words.each_ref().map(String::as_str);
                    each_refused(&window, target, disp, ErrorClass::RmaRange, &words)?;
                }
                // The last bytes are legal, one more is not.
                let last = end - 1;
                let rest = vec![3; unit as usize];
                put(&window, &rest, target, last)?;
                let long = put(&window, &vec![9; unit as usize + 1], target, last);
                refused(
                    long,
                    ErrorClass::RmaRange,
                    &[&format!("{} bytes", unit + 1)],
                )?;
                let all = get(&window, &mut vec![0; 241], target, 0);
                refused(all, ErrorClass::RmaRange, &["241 bytes"])?;
                let bulk = accumulate(&window, &[1_i32; 61], target, 0, Op::Sum);
                refused(bulk, ErrorClass::RmaRange, &["244 bytes"])?;
                let floats = accumulate(&window, &[1_f64; 31], target, 0, Op::Sum);
                refused(floats, ErrorClass::RmaRange, &["248 bytes"])?;
                // No bytes are nowhere.
                for disp in [end, end + 1, u64::MAX] {
                    put(&window, &[], target, disp)?;
                    get(&window, &mut [], target, disp)?;
                    accumulate::<i64>(&window, &[], target, disp, Op::Sum)?;
                }
            }
            window.unlock_all()?;
            job.world().barrier()?;
            check!(window.bytes() == vec![3; 240], "{memory:?}");
            works(job, &window)?;
            window.close()?;
        }
    }
    Ok(())
}

fn displacements_that_overflow(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 64, 16)?;
        window.lock_all(Assert::NONE)?;
        for target in 0..2 {
            // Times the unit, these are past 2^64, or wrap to 0, or end there.
            for disp in [u64::MAX, 1 << 60, (1 << 60) + 1, (1 << 60) - 1, 1 << 63] {
                let words = [format!("displacement {disp} "), "unit 16 ".to_owned()];
                let words = words.each_ref().map(String::as_str);
                each_refused(&window, target, disp, ErrorClass::RmaRange, &words)?;
            }
        }
        window.unlock_all()?;
        works(job, &window)?;
        window.close()?;
    }
    Ok(())
}

fn counts_that_overflow(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 64, 1)?;
        let word = [0_u8; 8];
        window.lock_all(Assert::NONE)?;
        for count in [usize::MAX, usize::MAX / 8 + 1, usize::MAX / 16 + 1] {
            // SAFETY: refused.
            let result =
                unsafe { window.accumulate(word.as_ptr(), count, BasicType::F64, 0, 0, Op::Sum) };
            refused(result, ErrorClass::Count, &[&count.to_string(), "8 bytes"])?;
        }
        for len in [usize::MAX, isize::MAX as usize, usize::MAX - 7] {
            // SAFETY: refused.
            let results = unsafe {
                [
                    window.put(word.as_ptr(), len, 0, 8),
                    window.get(word.as_ptr().cast_mut(), len, 0, 8),
                ]
            };
            for result in results {
                refused(result, ErrorClass::RmaRange, &[&len.to_string()])?;
            }
        }
        window.unlock_all()?;
        works(job, &window)?;
        window.close()?;
    }
    Ok(())
}

fn null_buffers(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 64, 1)?;
        window.lock_all(Assert::NONE)?;
        let mut word = [0_u8; 8];
        let (ty, other, this) = (BasicType::I64, word.as_mut_ptr(), word.as_ptr());
        for target in 0..2 {
            // SAFETY: refused.
            let results = unsafe {
                [
                    window.put(null(), 8, target, 0),
                    window.get(null_mut(), 8, target, 0),
                    window.accumulate(null(), 1, ty, target, 0, Op::Sum),
                    window.fetch_and_op(null(), other, ty, target, 0, Op::Sum),
                    window.fetch_and_op(this, null_mut(), ty, target, 0, Op::Sum),
                    window.compare_and_swap(null(), this, other, ty, target, 0),
                    window.compare_and_swap(this, null(), other, ty, target, 0),
                    window.compare_and_swap(this, this, null_mut(), ty, target, 0),
                    window.rput(null(), 8, target, 0).map(|_| ()),
                    window.rget(null_mut(), 8, target, 0).map(|_| ()),
                ]
            };
            for result in results {
                refused(result, ErrorClass::Buffer, &["null", "8 bytes"])?;
            }
            // SAFETY: no bytes.
            unsafe {
                window.put(null(), 0, target, 0)?;
                window.get(null_mut(), 0, target, 0)?;
                window.accumulate(null(), 0, ty, target, 0, Op::Sum)?;
            }
        }
        window.unlock_all()?;
        check_eq!(window.bytes(), vec![0; 64]);
        works(job, &window)?;
        window.close()?;
    }
    // SAFETY: refused.
    let created = unsafe { Window::create(job.world(), null_mut(), 10, 1, &Info::new()) };
    refused(created, ErrorClass::Buffer, &["create", "null", "10 bytes"])
}

fn freeing_twice(job: &Job) -> Outcome {
    let mut local = 0_u64;
    let memory = job.alloc_mem(100, &Info::new())?;
    let inside = memory.map_addr(|address| address.saturating_add(8));
    for wrong in [inside, NonNull::from(&mut local).cast()] {
        let address = format!("{:#x}", wrong.addr());
        // SAFETY: refused.
        let freed = unsafe { job.free_mem(wrong) };
        refused(freed, ErrorClass::Base, &["free_mem", &address])?;
    }
    // SAFETY: in no window; and then refused.
    let (first, second) = unsafe { (job.free_mem(memory), job.free_mem(memory)) };
    first?;
    let address = format!("{:#x}", memory.addr());
    refused(second, ErrorClass::Base, &["free_mem", &address])?;
    let again = job.alloc_mem(0, &Info::new())?;
    // SAFETY: in no window.
    unsafe { job.free_mem(again)? };
    Ok(())
}

fn a_job_is_joined_once(job: &Job) -> Outcome {
    let again: std::result::Result<Job, Error> = Job::init();
    refused(again, ErrorClass::Other, &["one", "already"])?;
    check_eq!(job.world().allgather(&[1_u8])?, [1]);
    Ok(())
}
