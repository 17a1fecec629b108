//! What shows that a call was refused, and that nothing came of it.

use transom::raw::{Assert, Window};
use transom::{BasicType, ErrorClass, Job, LockKind, Op, Result};

use crate::case::{Failure, Outcome, check};
use crate::exposed::Exposed;
use crate::ops::{accumulate, compare_and_swap, fetch_and_op, get, put};

#[track_caller]
pub(crate) fn refused<T>(result: Result<T>, class: ErrorClass, words: &[&str]) -> Outcome {
    let Err(error) = result else {
        return Err(Failure::new(format_args!(
            "let through; wanted {class:?} {words:?}"
        )));
    };
    let message = error.to_string();
    // What begins with the operation must not go on with it: "lock: lock needs …".
    let doubled = format!("{0}: {0} ", error.operation());
    if message.starts_with(&doubled) {
        return Err(Failure::new(format_args!("{message}; it says so twice")));
    }
    if error.class() != class || !words.iter().all(|word| message.contains(word)) {
        return Err(Failure::new(format_args!(
            "{error:?}; wanted {class:?} {words:?}"
        )));
    }
    Ok(())
}

/// Every operation, on one target and displacement.
pub(crate) fn each_operation(
    window: &Window,
    target: u32,
    disp: u64,
) -> [(&'static str, Result<()>); 7] {
    let mut word = [0; 8];
    // SAFETY: the word outlives the requests, which are complete or were refused.
    let requests = unsafe {
        [
            window.rput(word.as_ptr(), 8, target, disp),
            window.rget(word.as_mut_ptr(), 8, target, disp),
        ]
    };
    let [rput, rget] = requests.map(|request| request.and_then(|request| request.wait()));
    let (one, out) = (1_u64, word.as_mut_ptr());
    // SAFETY: as above.
    let fetched = unsafe {
        window.fetch_and_op(
            (&raw const one).cast(),
            out,
            BasicType::U64,
            target,
            disp,
            Op::Sum,
        )
    };
    // SAFETY: as above.
    let swapped = unsafe {
        let one = (&raw const one).cast();
        window.compare_and_swap(one, one, out, BasicType::U64, target, disp)
    };
    [
        ("put", put(window, &[0; 8], target, disp)),
        ("get", get(window, &mut [0; 8], target, disp)),
        ("put", rput),
        ("get", rget),
        ("fetch_and_op", fetched),
        ("compare_and_swap", swapped),
        (
            "accumulate",
            accumulate(window, &[1_u64], target, disp, Op::Sum),
        ),
    ]
}

#[track_caller]
pub(crate) fn each_refused(
    window: &Window,
    target: u32,
    disp: u64,
    class: ErrorClass,
    words: &[&str],
) -> Outcome {
    for (name, result) in each_operation(window, target, disp) {
        if let Err(error) = &result
            && !error.operation().contains(name)
        {
            return Err(Failure::new(format_args!(
                "{name} calls itself {}",
                error.operation()
            )));
        }
        refused(result, class, words)?;
    }
    Ok(())
}

/// Collective. All kinds of epoch work, and the memory is as `bytes` says before and after.
pub(crate) fn works(job: &Job, window: &Exposed<'_>) -> Outcome {
    let (me, ranks) = (window.rank(), window.ranks());
    let ahead = (me + 1) % ranks;
    job.world().barrier()?;
    let before = window.bytes();
    window.fence(Assert::NONE)?;
    let mut word = [0; 8];
    get(window, &mut word, ahead, 0)?;
    window.fence(Assert::NONE)?;
    put(window, &word, ahead, 0)?;
    window.fence(Assert::NO_SUCCEED)?;
    window.lock(LockKind::Exclusive, ahead, Assert::NONE)?;
    let old = fetch_and_op(window, 5_u64, ahead, 0, Op::Sum)?;
    compare_and_swap(window, old.wrapping_add(5), old, ahead, 0)?;
    window.unlock(ahead)?;
    window.lock_all(Assert::NONE)?;
    put(window, &word, ahead, 0)?;
    window.unlock_all()?;
    job.world().barrier()?;
    check!(window.bytes() == before, "the memory has changed");
    Ok(())
}
