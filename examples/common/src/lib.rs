//! What the `main`s of the examples have in common: options, starting ranks, and errors that all
//! ranks have, which are said once.

use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::Parser;
use transom::launcher::{self, Launch};
use transom::{Communicator, ErrorKind, Job, PeerError};

/// Why a rank ends early.
#[derive(Debug)]
pub enum Failure {
    /// This rank has an error; the others may not know.
    Own(Box<dyn Error>),
    /// All ranks have this error, and it is the same.
    Agreed {
        /// The lowest that has it.
        rank: u32,
        /// What it says.
        message: String,
    },
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Own(Box::new(error))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(error) => error.fmt(f),
            Self::Agreed { rank, message } => write!(f, "rank {rank}: {message}"),
        }
    }
}

/// Collective. An error of one rank becomes everyone's; of several, that of the lowest rank.
///
/// # Errors
/// Any rank's error, or the ranks cannot talk to each other.
pub fn agree<T, E: Into<Failure>>(comm: &Communicator, mine: Result<T, E>) -> Result<T, Failure> {
    comm.agree(mine.map_err(Into::into))
        .map_err(|error| match error.kind() {
            ErrorKind::Peer(PeerError::Failed { rank, message, .. }) => Failure::Agreed {
                rank: *rank,
                message: message.clone(),
            },
            _ => error.into(),
        })
}

/// The option of programs that start their ranks themselves.
#[derive(clap::Args)]
pub struct Start {
    /// How many ranks to start, if no launcher has
    #[arg(short = 'n', long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub ranks: Option<u32>,
}

/// Options that may say how many ranks to start.
pub trait Launchable: Parser {
    /// That number, if it is given.
    fn ranks(&self) -> Option<u32>;
}

/// Runs `run` on all ranks of the job that this process is in. If it is in none, and the options
/// say how many ranks there shall be, it starts them.
pub fn main<O: Launchable>(
    name: &str,
    run: impl FnOnce(&Communicator, &O) -> Result<(), Failure>,
) -> ExitCode {
    let options = O::try_parse_from(words::<O>(std::env::args_os()));
    if let Ok(options) = &options
        && let Some(ranks) = options.ranks()
        && !launcher::is_launched()
    {
        return launch(name, ranks);
    }
    let job = match Job::init() {
        Ok(job) => job,
        Err(error) => {
            say(name, &error);
            return ExitCode::FAILURE;
        }
    };
    let world = job.world();
    // The launcher ends a job with the first rank that fails, so the others let rank 0 finish.
    let say_once = |say: &dyn Fn()| {
        if world.rank() == 0 {
            say();
        }
        let _ = world.barrier();
    };
    let options = match options {
        Ok(options) => options,
        Err(error) => {
            say_once(&|| drop(error.print()));
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    match options.ranks() {
        Some(ranks) if ranks != world.size() => {
            say_once(&|| {
                let size = world.size();
                let line = format!("-n says {ranks} ranks, but the launcher has started {size}");
                say(name, &line);
            });
            return ExitCode::FAILURE;
        }
        _ => {}
    }
    match run(world, &options) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(error @ Failure::Agreed { .. }) => say_once(&|| say(name, &error)),
        Err(error) => say(name, &format_args!("rank {}: {error}", world.rank())),
    }
    ExitCode::FAILURE
}

/// `-np N`, as launchers of MPIs take it, is `-n N` where that is an option.
fn words<O: Parser>(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let command = O::command();
    let takes_n = command
        .get_arguments()
        .any(|argument| argument.get_short() == Some('n'));
    let as_n = |word: OsString| match word.to_str().and_then(|word| word.strip_prefix("-np")) {
        Some(rest) if takes_n => format!("-n{rest}").into(),
        _ => word,
    };
    words.into_iter().map(as_n).collect()
}

/// One line on standard error, in one piece: ranks write there at once.
fn say(name: &str, what: &dyn fmt::Display) {
    let _ = io::stderr().write_all(format!("{name}: {what}\n").as_bytes());
}

/// Starts this program anew, on `ranks` ranks of this machine.
fn launch(name: &str, ranks: u32) -> ExitCode {
    let outcome = std::env::current_exe().map(|program| {
        Launch::new(ranks, program)
            .args(std::env::args_os().skip(1))
            // Else rank 0 would find no terminal to draw a progress bar on.
            .direct_output(io::stderr().is_terminal())
            .name(name)
            .run()
    });
    match outcome {
        Ok(Ok(outcome)) => ExitCode::from(outcome.exit_code()),
        Ok(Err(error)) => {
            say(name, &error);
            ExitCode::FAILURE
        }
        Err(error) => {
            say(
                name,
                &format_args!("this program's file is not known: {error}"),
            );
            ExitCode::FAILURE
        }
    }
}
