//! The conformance suite: cases written against `transom::raw`, run by every rank of a job that
//! `transom run` starts, over every device. The test binary is also the program of the ranks.

mod adoption;
mod atomics;
mod case;
mod collectives;
mod communicators;
mod contention;
mod create;
mod exposed;
#[path = "../faults/mod.rs"]
mod faults;
mod fence;
mod flush;
mod launch;
mod lifetime;
mod lock;
mod misuse;
mod ops;
mod passive;
mod put_get;
mod threads;

use libtest_mimic::{Arguments, Trial};

use case::Case;

/// What the cases run over. Real devices join this list where a machine has them.
fn devices() -> Vec<&'static str> {
    vec![
        "soft",
        "soft:adopt=off",
        // Every transfer to caller-owned memory goes through the target's agent.
        "soft:cma=off,adopt=off",
        // Every access is an operation of the device, as over a network card.
        "soft:map=off",
        "soft:map=off,cma=off",
    ]
}

fn cases() -> Vec<Case> {
    [
        create::CASES,
        adoption::CASES,
        put_get::CASES,
        atomics::CASES,
        contention::CASES,
        fence::CASES,
        lock::CASES,
        flush::CASES,
        passive::CASES,
        threads::CASES,
        lifetime::CASES,
        communicators::CASES,
        collectives::CASES,
        misuse::CASES,
    ]
    .concat()
}

fn main() {
    if let Some(name) = std::env::var_os(launch::CASE) {
        let name = name.to_string_lossy();
        match name.strip_prefix("faults/") {
            Some(role) => faults::play(role),
            None => case::play(&cases(), &name),
        }
        return;
    }
    let args = Arguments::from_args();
    let mut trials = Vec::new();
    for device in devices() {
        for case in cases() {
            let name = format!("{device}/{}", case.name);
            trials.push(Trial::test(name, move || case.launch(device)));
        }
        trials.extend(faults::trials(device));
    }
    libtest_mimic::run(&args, trials).exit();
}
