//! The heat equation on a plate, on all ranks of a job together:
//!
//! ```text
//! cargo run --release --example heat -- -n 4 --verbose PICTURE.png
//! ```
//!
//! Each rank has one tile of the plate. Before every step it gets the cells along its tile from its neighbours: see
//! `plate.rs`. The result is the same bit by bit, however many ranks there are.

mod error;
mod options;
mod output;
mod picture;
mod plate;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use transom::Communicator;
use transom_examples::{Failure, agree};

use error::Error;
use options::Options;
use picture::Picture;
use plate::Plate;

fn main() -> ExitCode {
    transom_examples::main("heat", run)
}

/// Collective.
fn run(comm: &Communicator, options: &Options) -> Result<(), Failure> {
    let picture = on_first(comm, || begin_with(options))?;
    let plate = Plate::new(comm, picture.as_ref(), options.diffusivity);
    let mut plate = agree(comm, plate)?;
    let (width, height, ranks) = (plate.width, plate.height, comm.size());
    if options.verbose {
        describe(comm, &plate)?;
    }

    let every = options.pictures_every();
    let bar = output::progress(options.steps, comm.rank());
    let mut done = 0;
    let mut took = Duration::ZERO;
    loop {
        if every.is_some() {
            let cells = plate.cells()?.unwrap_or_default();
            let write = || output::write_picture(&options.out, done, width, height, &cells);
            on_first(comm, write)?;
        }
        if done == options.steps {
            break;
        }
        let count = every.unwrap_or(u64::MAX).min(options.steps - done);
        let start = Instant::now();
        for _ in 0..count {
            plate.step()?;
            bar.inc(1);
        }
        took += start.elapsed();
        done += count;
    }
    bar.finish_and_clear();

    let cells = plate.cells()?.unwrap_or_default();
    plate.free()?;
    // Each rank in a communicator of its own.
    let alone = match options.check {
        true => comm.split(Some(comm.rank()), 0)?,
        false => None,
    };
    on_first(comm, || {
        if let Some(path) = &options.raw {
            output::write_raw(path, &cells)?;
        }
        match (alone, picture) {
            (Some(alone), Some(picture)) => check(&alone, &picture, options, &cells),
            _ => Ok(()),
        }
    })?;
    if comm.rank() == 0 {
        println!(
            "{} steps of {width} x {height} cells on {ranks} {} took {:.3} s",
            options.steps,
            if ranks == 1 { "rank" } else { "ranks" },
            took.as_secs_f64(),
        );
        if options.check {
            println!("equal to what one rank computes, bit by bit");
        }
        if every.is_some() {
            println!("pictures of the steps are in {}", options.out.display());
        }
    }
    Ok(())
}

/// Collective. What rank 0 does for all: its error is everyone's.
fn on_first<T>(
    comm: &Communicator,
    what: impl FnOnce() -> Result<T, Error>,
) -> Result<Option<T>, Failure> {
    agree(comm, (comm.rank() == 0).then(what).transpose())
}

/// The temperatures at the start.
fn begin_with(options: &Options) -> Result<Picture, Error> {
    let Some(path) = &options.picture else {
        let (width, height) = options.size;
        picture::cells(width.into(), height.into()).map_err(Error::Made)?;
        return Ok(picture::made(width as usize, height as usize));
    };
    picture::read(path).map_err(|cause| Error::Picture {
        path: path.clone(),
        cause,
    })
}

/// Computes all steps on this rank alone, and compares the cells bit by bit.
fn check(
    alone: &Communicator,
    picture: &Picture,
    options: &Options,
    cells: &[f64],
) -> Result<(), Error> {
    let mut plate = Plate::new(alone, Some(picture), options.diffusivity)?;
    for _ in 0..options.steps {
        plate.step()?;
    }
    let serial = plate.cells()?.unwrap_or_default();
    plate.free()?;
    let mut both = cells.iter().zip(&serial).enumerate();
    let differs = both.find(|(_, (ours, serial))| ours.to_bits() != serial.to_bits());
    match differs {
        None => Ok(()),
        Some((place, (&ours, &serial))) => Err(Error::Differs {
            x: place % picture.width,
            y: place / picture.width,
            steps: options.steps,
            ours,
            serial,
        }),
    }
}

/// Collective. Says which rank has which tile.
fn describe(comm: &Communicator, plate: &Plate) -> Result<(), Failure> {
    let [columns, rows] = plate.tile().map(|range| [range.start, range.end]);
    let tiles = comm.gather_value([columns, rows], 0)?;
    for (rank, [columns, rows]) in tiles.into_iter().enumerate() {
        let [columns, rows] = [columns, rows].map(|[start, end]| start..end);
        println!("rank {rank}: columns {columns:?}, rows {rows:?}");
    }
    Ok(())
}
