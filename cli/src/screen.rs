//! The command's output. It has colours if it goes to a terminal that supports them, and `NO_COLOR` does not forbid
//! them.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use console::Term;
use serde::Serialize;

use super::{USAGE, standard_output};

pub(super) const GOOD: Style = AnsiColor::Green.on_default();
pub(super) const DOUBTFUL: Style = AnsiColor::Yellow.on_default().bold();
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(super) const STRONG: Style = Style::new().bold();

/// Ends the command with one line on standard error.
pub(super) fn fail(error: &dyn Display, code: u8) -> ExitCode {
    say(BAD, error);
    ExitCode::from(code)
}

/// Prints one line of warning on standard error; the command continues.
pub(super) fn warn(oddity: &dyn Display) {
    say(DOUBTFUL, oddity);
}

fn say(style: Style, text: &dyn Display) {
    let line = format!("{style}transom:{style:#} {text}\n");
    let line = match AutoStream::choice(&io::stderr()) {
        ColorChoice::Never => strip_str(&line).to_string(),
        _ => line,
    };
    // In one write, so that other ranks' output does not split it. If standard error is closed, only the exit code
    // remains.
    let _ = io::stderr().write_all(line.as_bytes());
}

/// The width of standard output in columns; `None` if it is not a terminal, or does not say.
pub(super) fn columns() -> Option<usize> {
    let (_, columns) = Term::stdout().size_checked()?;
    Some(columns.into())
}

/// Prints text that may contain styles.
pub(super) fn print(text: &str) -> ExitCode {
    written(write(anstream::stdout(), text.as_bytes()), None)
}

/// The same, where the exit code says what the text says.
pub(super) fn print_judged(text: &str, code: u8) -> ExitCode {
    written(write(anstream::stdout(), text.as_bytes()), Some(code))
}

/// One JSON object in each line.
pub(super) fn json_lines(objects: &[impl Serialize]) -> String {
    let line =
        |object| serde_json::to_string(object).expect("strings, numbers and lists only") + "\n";
    objects.iter().map(line).collect()
}

/// Prints a file's content unchanged.
pub(super) fn print_bytes(content: &[u8]) -> ExitCode {
    written(write(io::stdout(), content), None)
}

fn write(mut to: impl Write, content: &[u8]) -> io::Result<()> {
    if standard_output::was_closed() {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    to.write_all(content)?;
    to.flush()
}

/// The exit code, which is `judged` if somebody can know what the text says.
fn written(result: io::Result<()>, judged: Option<u8>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::from(judged.unwrap_or(0)),
        // The reader has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::from(judged.unwrap_or(1)),
        Err(error) => fail(
            &format_args!("cannot write to standard output: {error}"),
            judged.map_or(1, |_| USAGE),
        ),
    }
}
