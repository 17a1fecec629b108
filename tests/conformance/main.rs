//! The conformance suite: cases written against `transom::raw`, run by every rank of a job that
//! `transom run` starts, over every device. The test binary is also the program of the ranks.
//!
//! `TRANSOM_TEST_DEVICES`, a list separated by `;` or blanks, replaces the devices. For the other
//! variables see `environment` and `launch`.

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
mod devices;
mod disagree;
mod dynamic;

mod dynamic_apart;
mod environment;
mod epoch_misuse;
mod exposed;
#[path = "../faults/mod.rs"]
mod faults;
mod fence;
mod flush;
mod forked;
mod hammer;
mod hints;
mod io_uring;
mod launch;
mod lifetime;
mod lock;
mod misuse;
mod model;
mod notify;
mod operations;
mod ops;
mod origins;
mod passive;
mod proc_null;
mod pscw;
mod pscw_elsewhere;
mod pscw_misuse;
mod put_get;
mod refused;
mod shared;
mod threads;
mod together;
mod window_misuse;

use libtest_mimic::{Arguments, Trial};

use case::Case;

/// Whether the device is soft in any form.
fn is_soft(device: &str) -> bool {
    device == "soft" || device.starts_with("soft:")
}

/// Whether the processors' atomics and the device's are atomic to each other.
fn has_processor_atomics(device: &str) -> bool {
    is_soft(device) && !device.contains("adversarial")
}

/// Whether ranks can load from and store to each other's memory.
fn maps_memory(device: &str) -> bool {
    has_processor_atomics(device) && !device.contains("map=off")
}

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
        origins::CASES,
        fence::CASES,
        lock::CASES,
        circles::CASES,
        flush::CASES,
        passive::CASES,
        pscw::CASES,
        pscw_misuse::CASES,
        pscw_elsewhere::CASES,
        notify::CASES,
        threads::CASES,
        lifetime::CASES,
        communicators::CASES,
        collectives::CASES,
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
    ]
    .concat();
    cases.extend(datatypes::cases());
    if !device.contains("adversarial") {
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
    }
    if !maps_memory(device) || device == EVERYTHING {
        cases.extend(shared::NOTHING_MAPPED);
    }
    if has_processor_atomics(device) {
        cases.extend(borrowed::CASES);
        cases.extend(borrowed_io::CASES);
    }
    cases
}

fn main() {
    if let Some(name) = std::env::var_os(launch::CASE) {
        let name = name.to_string_lossy();
        match name.strip_prefix("faults/") {
            Some(role) => faults::play(role),
            None => case::play(&cases(EVERYTHING), &name),
        }
        return;
    }
    let args = Arguments::from_args();
    let mut trials = Vec::new();
    for device in devices::devices() {
        let mut cases = cases(device);
        cases.retain(|case| launch::is_our_launcher() || !case.needs_one_host());
        if let Some(together) = together::trials(device, &cases) {
            trials.extend(together);
            continue;
        }
        for case in cases {
            let name = format!("{device}/{}", case.name);
            trials.push(Trial::test(name, move || case.launch(device)));
        }
        trials.extend(faults::trials(device));
    }
    libtest_mimic::run(&args, trials).exit();
}
