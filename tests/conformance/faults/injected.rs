//! Operations that fail, and connections that break, at every place of a program: each ends it with
//! an error, in time.

use libtest_mimic::{Failed, Trial};
use transom_testing::job::{self, Launched, Others};

const CASES: [(&str, u32); 5] = [
    ("communicators/split_by_color_and_key", 5),
    ("fence/put_is_visible", 3),
    ("lock/exclusive_locks_exclude", 3),
    ("atomics/every_type_and_operation", 2),
    ("dynamic/every_operation_in_every_epoch", 2),
];
const FAULTS: [&str; 2] = ["fail_after", "break_after"];
const PLACES: [u32; 7] = [1, 2, 5, 12, 36, 80, 200];

/// For the adversarial device, which fails when it is told to.
pub(crate) fn trials(device: &'static str) -> Vec<Trial> {
    let trial = move |(case, ranks): (&'static str, u32), fault: &'static str| {
        let name = format!("{device}/faults/injected/{fault}/{case}");
        Trial::test(name, move || {
            PLACES
                .iter()
                .try_for_each(|place| check(&format!("{device},{fault}={place}"), case, ranks))
        })
    };
    CASES
        .into_iter()
        .flat_map(|case| FAULTS.map(|fault| trial(case, fault)))
        .collect()
}

fn check(device: &str, case: &str, ranks: u32) -> Result<(), Failed> {
    let Launched { status, output, .. } = job::play(ranks, device, Others::GoOn, case);
    let fail = |what: &str| Err(format!("{ranks} ranks over {device}: {what}\n{output}").into());
    let injected = output.contains("injected");
    match status {
        None => fail("killed at its time limit"),
        Some(status) if injected && status.success() => fail("a failure went unnoticed"),
        Some(_) if injected && !output.contains("injected failure") => fail("nobody says why"),
        Some(status) if !injected && !status.success() => fail("it failed by itself"),
        Some(_) => Ok(()),
    }
}
