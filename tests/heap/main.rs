//! The heap, while windows are created over memory of it and freed again: all of it is as if there
//! had been no window. This binary is also the program of the ranks: a test starts its job,
//! with the name of its case.
//!
//! `LD_PRELOAD` chooses another allocator (`ci/allocators` does so for several), and
//! `TRANSOM_HEAP_SECONDS` has the cases in which much happens at once go on for so long.

mod forked;
mod freed;
mod life;
mod setting;
mod stress;
mod zeroed;

use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use transom::{Job, Result, ThreadLevel};
use transom_testing::environment;
use transom_testing::job::{self, Launched, Others};
use transom_testing::launcher;

use life::Interface;
use setting::Setting;

/// Far beyond what anything here takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// For how long the cases go on in which much happens at once.
fn duration() -> Duration {
    environment::heap_time().unwrap_or(Duration::from_secs(3))
}

/// What the ranks of a job do, in one process each.
pub(crate) struct Case {
    name: &'static str,
    ranks: u32,
    interfaces: &'static [Interface],
    settings: &'static [Setting],
    play: fn(&Job, Interface) -> Result<()>,
}

fn cases() -> Vec<Case> {
    [
        zeroed::cases(),
        freed::cases(),
        forked::cases(),
        stress::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn run(name: &str, ranks: u32) -> std::result::Result<(), Failed> {
    let limit = LIMIT + duration();
    let Launched { status, output, .. } = job::play_within(limit, ranks, "soft", Others::End, name);
    if !status.is_some_and(|status| status.success()) {
        return Err(format!("{status:?}:\n{output}").into());
    }
    if environment::heap_time().is_some() {
        print!("{output}");
    }
    Ok(())
}

fn main() {
    launcher::take_over();
    let named = environment::case();
    let mut trials = Vec::new();
    for case in cases() {
        for &interface in case.interfaces {
            for &setting in case.settings {
                let name = format!("{}::{interface:?}::{setting:?}", case.name).to_lowercase();
                if named.as_ref() == Some(&name) {
                    setting.enter();
                    let job = Job::init_thread(ThreadLevel::Multiple).unwrap();
                    return (case.play)(&job, interface).unwrap();
                }
                trials.push(Trial::test(name.clone(), move || run(&name, case.ranks)));
            }
        }
    }
    assert!(named.is_none(), "no case {named:?}");
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
