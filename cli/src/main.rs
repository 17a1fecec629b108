//! The `transom` command. One file per command.

mod bench;
mod completions;
mod devices;
mod doctor;
mod environment;
mod hints;
mod man;
mod mpi;
mod picture;
mod run;
mod screen;
mod spelling;
mod standard_output;
mod suggested;
mod usage;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use rdma_sys_shim::{Surroundings, probe};
use transom::devices::REGISTRY;

use screen::{fail, print, warn};

/// The exit code for a wrong command line.
const USAGE: u8 = 2;

/// The environment variable that names the device.
const DEVICE: &str = "TRANSOM_DEVICE";

/// The device that the environment names; `None` if it names none.
fn device_variable() -> Option<String> {
    rdma_sys_shim::variable(DEVICE).filter(|spec| spec != "auto")
}

/// Tries what a job over the device soft does on this machine.
fn try_soft() -> rdma_sys_shim::Result<()> {
    drop(REGISTRY.open("soft", &Surroundings::default())?);
    probe::mapping()
}

/// Whether a launcher with PMI-1, such as another of these commands, has started this process as a rank.
fn is_rank() -> bool {
    std::env::var_os("PMI_FD").is_some()
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

/// The command's version, with the features with which the library was built.
const VERSION: &str = match (
    rdma_sys_shim::has_verbs(),
    transom::devices::HAS_ADVERSARIAL,
) {
    (false, false) => concat!(env!("CARGO_PKG_VERSION"), " (features: none)"),
    (true, false) => concat!(env!("CARGO_PKG_VERSION"), " (features: verbs)"),
    (false, true) => concat!(env!("CARGO_PKG_VERSION"), " (features: adversarial)"),
    (true, true) => concat!(env!("CARGO_PKG_VERSION"), " (features: verbs, adversarial)"),
};

/// One-sided communication over RDMA.
#[derive(Parser)]
#[command(name = "transom", version = VERSION, after_help = environment::help("transom"))]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    #[command(after_help = environment::help("run"))]
    Run(run::Args),
    #[command(after_help = environment::help("bench"))]
    Bench(Box<bench::Args>),
    #[command(after_help = environment::help("devices"))]
    Devices(devices::Args),
    #[command(after_help = environment::help("doctor"))]
    Doctor(doctor::Args),
    #[command(after_help = environment::help("mpi"))]
    Mpi(mpi::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    /// Whether the command starts ranks. The first rank then reports errors in the environment for all.
    fn leads_to_ranks(&self) -> bool {
        match self {
            Self::Run(_) | Self::Mpi(_) => true,
            Self::Bench(args) => args.measures(),
            _ => false,
        }
    }
}

fn main() -> ExitCode {
    let words = spelling::with_np(std::env::args_os(), &Cli::command());
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => {
            let error = usage::without_help::<Cli>(&words).unwrap_or(error);
            return usage::explain(&error, &words, &Cli::command());
        }
    };
    if let Some(complaint) = transom::lower::log_to_stderr("warn")
        && !is_rank()
        && !cli.command.as_ref().is_some_and(Command::leads_to_ranks)
    {
        warn(&complaint);
    }
    match cli.command {
        Some(Command::Run(args)) => run::run(args),
        Some(Command::Bench(args)) => bench::run(&args),
        Some(Command::Devices(args)) => devices::run(&args),
        Some(Command::Doctor(args)) => doctor::run(&args),
        Some(Command::Mpi(args)) => mpi::run(&args),
        Some(Command::Completions(args)) => completions::run(&args),
        Some(Command::Man(args)) => man::run(&args),
        None => print(&Cli::command().render_help().ansi().to_string()),
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
