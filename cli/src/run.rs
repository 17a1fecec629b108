//! `transom run`: starts a job on this machine.

use std::ffi::OsString;
use std::process::ExitCode;

use transom::launcher::{Launch, MAX_RANKS};

use super::BindToArg;

/// Start the ranks of a job on this machine
///
/// Lines of output are passed on whole. Rank 0 gets standard input. When a rank fails, the others
/// are ended, and the exit code is that of the rank that failed first (128 + N if signal N killed
/// it).
///
/// Programs also run under other launchers, and without one on any machines, if each rank is told
/// TRANSOM_RANK, TRANSOM_SIZE, TRANSOM_RENDEZVOUS=HOST:PORT and TRANSOM_JOB_SECRET.
#[derive(clap::Args)]
pub(super) struct Args {
    /// How many ranks to start; -np N does as well
    #[arg(short = 'n', long = "ranks", alias = "np", value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_RANKS)))]
    #[arg(value_hint = clap::ValueHint::Other)]
    ranks: u32,

    /// Which device the ranks use: soft, tcp[:INTERFACE], verbs, or NAME[:PORT[:GID]], as in rxe0:1 (TRANSOM_DEVICE)
    #[arg(long, value_name = "D", value_parser = super::suggested::device())]
    #[arg(hide_possible_values = true)]
    device: Option<String>,

    /// How the ranks are bound to processors. Jobs that run side by side would be bound to the same ones
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = BindToArg::None)]
    bind_to: BindToArg,

    /// Begin each line of output with [RANK]
    #[arg(long)]
    label: bool,

    /// Let the other ranks run on when one has failed
    #[arg(long)]
    keep_going: bool,

    /// The program that each rank runs, and its arguments
    #[arg(required = true, trailing_var_arg = true)]
    #[arg(value_names = ["PROG", "ARGS"], value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

pub(super) fn run(args: Args) -> ExitCode {
    let mut command = args.command.into_iter();
    let program = command.next().unwrap_or_default();
    let outcome = Launch::new(args.ranks, program)
        .args(command)
        .device(args.device)
        .bind_to(args.bind_to.into())
        .label(args.label)
        .keep_going(args.keep_going)
        .name("transom run")
        .run();
    match outcome {
        Ok(outcome) => ExitCode::from(outcome.exit_code()),
        Err(error) => super::fail(&error, error.exit_code()),
    }
}
