//! The typed windows, on real ranks. This binary is also the program of the ranks: a test starts
//! it under `transom run`, with the name of the scenario that they are to play.
//!
//! `TRANSOM_TEST_DEVICES`, a list separated by `;` or blanks, replaces the devices, and
//! `TRANSOM_TEST_TIME` multiplies the time limit.

mod active;
mod created;
#[path = "../conformance/environment.rs"]
mod environment;
mod exchange;
mod failures;
mod forked;
mod passive;
mod strided;

use std::env;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use transom::{Job, Result};

/// The variable that makes a rank of this binary, and names its scenario.
const SCENARIO: &str = "TRANSOM_TEST_SCENARIO";

/// Far beyond what anything here takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The ways to a peer's memory that the soft device has, and one on which operations end late.
const DEVICES: [(&str, &str); 4] = [
    ("mapped", "soft"),
    ("attached", "soft:map=off"),
    ("agent", "soft:map=off,cma=off"),
    ("late", "soft:adversarial"),
];

/// The devices, each with a word for the ways to memory.
fn devices() -> Vec<(&'static str, &'static str)> {
    match environment::devices() {
        Some(named) => named.into_iter().map(|name| (name, name)).collect(),
        None => DEVICES.to_vec(),
    }
}

/// What the ranks of a job do, in one process each.
#[derive(Clone, Copy)]
pub(crate) struct Scenario {
    name: &'static str,
    ranks: u32,
    play: fn(&Job) -> Result<()>,
    /// The launcher's exit code, where a rank is to fail.
    code: i32,
}

/// Scenarios from functions, under their names, each with its number of ranks.
macro_rules! scenarios {
    ($($name:ident: $ranks:literal),* $(,)?) => {
        vec![$($crate::Scenario::new(stringify!($name), $ranks, $name)),*]
    };
}
pub(crate) use scenarios;

impl Scenario {
    pub(crate) fn new(name: &'static str, ranks: u32, play: fn(&Job) -> Result<()>) -> Self {
        Self {
            name,
            ranks,
            play,
            code: 0,
        }
    }

    pub(crate) fn exits(self, code: i32) -> Self {
        Self { code, ..self }
    }

    fn run(self, device: &str) -> std::result::Result<(), Failed> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
        command
            .args(["run", "--label", "--keep-going", "--device", device])
            .args(["-n", &self.ranks.to_string()])
            .arg(env::current_exe()?)
            .env(SCENARIO, self.name)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let (code, output) = finish(command.spawn()?)?;
        if code != Some(self.code) {
            return Err(format!("exit code {code:?} instead of {}:\n{output}", self.code).into());
        }
        Ok(())
    }
}

/// Waits for the launcher, not for ever. What kills the launcher ends its ranks.
fn finish(child: Child) -> std::result::Result<(Option<i32>, String), Failed> {
    let pid = child.id().cast_signed();
    let (sender, receiver) = mpsc::channel();
    let waiter = thread::spawn(move || sender.send(child.wait_with_output()));
    let limit = LIMIT * environment::slowness();
    let in_time = receiver.recv_timeout(limit);
    let output = match in_time {
        Ok(output) => output?,
        Err(_) => {
            // SAFETY: kill takes two integers; the waiter has not reaped our child yet.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            return Err(format!("not done within {limit:?}").into());
        }
    };
    let _ = waiter.join();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok((output.status.code(), text))
}

fn main() {
    let scenarios = [
        active::scenarios(),
        created::scenarios(),
        exchange::scenarios(),
        passive::scenarios(),
        failures::scenarios(),
        forked::scenarios(),
        strided::scenarios(),
    ]
    .concat();
    if let Ok(name) = env::var(SCENARIO) {
        let scenario = scenarios.iter().find(|scenario| scenario.name == name);
        let job = Job::init().unwrap();
        return (scenario.unwrap().play)(&job).unwrap();
    }
    let trials = scenarios.iter().flat_map(|&scenario| {
        devices().into_iter().map(move |(ways, device)| {
            let name = format!("{}::{ways}", scenario.name);
            Trial::test(name, move || scenario.run(device))
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}
