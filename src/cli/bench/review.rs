//! Files of results, compared and plotted: nothing is measured.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use super::args::Review;
use super::compare::Ratios;
use super::error::{BenchError, Result};
use super::plot::PlotFile;
use super::saved::Saved;

pub(super) fn run(review: &Review) -> Result<ExitCode> {
    let files = review.from.iter().map(|path| Saved::read(path));
    let files = files.collect::<Result<Vec<_>>>()?;
    let plot = review.plot.as_ref().map(|path| {
        refuse_overwriting(path, &review.from)?;
        PlotFile::probe(path)
    });
    let plot = plot.transpose()?;
    let compared = match (&review.compare, &files[..]) {
        (Some([a, b]), [of_a, of_b]) => {
            let (a, b) = (a.clone(), b.clone());
            Some(Ratios::of([of_a, of_b]).ok_or(BenchError::NothingInCommon { a, b })?)
        }
        _ => None,
    };
    // First the picture: whoever reads the table may stop after its first lines.
    if let Some(plot) = plot {
        let sources: Vec<_> = files
            .iter()
            .map(|file| (file.name(), &*file.records))
            .collect();
        plot.draw(&sources)?;
    }
    let Some(compared) = compared else {
        return Ok(ExitCode::SUCCESS);
    };
    let written = compared.write(&mut anstream::stdout().lock(), review.tolerance);
    written.map_err(BenchError::Output)?;
    Ok(match compared.worse(review.tolerance) {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// A picture in place of what it shows would be the end of it.
fn refuse_overwriting(picture: &PathBuf, others: &[PathBuf]) -> Result<()> {
    let Ok(there) = fs::canonicalize(picture) else {
        return Ok(());
    };
    let is_there = |other: &&PathBuf| fs::canonicalize(other).is_ok_and(|other| other == there);
    match others.iter().find(is_there) {
        Some(path) => Err(BenchError::SameFile { path: path.clone() }),
        None => Ok(()),
    }
}
