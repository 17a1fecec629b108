//! The conformance suite: cases written against `transom::raw`, run by every rank of a job, over every device. The test
//! binary is also the launcher and the program of the ranks.
//!
//! Among them are ranks that die, leave or stop (`faults`). For the variables see CONTRIBUTING.md.

mod atomics;
mod attributes;
mod borrowed;
mod borrowed_io;
mod case;
mod circles;
mod collectives;
mod communicators;
mod contention;
mod create;
mod datatypes;
mod disagree;
mod dynamic;
mod dynamic_apart;
mod epoch_misuse;
mod exposed;
mod faults;
mod fence;
mod flush;
mod forked;
mod hammer;
mod hints;
mod indexed;
mod io_uring;
mod lifetime;
mod lock;
mod long_origins;
mod misuse;
mod notify;
mod operations;
mod ops;
mod origins;
mod parts;
mod passive;
mod proc_null;
mod pscw;
mod pscw_cross_wait;
mod pscw_misuse;
mod put_get;
mod refused;
mod scale;
mod shared;
mod taken_away;
mod threads;
mod together;
mod whole_words;
mod window_misuse;

use libtest_mimic::Trial;
use transom_testing::devices::{
    agent_atomics, devices, has_processor_atomics, is_adversarial, is_soft, maps_memory,
};
use transom_testing::environment;
use transom_testing::launcher;
use transom_testing::suite::Suite;

use case::Case;

/// Stands for every device at once.
const EVERYTHING: &str = "soft:";

fn cases(device: &str) -> Vec<Case> {
    let mut cases = [
        create::CASES,
        put_get::CASES,
        atomics::CASES,
        contention::CASES,
        operations::CASES,
        hammer::CASES,
        whole_words::CASES,
        origins::CASES,
        long_origins::CASES,
        fence::CASES,
        lock::CASES,
        circles::CASES,
        flush::CASES,
        passive::CASES,
        pscw::CASES,
        pscw_misuse::CASES,
        pscw_cross_wait::CASES,
        notify::CASES,
        threads::CASES,
        lifetime::CASES,
        communicators::CASES,
        collectives::CASES,
        parts::CASES,
        disagree::CASES,
        misuse::CASES,
        proc_null::CASES,
        epoch_misuse::CASES,
        window_misuse::CASES,
        forked::CASES,
        dynamic::CASES,
        dynamic_apart::CASES,
        shared::CASES,
        attributes::CASES,
        hints::CASES,
        indexed::CASES,
        scale::CASES,
    ]
    .concat();
    cases.extend(datatypes::cases());
    if device == EVERYTHING {
        cases.extend(scale::LARGE);
    }
    if !is_adversarial(device) {
        cases.extend(create::REFUSED_AT_ONCE);
    }
    if is_soft(device) {
        cases.extend(disagree::PAIRS);
        cases.extend(create::SPARSE);
        cases.extend(datatypes::SPARSE);
    }
    // A case is looked up by its name alone where ranks run it.
    if maps_memory(device) {
        cases.extend(shared::MAPPED);
        cases.extend(whole_words::MAPPED);
    }
    if !maps_memory(device) || device == EVERYTHING {
        cases.extend(shared::NOTHING_MAPPED);
    }
    if has_processor_atomics(device) {
        cases.extend(borrowed::CASES);
        cases.extend(borrowed_io::CASES);
        cases.extend(taken_away::CASES);
    }
    cases
}

fn main() {
    launcher::take_over();
    if let Some(name) = environment::case() {
        match name.strip_prefix("faults/") {
            Some(role) => faults::play(role),
            None => case::play(&cases(EVERYTHING), &name),
        }
        return;
    }
    let mut suite = Suite::new("conformance");
    for device in devices() {
        let mut cases = cases(device);
        cases.retain(|case| environment::is_our_launcher() || !case.needs_one_host());
        if let Some(together) = together::trials(device, &cases) {
            together.into_iter().for_each(|trial| suite.always(trial));
            continue;
        }
        for case in cases {
            let name = format!("{device}/{}", case.name);
            suite.push(device, Trial::test(name, move || case.launch(device)));
        }
        for trial in faults::trials(device) {
            suite.push(device, trial);
        }
    }
    if environment::devices().is_none() {
        for case in scale::LARGE {
            let name = format!("soft/{}", case.name);
            let large = Trial::test(name, move || case.launch("soft"));
            suite.always(large.with_ignored_flag(true));
        }
        let device = agent_atomics();
        let cases = cases(device);
        let some = ["lock/", "notify/", "atomics/"];
        let trials = together::trials_of(device, &cases, &some);
        trials.into_iter().for_each(|trial| suite.always(trial));
    }
    suite.run()
}
