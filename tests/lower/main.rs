//! The lower interface, used as a stranger would: jobs of processes that this test starts by itself, and
//! whose only tie is an allgather over files. The test binary is also their ranks.

mod broken;
mod completion;
mod files;
mod job;
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
    Group, Info, IntoRank, IntoTarget, LockKind, Misuse, Op, Result, Statistics, SystemError,
    lower, raw,
};

use transom_testing::devices::devices;
use transom_testing::environment;

use started::Case;

fn main() {
    let cases: Vec<Case> = [
        job::CASES,
        windows::CASES,
        completion::CASES,
        waiting::CASES,
        broken::CASES,
        refused::CASES,
    ]
    .concat();
    if let Some(name) = environment::case() {
        return started::play(&cases, &name);
    }
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for device in devices() {
        for case in cases.clone() {
            let name = format!("{device}/{}", case.name);
            trials.push(Trial::test(name, move || Ok(case.start(device)?)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}
