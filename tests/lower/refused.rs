//! Calls that must fail, or do nothing, as those of the untyped interface do.

use std::alloc::Layout;

use transom::lower::{self, Aim, Memory, Row};
use transom::raw::{Assert, PROC_NULL, Window};
use transom::{BasicType, ErrorClass, Info, LockKind, Misuse, Op};

use crate::cases;
use crate::started::{Case, Outcome, Rank, check, error_of};

pub(crate) const CASES: &[Case] = cases!["refused":
    2: rows_follow_the_rules_of_layouts,
    1: memory_is_aligned,
    2: waits_for_nobody_and_for_strangers,
    2: attributes_that_stay,
    2: a_job_that_was_left,
];

const WORDS: Row = Row {
    at: 0,
    len: 16,
    count: 1,
    stride: 0,
};

fn rows_follow_the_rules_of_layouts(rank: &Rank) -> Outcome {
    let job = rank.job()?;
    let comm = job.communicator(job.world().group(), rank.files("host"))?;
    let window = Window::allocate(&comm, 16, 1, &Info::new())?;
    let aim = Aim::new("rows", 1 - rank.rank);
    let nobody = Aim::new("rows", PROC_NULL);
    let mut words = [1_u64, 2];
    let (from, to) = (words.as_ptr().cast(), words.as_mut_ptr().cast());
    let none = std::ptr::null();
    // SAFETY: the array is as long as the rows, and alive until the fence.
    unsafe {
        // No epoch is needed for nobody.
        lower::put_row(&window, nobody, from, WORDS, WORDS)?;
        lower::get_row(&window, nobody, to, WORDS, WORDS)?;
        lower::accumulate_row(&window, nobody, from, WORDS, WORDS, BasicType::U64, Op::Sum)?;
        window.fence(Assert::NONE)?;
        let put = lower::rput_row(&window, aim, from, WORDS, WORDS);
        let error = error_of(put, "a request in a fence")?;
        check(error.class() == ErrorClass::RmaSync, &error)?;
        let get = lower::rget_row(&window, aim, to, WORDS, WORDS);
        let error = error_of(get, "a request in a fence")?;
        check(error.class() == ErrorClass::RmaSync, &error)?;
        let put = lower::put_row(&window, aim, none, WORDS, WORDS);
        let error = error_of(put, "a put from nowhere")?;
        check(error.class() == ErrorClass::Buffer, &error)?;
        let sum = lower::accumulate_row(&window, aim, none, WORDS, WORDS, BasicType::U64, Op::Sum);
        let error = error_of(sum, "operands nowhere")?;
        check(error.class() == ErrorClass::Buffer, &error)?;
        window.fence(Assert::NO_SUCCEED)?;
        window.lock(LockKind::Shared, aim.rank, Assert::NONE)?;
        lower::rput_row(&window, aim, from, WORDS, WORDS)?.wait()?;
        window.unlock(aim.rank)?;
    }
    job.world().barrier()?;
    let put = lower::free_with(window, |base, size| {
        // SAFETY: the window's own memory, which nobody changes any more.
        (size == 16).then(|| unsafe { base.cast::<[u64; 2]>().read() })
    })?;
    check(put == Some([1, 2]), "what the other rank put")?;
    Ok(job.finish()?)
}

fn memory_is_aligned(rank: &Rank) -> Outcome {
    let job = rank.job()?;
    for align in [1, 4096, 1 << 16] {
        let layout = Layout::from_size_align(64, align)?;
        let memory = Memory::allocate(job.world(), "memory", layout)?;
        check(memory.base().addr() % align.max(64) == 0, "aligned")?;
    }
    Ok(job.finish()?)
}

/// Of nobody nothing is under way; a rank that is none is an error.
fn waits_for_nobody_and_for_strangers(rank: &Rank) -> Outcome {
    let job = rank.job()?;
    let window = Window::allocate(job.world(), 8, 1, &Info::new())?;
    let waits = [
        lower::flush,
        lower::complete,
        lower::release,
        lower::check_liveness,
    ];
    for wait in waits {
        wait(&window, Aim::new("waits", PROC_NULL))?;
        wait(&window, Aim::new("waits", 1 - rank.rank))?;
        let error = error_of(wait(&window, Aim::new("waits", 2)), "a rank that is none")?;
        check(error.class() == ErrorClass::Rank, &error)?;
    }
    window.free()?;
    Ok(job.finish()?)
}

/// One rank's attributes refuse to go while the others wait: its window is as good as before.
fn attributes_that_stay(rank: &Rank) -> Outcome {
    let job = rank.job()?;
    let mut window = Window::allocate(job.world(), 8, 1, &Info::new())?;
    for refuses in [rank.rank == 0, false] {
        let delete = || match refuses {
            true => Err(lower::error("delete", Misuse::NoLocks)),
            false => Ok(()),
        };
        let Err((kept, error)) = lower::try_free_after(window, delete) else {
            check(!refuses, "a refusal")?;
            break;
        };
        window = *kept;
        check(error.to_string().starts_with("delete: "), &error)?;
        window.lock(LockKind::Exclusive, 1, Assert::NONE)?;
        let (seven, mut back) = (7_u64, 0_u64);
        // SAFETY: both are locals, and the unlock completes the operations.
        unsafe {
            window.put((&raw const seven).cast(), 8, 1, 0)?;
            window.flush(1)?;
            window.get((&raw mut back).cast(), 8, 1, 0)?;
        }
        window.unlock(1)?;
        check(back == 7, back)?;
    }
    Ok(job.finish()?)
}

fn a_job_that_was_left(rank: &Rank) -> Outcome {
    let job = rank.job()?;
    let window = Window::allocate(job.world(), 8, 1, &Info::new())?;
    lower::in_job(&window, "here")?;
    job.finish()?;
    let error = error_of(lower::in_job(&window, "here"), "a job that was left")?;
    let said = error.to_string();
    check(
        said.starts_with("here: this process has left its job"),
        said,
    )
}
