//! The lower interface, used as a stranger would: jobs of processes that this test starts by itself, and
//! whose only tie is an allgather over files. The test binary is also their ranks.

mod broken;
mod files;
mod job;
mod layouts;
mod refused;
mod started;
mod waiting;
mod windows;

/// The typed interface, compiled outside of the crate: whatever it uses has to be public.
#[allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "only a part of it is used here"
)]
#[path = "../../src/typed/mod.rs"]
mod typed;

use libtest_mimic::{Arguments, Trial};
use transom::{
    AbortCause, Accumulate, Atomic, Communicator, DatatypeMisuse, Element, EpochState, Error,
    Group, Info, LockKind, Misuse, Op, Result, SystemError, lower, raw,
};

use started::{Case, Rank};

/// Soft's ways to other ranks' memory: mapped, and through the target's agent alone.
const DEVICES: [&str; 2] = ["soft", "soft:map=off,cma=off"];

fn main() {
    let cases: Vec<Case> = [
        job::CASES,
        windows::CASES,
        waiting::CASES,
        broken::CASES,
        refused::CASES,
    ]
    .concat();
    if let Some(rank) = Rank::from_env() {
        return rank.play(&cases);
    }
    let arguments = Arguments::from_args();
    let mut trials = vec![Trial::test("walks_of_layouts", || {
        layouts::walks_are_those_of_type_maps();
        Ok(())
    })];
    for case in cases {
        for device in DEVICES {
            let name = format!("{}@{device}", case.name);
            trials.push(Trial::test(name, move || Ok(case.start(device)?)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}
