//! The heap, while windows are created over memory of it and freed again: all of it is as if there
//! had been no window. This binary is also the program of the ranks: a test starts it under
//! `transom run`, with the name of its case.
//!
//! `LD_PRELOAD` chooses another allocator (`ci/allocators` does so for several), and
//! `TRANSOM_HEAP_SECONDS` has the cases in which much happens at once go on for so long.

mod forked;
mod freed;
mod life;
mod setting;
mod stress;
mod zeroed;

use std::env;
use std::process::{Command, Stdio};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use transom::{Job, Result, ThreadLevel};

use life::Interface;
use setting::Setting;

/// The variable that makes a rank of this binary, and names its case.
const CASE: &str = "TRANSOM_HEAP_CASE";

/// For how long the cases go on in which much happens at once.
const SECONDS: &str = "TRANSOM_HEAP_SECONDS";

/// Far beyond what anything here takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

fn duration() -> Duration {
    let seconds = env::var(SECONDS).map_or(3, |text| {
        let whole = text.parse();
        whole.unwrap_or_else(|_| panic!("{SECONDS}={text:?} is no whole number"))
    });
    Duration::from_secs(seconds)
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
    let output = Command::new(env!("CARGO_BIN_EXE_transom"))
        .args(["run", "--label", "--device", "soft"])
        .args(["-n", &ranks.to_string()])
        .arg(env::current_exe()?)
        .env(CASE, name)
        .stdin(Stdio::null())
        .output()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    if !output.status.success() {
        return Err(format!("{}:\n{text}", output.status).into());
    }
    if env::var_os(SECONDS).is_some() {
        print!("{text}");
    }
    Ok(())
}

fn main() {
    let named = env::var(CASE).ok();
    let mut trials = Vec::new();
    for case in cases() {
        for &interface in case.interfaces {
            for &setting in case.settings {
                let name = format!("{}::{interface:?}::{setting:?}", case.name).to_lowercase();
                if named.as_ref() == Some(&name) {
                    let limit = LIMIT.as_secs() + duration().as_secs();
                    // SAFETY: takes an integer; a rank that hangs is killed.
                    unsafe { libc::alarm(limit as u32) };
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
