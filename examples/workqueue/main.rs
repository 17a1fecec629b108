//! A queue of tasks of unequal length, which the ranks of a job work off together:
//!
//! ```text
//! cargo run --release --example workqueue -- -n 4 --check --picture mandelbrot.png
//! ```
//!
//! Each rank puts its share of the tasks into a deque. One that is done with its own takes some of another rank's, so all are
//! busy until no task is left anywhere. Results go into an array that lies on all ranks. No rank hands out tasks or gathers
//! results: rank 0 computes like all others, and reads the results in the end.

mod mandelbrot;
mod options;
mod report;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use png::EncodingError;
use transom::{Communicator, block};
use transom_collections::{Deque, DistArray, Distribution};
use transom_examples::{Failure, agree};

use mandelbrot::View;
use options::{Options, Schedule};
use report::Share;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("row {row} was not computed, or not by a rank: its author is said to be {author}")]
    NotDone { row: usize, author: u32 },
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
    // A result is the row's author, which is a rank and 1, and the row.
    let (rows, len) = (view.height as usize, 1 + view.width as usize);
    let results = DistArray::<u32>::new(comm, rows * len, Distribution::Block)?;
    let own = block(rows, comm.size(), comm.rank());
    let mut share = Share::default();
    let mut result = Vec::new();
    let mut work = |row: usize| -> Result<(), Failure> {
        if options.verbose {
            println!("rank {} takes row {row}", comm.rank());
        }
        let begun = Instant::now();
        result.clear();
        result.push(comm.rank() + 1);
        result.extend(view.row(row as u32));
        share.busy += begun.elapsed();
        share.rows += 1;
        share.stolen += u64::from(!own.contains(&row));
        share.iterations += result[1..].iter().copied().map(u64::from).sum::<u64>();
        Ok(results.put_range(row * len, &result)?)
    };

    let begun = Instant::now();
    match options.schedule {
        Schedule::Dynamic => {
            let tasks = Deque::<u64>::new(comm, rows)?;
            for row in own.clone() {
                tasks.push(&(row as u64))?;
            }
            comm.barrier()?;
            while let Some(row) = tasks.next()? {
                work(*row as usize)?;
            }
            tasks.free()?;
        }
        Schedule::Static => own.clone().try_for_each(work)?,
    }
    comm.barrier()?;
    let took = begun.elapsed();
    let whole = match comm.rank() {
        0 => results.get_range(0..results.len())?,
        _ => Vec::new(),
    };
    results.free()?;

    let shares = report::shares(comm, share)?;
    let good = match comm.rank() {
        0 => conclude(options, view, &shares, whole.chunks_exact(len)),
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
fn conclude<'r>(
    options: &Options,
    view: View,
    shares: &[Share],
    results: impl Iterator<Item = &'r [u32]> + Clone,
) -> Result<(), Failure> {
    let mut found = vec![0; shares.len()];
    for (row, result) in results.clone().enumerate() {
        let author = result[0];
        let rank = author.checked_sub(1);
        let found = rank.and_then(|rank| found.get_mut(rank as usize));
        *found.ok_or(Error::NotDone { row, author })? += 1;
    }
    for (rank, (share, found)) in shares.iter().zip(found).enumerate() {
        let said = share.rows;
        if said != found {
            return Err(Error::Miscounted { rank, said, found }.into());
        }
    }
    if options.check {
        compare(view, results.clone())?;
    }
    let Some(path) = &options.picture else {
        return Ok(());
    };
    let rows = results.map(|result| &result[1..]);
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
fn compare<'r>(view: View, results: impl Iterator<Item = &'r [u32]>) -> Result<(), Error> {
    for (row, result) in results.enumerate() {
        let mut both = result[1..].iter().zip(view.row(row as u32)).enumerate();
        let differs = both.find(|(_, (ours, serial))| **ours != *serial);
        if let Some((column, (&ours, serial))) = differs {
            return Err(Error::Differs {
                row,
                column,
                by: result[0] - 1,
                ours,
                serial,
            });
        }
    }
    Ok(())
}
