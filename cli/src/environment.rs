//! The environment variables that commands and their ranks read, for their help and manual pages.

use std::fmt::Write as _;

use clap::builder::Styles;

/// A variable, and its effect.
type Variable = (&'static str, &'static str);

/// The variables that every process of a job reads.
const OF_RANKS: [Variable; 9] = [
    (
        "TRANSOM_DEVICE",
        "the device of jobs: auto, soft, tcp[:INTERFACE], verbs, or NAME[:PORT[:GID]]",
    ),
    (
        "TRANSOM_TCP_INTERFACE",
        "the network interface over which ranks reach each other by TCP, such as eth1",
    ),
    (
        "TRANSOM_NEIGHBOURS",
        "off: the device joins ranks of one host, too, and not their shared memory",
    ),
    (
        "TRANSOM_LOG",
        "what is logged to standard error: off, error, warn, info, debug, trace",
    ),
    (
        "TRANSOM_REPORT",
        "1: a table of what each window did, when a rank leaves the job",
    ),
    (
        "TRANSOM_TRACE",
        "a file for a trace of the job, which ui.perfetto.dev shows",
    ),
    (
        "TRANSOM_WAIT_WARNING",
        "after how many seconds the log warns of a wait, and of its reason (10; 0: never)",
    ),
    (
        "TRANSOM_START_TIMEOUT",
        "how many seconds ranks wait for each other at the start (600; 0: for ever)",
    ),
    (
        "TRANSOM_SURVIVORS_TIMEOUT",
        "how many seconds ranks that go on after a death wait for the others (60)",
    ),
];

const OF_ALL: [Variable; 1] = [("NO_COLOR", "1: no colours")];

/// The variables of a command; `None` if it has only [`OF_ALL`].
pub(super) fn of_command(name: &str) -> Option<Vec<Variable>> {
    let only = |names: &[&str]| {
        let known = OF_RANKS.into_iter();
        known.filter(|(name, _)| names.contains(name)).collect()
    };
    let mut found: Vec<Variable> = match name {
        "transom" | "run" | "bench" | "mpi" => OF_RANKS.to_vec(),
        "devices" | "doctor" => only(&["TRANSOM_DEVICE", "TRANSOM_TCP_INTERFACE", "TRANSOM_LOG"]),
        _ => return None,
    };
    found.extend(OF_ALL);
    Some(found)
}

/// The text below a command's options.
pub(super) fn help(name: &str) -> String {
    let header = *Styles::default().get_header();
    let mut text = format!("{header}Environment:{header:#}");
    for (variable, what) in of_command(name).unwrap_or_default() {
        // Writing to a string does not fail.
        let _ = write!(text, "\n  {variable:<23}{what}");
    }
    text
}

/// The section of a manual page about the variables.
pub(super) fn manual_section(name: &str) -> Option<String> {
    let mut text = ".SH ENVIRONMENT\n".to_owned();
    for (variable, what) in of_command(name)? {
        let what = what.replace('\\', "\\\\").replace('-', "\\-");
        let _ = writeln!(text, ".TP\n\\fB{variable}\\fR\n{what}");
    }
    Some(text)
}
