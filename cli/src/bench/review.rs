//! Compares and plots files of results, without measuring.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::args::Args;
use super::error::{BenchError, Result};
use super::results::{PlotFile, Ratios, Saved};

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let paths = match args.from.is_empty() {
        true => &args.compare,
        false => &args.from,
    };
    let files = paths.iter().map(|path| Saved::read(path));
    let files: Vec<_> = files.collect::<std::result::Result<_, _>>()?;
    if let Some(path) = &args.plot {
        refuse_overwriting(path, paths)?;
    }
    let plot = args.plot.as_deref().map(PlotFile::probe).transpose()?;
    let compared = match (&args.compare[..], &files[..]) {
        ([a, b], [of_a, of_b]) => {
            let (a, b) = (a.clone(), b.clone());
            Some(Ratios::of([of_a, of_b]).ok_or(BenchError::NothingInCommon { a, b })?)
        }
        _ => None,
    };
    // Draw the picture first: the reader of the table may stop after its first lines.
    if let Some(plot) = plot {
        let sources = files.iter().map(|file| (file.name(), &*file.records));
        plot.draw(&sources.collect::<Vec<_>>())?;
    }
    let Some(compared) = compared else {
        return Ok(ExitCode::SUCCESS);
    };
    let tolerance = args.tolerance.unwrap_or(5.0) / 100.0;
    let written = compared.write(&mut anstream::stdout().lock(), tolerance);
    written.map_err(BenchError::Output)?;
    Ok(match compared.worse(tolerance) {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Refuses a picture that would overwrite a file of results.
fn refuse_overwriting(picture: &Path, others: &[PathBuf]) -> Result<()> {
    let Ok(there) = fs::canonicalize(picture) else {
        return Ok(());
    };
    let is_there = |other: &&PathBuf| fs::canonicalize(other).is_ok_and(|other| other == there);
    match others.iter().find(is_there) {
        Some(path) => Err(BenchError::SameFile { path: path.clone() }),
        None => Ok(()),
    }
}
