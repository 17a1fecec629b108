//! Jobs without a launcher: processes of the test binary that share only a folder.

use std::path::Path;
use std::process::Command;
use std::thread;

use crate::environment::{self, CASE, DEVICE, FOLDER, NEIGHBOURS, PROCESS, TIME};
use crate::job::{Job, LIMIT, Launched, quiet, this_binary};

/// Runs this binary in `ranks` processes, each with `case`, over a device. All have to succeed.
///
/// # Errors
/// Some processes failed, or had to be killed at the time limit. The text says which, with their output.
pub fn play(ranks: u32, device: &str, case: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let jobs: Vec<Job> = (0..ranks)
        .map(|rank| Job::start(&mut process((rank, ranks), device, case, folder.path())))
        .collect();
    // Wait for all at the same time, because each may wait for room in its pipe.
    let waits: Vec<_> = jobs
        .into_iter()
        .map(|job| thread::spawn(|| job.finish_within(LIMIT)))
        .collect();
    let ended = waits.into_iter().map(|wait| wait.join().expect("a wait"));
    let failures: Vec<_> = (0..).zip(ended).filter_map(failure).collect();
    match failures.is_empty() {
        true => Ok(()),
        false => Err(failures.join("\n")),
    }
}

/// This binary with `case` and these variables, without a launcher's.
pub fn told(case: &str, variables: &[(String, String)]) -> Command {
    let mut command = quiet(this_binary());
    command
        .env_clear()
        .env(CASE, case)
        .env(TIME, environment::slowness().to_string())
        .envs(variables.iter().map(|(name, value)| (name, value)));
    command
}

/// The variables of a launcher that started this process are removed: they would say which rank it is.
fn process((rank, ranks): (u32, u32), device: &str, case: &str, folder: &Path) -> Command {
    let mut command = quiet(this_binary());
    command
        .env_clear()
        .env(CASE, case)
        .env(PROCESS, format!("{rank}/{ranks}"))
        .env(FOLDER, folder)
        .env(DEVICE, device)
        .env(NEIGHBOURS, environment::neighbours())
        .env(TIME, environment::slowness().to_string());
    command
}

fn failure((rank, Launched { status, output, .. }): (u32, Launched)) -> Option<String> {
    match status {
        Some(status) if status.success() => None,
        Some(status) => Some(format!("rank {rank}: {status}\n{output}")),
        None => Some(format!("rank {rank}: killed at its time limit\n{output}")),
    }
}
