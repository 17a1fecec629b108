//! A queue of tasks of unequal length, which the ranks of a job work off together:
//!
//! ```text
//! cargo run --release --example workqueue -- -n 4 --check --picture mandelbrot.png
//! ```
//!
//! A rank that is done with its tasks draws the next from a counter (`queue.rs`), and puts what it
//! has found where rank 0 wants it (`results.rs`). Nobody hands out tasks or gathers results: rank 0
//! computes like all others.

mod mandelbrot;
mod options;
mod queue;
mod report;
mod results;

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use png::EncodingError;
use transom::{Communicator, block};
use transom_examples::{Failure, agree};

use mandelbrot::View;
use options::{Options, Schedule};
use queue::Queue;
use report::Share;
use results::{Collected, Results};

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("row {row} was not computed, or not by a rank: what is there says rank {by}")]
    NotDone { row: usize, by: u32 },
    #[error("rank {rank} says it computed {said} rows, but {found} of the results are its own")]
    Miscounted { rank: usize, said: u64, found: u64 },
    #[error("point {column} of row {row}, by rank {by}, is {ours}, but {serial} on one rank alone")]
    Differs {
        row: usize,
        column: usize,
        by: u32,
        ours: u32,
        serial: u32,
    },
    #[error("{}: {cause}", path.display())]
    Picture { path: PathBuf, cause: io::Error },
}

fn main() -> ExitCode {
    transom_examples::main("workqueue", run)
}

/// Collective.
fn run(comm: &Communicator, options: &Options) -> Result<(), Failure> {
    let view = View {
        width: options.width,
        height: options.height,
        iterations: options.iterations,
    };
    // A result is the rank that has found it, and the row.
    let results = Results::new(comm, view.height, 1 + view.width as usize)?;
    let mut queue = Queue::new(comm, view.height, options.chunk)?;
    let mut share = Share::default();
    let mut result = Vec::new();
    let mut work = |rows: Range<u32>| -> Result<(), Failure> {
        if options.verbose {
            println!("rank {} draws rows {rows:?}", comm.rank());
        }
        share.draws += 1;
        for row in rows {
            let begun = Instant::now();
            result.clear();
            result.push(comm.rank());
            result.extend(view.row(row));
            share.busy += begun.elapsed();
            share.rows += 1;
            share.iterations += result[1..].iter().copied().map(u64::from).sum::<u64>();
            results.put(row, &result)?;
        }
        Ok(())
    };

    let begun = Instant::now();
    match options.schedule {
        Schedule::Dynamic => queue.drain(&mut work)?,
        Schedule::Static => {
            // As many rows for each rank.
            let rows = block(view.height as usize, comm.size(), comm.rank());
            work(rows.start as u32..rows.end as u32)?;
        }
    }
    queue.free()?;
    let results = results.finish(comm, view.height)?;
    let took = begun.elapsed();

    let shares = report::shares(comm, share)?;
    let good = match comm.rank() {
        0 => conclude(options, view, &shares, &results),
        _ => Ok(()),
    };
    agree(comm, good)?;
    if comm.rank() == 0 {
        report::print(&shares, took);
        if options.check {
            println!("equal to what one rank computes");
        }
    }
    Ok(())
}

/// Whether all tasks were done, and by whom the workers say; then what the options ask for.
fn conclude(
    options: &Options,
    view: View,
    shares: &[Share],
    results: &Collected,
) -> Result<(), Failure> {
    let mut found = vec![0; shares.len()];
    for (row, result) in results.iter().enumerate() {
        let by = result[0];
        *found
            .get_mut(by as usize)
            .ok_or(Error::NotDone { row, by })? += 1;
    }
    for (rank, (share, found)) in shares.iter().zip(found).enumerate() {
        let said = share.rows;
        if said != found {
            return Err(Error::Miscounted { rank, said, found }.into());
        }
    }
    if options.check {
        compare(view, results)?;
    }
    let Some(path) = &options.picture else {
        return Ok(());
    };
    let rows = results.iter().map(|result| &result[1..]);
    report::draw(path, view, rows).map_err(|error| Error::Picture {
        path: path.clone(),
        cause: match error {
            EncodingError::IoError(cause) => cause,
            other => io::Error::other(other),
        },
    })?;
    Ok(())
}

/// Computes all rows here, and compares.
fn compare(view: View, results: &Collected) -> Result<(), Error> {
    for (row, result) in results.iter().enumerate() {
        let serial = view.row(row as u32);
        let differs = result[1..]
            .iter()
            .zip(serial)
            .enumerate()
            .find(|(_, (ours, serial))| **ours != *serial);
        if let Some((column, (&ours, serial))) = differs {
            return Err(Error::Differs {
                row,
                column,
                by: result[0],
                ours,
                serial,
            });
        }
    }
    Ok(())
}
