//! Test binaries launch their jobs themselves, by the launcher's library: [`command`] starts the running binary once
//! more, and [`take_over`] makes that process the launcher.

use std::env;
use std::process::{self, Command};

use transom_launch::launcher::Launch;

use crate::job::{quiet, this_binary};

/// The first argument of a process that is a launcher.
const LAUNCH: &str = "--launch";

/// A launcher for this many ranks. The program and its arguments follow its options, which are some of those of
/// `transom run`: `--device D`, `--keep-going` and `--label`.
pub fn command(ranks: u32, options: &[&str]) -> Command {
    let mut command = quiet(this_binary());
    command.args([LAUNCH, &ranks.to_string()]).args(options);
    command
}

/// Launches a job and ends the process, if [`command`] has started it. The first call of each test binary that launches
/// jobs.
pub fn take_over() {
    let mut args = env::args_os().skip(1);
    if args.next().is_none_or(|first| first != LAUNCH) {
        return;
    }
    let ranks = args.next().and_then(|ranks| ranks.to_str()?.parse().ok());
    let ranks = ranks.expect("a number of ranks");
    let (mut device, mut keep_going, mut label) = (None, false, false);
    let program = loop {
        let option = args.next().expect("a program");
        match option.to_str() {
            Some("--device") => {
                let named = args.next().and_then(|name| name.into_string().ok());
                device = Some(named.expect("a device"));
            }
            Some("--keep-going") => keep_going = true,
            Some("--label") => label = true,
            Some(other) if other.starts_with('-') => panic!("no option of this launcher: {other}"),
            _ => break option,
        }
    };
    let launch = Launch::new(ranks, program).args(args).device(device);
    let launch = launch.keep_going(keep_going).label(label);
    let code = match launch.name("launcher").run() {
        Ok(outcome) => outcome.exit_code(),
        Err(error) => {
            eprintln!("launcher: {error}");
            error.exit_code()
        }
    };
    process::exit(code.into())
}
