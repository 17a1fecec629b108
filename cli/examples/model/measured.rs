//! Files with measured times.

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use thiserror::Error;
use transom::model::{MeasuredTime, Placement};

use super::args::{Args, CallName};

/// The most pairs of ranks that post and start in the model: for each it stores two times of eight bytes.
pub(super) const MOST_PAIRS: u64 = 1 << 28;

#[derive(Debug, Error)]
pub(super) enum ModelError {
    #[error("cannot read {path:?}: {source}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("cannot write {path:?}: {source}")]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "{path:?}, line {line}: not CALL RANKS PER_HOST NANOSECONDS of two ranks or more, as in 'fence 64 16 21500'"
    )]
    Line { path: PathBuf, line: usize },
    #[error(
        "{path:?}: no line of a job with {most} ranks or fewer, to which costs could be fitted"
    )]
    Nothing { path: PathBuf, most: u32 },
    #[error(
        "{ranks} ranks with {neighbours} neighbours each are too many for pscw (legal: {MOST_PAIRS} pairs)"
    )]
    TooMany { ranks: u32, neighbours: u32 },
    #[error("cannot draw: {0}")]
    Drawing(String),
}

/// The lines of a file, without empty lines and those that begin with `#`.
pub(super) fn read(path: &Path, args: &Args) -> Result<Vec<(CallName, MeasuredTime)>, ModelError> {
    let text = fs::read_to_string(path).map_err(|source| ModelError::Read {
        path: path.to_owned(),
        source,
    })?;
    let lines = (1..).zip(text.lines().map(str::trim));
    let lines = lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('#'));
    lines
        .map(|(line, text)| {
            parse(text, args).ok_or_else(|| ModelError::Line {
                path: path.to_owned(),
                line,
            })
        })
        .collect()
}

fn parse(text: &str, args: &Args) -> Option<(CallName, MeasuredTime)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [call, ranks, per_host, nanoseconds] = words[..] else {
        return None;
    };
    let call = CallName::from_str(call, false).ok()?;
    let count = |word: &str| {
        let count = word.parse().ok();
        count.filter(|count| (1..1 << 24).contains(count))
    };
    // In a job of one rank, no call takes time in the model.
    let ranks = count(ranks).filter(|&ranks| ranks > 1)?;
    let nanoseconds: f64 = nanoseconds.parse().ok()?;
    let measured = MeasuredTime {
        procedure: args.procedure(call),
        placement: Placement {
            ranks,
            per_host: count(per_host)?,
        },
        nanoseconds,
    };
    (nanoseconds > 0.0 && nanoseconds.is_finite()).then_some((call, measured))
}
