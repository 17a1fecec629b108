//! The command line. One file per command.

mod bench;
mod devices;
mod doctor;
mod mpi;
mod run;

use std::io::Write as _;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};

/// Exit code for a command line that makes no sense.
const USAGE: u8 = 2;

/// The environment variable that names the device.
const DEVICE: &str = "TRANSOM_DEVICE";

/// The device that the environment names; `None` where it leaves the choice open.
fn device_variable() -> Option<String> {
    let spec = std::env::var(DEVICE).ok()?;
    (!matches!(spec.as_str(), "" | "auto")).then_some(spec)
}

/// How the ranks that a command starts are bound to processors.
#[derive(Clone, Copy, clap::ValueEnum)]
enum BindToArg {
    /// Ranks run where this command may run
    None,
    /// A core for each rank, with all its threads
    Core,
    /// A core for each rank where there are as many, else as none
    Auto,
}

impl From<BindToArg> for transom::launcher::BindTo {
    fn from(asked: BindToArg) -> Self {
        match asked {
            BindToArg::None => Self::None,
            BindToArg::Core => Self::Core,
            BindToArg::Auto => Self::Auto,
        }
    }
}

/// One-sided communication over RDMA.
#[derive(Parser)]
#[command(name = "transom", version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Args),
    Bench(bench::Args),
    Devices(devices::Args),
    Doctor(doctor::Args),
    Mpi(mpi::Args),
}

/// Runs the command that the arguments name.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return explain(&error),
    };
    match cli.command {
        Some(Command::Run(args)) => run::run(args),
        Some(Command::Bench(args)) => bench::run(&args),
        Some(Command::Devices(args)) => devices::run(&args),
        Some(Command::Doctor(args)) => doctor::run(&args),
        Some(Command::Mpi(args)) => mpi::run(&args),
        None => print(&Cli::command().render_help().to_string()),
    }
}

/// Prints help where it was asked for, else what is wrong, in one line.
fn explain(error: &clap::Error) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return print(&error.to_string());
    }
    let text = error.to_string();
    let parts = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
        .filter(|line| !line.is_empty())
        .map(|line| match line.strip_prefix("tip: ") {
            Some(tip) => format!("({tip})"),
            None => line.to_owned(),
        });
    let line = parts.collect::<Vec<_>>().join(" ");
    fail(&line.strip_prefix("error: ").unwrap_or(&line), USAGE)
}

/// Ends the command with one line on standard error.
fn fail(error: &dyn std::fmt::Display, code: u8) -> ExitCode {
    // Where standard error is gone, the exit code must do.
    let _ = writeln!(std::io::stderr(), "transom: {error}");
    ExitCode::from(code)
}

fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
