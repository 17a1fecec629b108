//! Wrong command lines: one line says why, and what the user may have meant.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::builder::Styles;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Parser};

use super::USAGE;
use super::screen::{fail, print};

/// Prints help if the user asked for it, or else in one line what is wrong.
pub(super) fn explain(error: &clap::Error, words: &[OsString], cli: &Command) -> ExitCode {
    let text = error.render().ansi().to_string();
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return print(&text);
    }
    let (line, tips) = one_line(&text, &Styles::default());
    let mut tips = meant(error, words).map_or(tips, |meant| vec![meant]);
    if tips.is_empty() && error.kind() == ErrorKind::InvalidSubcommand {
        tips.extend(wrong(error, ContextKind::InvalidSubcommand).map(|word| commands(word, cli)));
    }
    match tips.is_empty() {
        true => fail(&line, USAGE),
        false => fail(&format_args!("{line} ({})", tips.join("; ")), USAGE),
    }
}

/// Clap's message of several lines as one, without the usage and the hint at `--help`; and clap's tips.
fn one_line(text: &str, styles: &Styles) -> (String, Vec<String>) {
    let (error, usage, tip) = (styles.get_error(), styles.get_usage(), styles.get_valid());
    let usage = format!("{usage}Usage:{usage:#}");
    let tip = format!("{tip}tip:{tip:#} ");
    let lines = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with(&usage) && !line.starts_with("For more"))
        .filter(|line| !line.is_empty());
    let (tips, parts): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with(&tip));
    let line = parts.join(" ");
    let prefix = format!("{error}error:{error:#} ");
    let line = line.strip_prefix(&prefix).unwrap_or(&line).to_owned();
    (
        line,
        tips.iter()
            .map(|line| line[tip.len()..].to_owned())
            .collect(),
    )
}

/// The error for the command in `help COMMAND`; clap's own says less.
pub(super) fn without_help<P: Parser>(words: &[OsString]) -> Option<clap::Error> {
    let [program, help, command, ..] = words else {
        return None;
    };
    let error = P::try_parse_from([program, command]).err()?;
    (help == "help" && error.kind() == ErrorKind::InvalidSubcommand).then_some(error)
}

/// What a user of MPI launchers may have meant.
fn meant(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let first = words.get(1)?.to_str()?;
    let wrong = match error.kind() {
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        _ => return None,
    };
    let wrong = self::wrong(error, wrong)?;
    let is_number = ["-n", "--np", "--ranks"].contains(&wrong);
    match error.kind() {
        ErrorKind::InvalidSubcommand if wrong.contains('/') => {
            Some(format!("to start ranks of it: transom run -n N {wrong}"))
        }
        ErrorKind::UnknownArgument if is_number && first == "mpi" => Some(
            "the MPI's own launcher starts the ranks: mpiexec -n N transom mpi PROG".to_owned(),
        ),
        ErrorKind::UnknownArgument if is_number && first.starts_with('-') => {
            Some("to start ranks: transom run -n N PROG".to_owned())
        }
        _ => None,
    }
}

/// The word that clap does not understand.
fn wrong(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind)? {
        ContextValue::String(wrong) => Some(wrong),
        _ => None,
    }
}

/// The command that differs from a word in one letter or in two letters that are swapped, which clap considers more
/// different. If there is none, all commands.
fn commands(word: &str, cli: &Command) -> String {
    let names: Vec<&str> = cli.get_subcommands().map(Command::get_name).collect();
    let near = names
        .iter()
        .find(|name| strsim::osa_distance(name, word) <= 1);
    match near {
        Some(name) => format!("a similar subcommand exists: '{name}'"),
        None => format!("the subcommands are {}", names.join(", ")),
    }
}
