//! A rank waits for the end of an epoch while the other waits for it in a collective call of the same
//! window: the one says so and leaves, and then the other comes to an end too.

use libtest_mimic::{Failed, Trial};
use transom::raw::{Assert, Window};
use transom::{Info, Job, Result};
use transom_testing::job::{self, Launched, Others};

/// What rank 0 does, and what the others do.
const CASES: [&str; 5] = [
    "wait_fence",
    "test_fence",
    "wait_free",
    "complete_fence",
    "complete_free",
];

pub(crate) fn trials(device: &'static str) -> Vec<Trial> {
    let trial = |case: &'static str| {
        let name = format!("{device}/faults/crossed/{case}");
        Trial::test(name, move || {
            [2, 3]
                .into_iter()
                .try_for_each(|ranks| check(ranks, device, case))
        })
    };
    CASES.map(trial).into()
}

fn check(ranks: u32, device: &str, case: &str) -> std::result::Result<(), Failed> {
    let role = format!("faults/crossed/{case}");
    let Launched { status, output, .. } = job::play(ranks, device, Others::GoOn, &role);
    let fail = |what: &str| Err(format!("{ranks} ranks: {what}\n{output}").into());
    if status.is_none() {
        return fail("killed at its time limit");
    }
    let ended = |rank: u32| {
        let begin = format!("rank {rank} ended: ");
        output.lines().find_map(|line| line.strip_prefix(&begin))
    };
    let (mine, theirs) = case.split_once('_').expect("two calls");
    let cause = format!("rank 1 is in {theirs}, where it waits for rank 0 (RmaSync)");
    match ended(0) {
        Some(end) if end.starts_with(mine) && end.ends_with(&cause) => {}
        _ => return fail("rank 0 has not named the cause"),
    }
    let gone = |rank| {
        ended(rank).is_some_and(|end| end.contains("rank 0") && end.ends_with("(ProcAborted)"))
    };
    match (1..ranks).all(gone) {
        true => Ok(()),
        false => fail("some rank does not know why it ended"),
    }
}

pub(crate) fn play(case: &str) {
    let job = Job::init().expect("a job");
    let window = Window::allocate(job.world(), 64, 8, &Info::new()).expect("a window");
    let rank = window.rank();
    // A barrier before, so that barriers have to be told apart.
    window.fence(Assert::NO_SUCCEED).expect("a fence");
    match cross(window, case) {
        Ok(()) => println!("rank {rank} ended: well"),
        Err(error) => println!("rank {rank} ended: {error} ({:?})", error.class()),
    }
}

fn cross(window: Window, case: &str) -> Result<()> {
    if window.rank() == 0 {
        let partner = window.group().include(&[1])?;
        if case.starts_with("complete") {
            window.start(&partner, Assert::NONE)?;
            return window.complete();
        }
        window.post(&partner, Assert::NONE)?;
        if case.starts_with("wait") {
            return window.wait();
        }
        while !window.test()? {}
        return Ok(());
    }
    match case.ends_with("fence") {
        true => window.fence(Assert::NONE),
        false => window.free(),
    }
}
