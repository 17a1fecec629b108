//! The heat equation on a plate, on all ranks of a job together:
//!
//! ```text
//! cargo run --release --example heat -- -n 4 --variant notify --verbose PICTURE.png
//! ```
//!
//! Each rank has one tile of the plate, and puts the edges of its tile to its neighbours before
//! every step: see `halo` for the three ways. The result is the same bit by bit, however many
//! ranks there are.

mod canvas;
mod check;
mod error;
mod field;
mod grid;
mod halo;
mod options;
mod output;
mod picture;
mod plate;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use transom::{Communicator, Op};
use transom_examples::{Failure, agree};

use canvas::Canvas;
use error::Error;
use grid::Grid;
use halo::{Halo, Traffic};
use options::Options;
use output::Album;
use picture::Picture;
use plate::Plate;

fn main() -> ExitCode {
    transom_examples::main("heat", run)
}

/// Collective.
fn run(comm: &Communicator, options: &Options) -> Result<(), Failure> {
    let is_first = comm.rank() == 0;
    let picture = agree(comm, first(is_first, || begin_with(options)))?;
    let size = picture.as_ref().map_or([0; 2], |it| [it.width, it.height]);
    let [width, height] = comm.bcast_value(size, 0)?;
    let ranks = comm.size();
    let grid = Grid::new(width, height, ranks).ok_or(Error::Tiles {
        width,
        height,
        ranks,
    });
    let grid = agree(comm, grid)?;

    let every = options.pictures_every();
    let album = first(is_first && every.is_some(), || {
        Ok(Album::new(&options.out, width, height)?)
    });
    let album = agree(comm, album)?;
    let record = |canvas: &Canvas<'_>, step| -> Result<(), Failure> {
        let added = match &album {
            Some(album) => album.add(step, canvas.cells()?),
            None => Ok(()),
        };
        agree(comm, added)
    };

    let cells = picture.as_ref().map(|it| it.cells.clone());
    let mut canvas = Canvas::new(comm, &grid, cells.unwrap_or_default())?;
    if every.is_some() {
        record(&canvas, 0)?;
    }
    let mut halo = Halo::new(comm, &grid)?;
    let mut plate = Plate::new(canvas.hand_out()?, halo.insulated(), options.diffusivity);
    let traffic = total(comm, halo.traffic())?;
    if is_first && options.verbose {
        describe(&grid, ranks, options, traffic);
    }

    let bar = output::progress(options.steps, comm.rank());
    let mut done = 0;
    let mut took = Duration::ZERO;
    while done < options.steps {
        let count = every.unwrap_or(options.steps).min(options.steps - done);
        let start = Instant::now();
        halo.advance(options.variant, &mut plate, count, &|| bar.inc(1))?;
        took += start.elapsed();
        done += count;
        if every.is_some() {
            canvas.collect(plate.field())?;
            record(&canvas, done)?;
        }
    }
    bar.finish_and_clear();
    canvas.collect(plate.field())?;
    halo.free()?;

    let written = first(is_first, || finish(options, picture, canvas.cells()?));
    agree(comm, written)?;
    if is_first {
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
    Ok(canvas.free()?)
}

/// What one rank alone does.
fn first<T>(
    is_first: bool,
    what: impl FnOnce() -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    is_first.then(what).transpose()
}

/// The temperatures at the start.
fn begin_with(options: &Options) -> Result<Picture, Failure> {
    let Some(path) = &options.picture else {
        let (width, height) = options.size;
        picture::cells(width.into(), height.into()).map_err(Error::Made)?;
        return Ok(picture::made(width as usize, height as usize));
    };
    let read = picture::read(path);
    Ok(read.map_err(|cause| Error::Picture {
        path: path.clone(),
        cause,
    })?)
}

/// Writes and checks the temperatures at the end.
fn finish(options: &Options, picture: Option<Picture>, cells: &[f64]) -> Result<(), Failure> {
    if let Some(path) = &options.raw {
        output::write_raw(path, cells)?;
    }
    if let Some(picture) = picture.filter(|_| options.check) {
        check::against_serial(&picture, options.diffusivity, options.steps, cells)?;
    }
    Ok(())
}

/// Collective. What all ranks send in a step.
fn total(comm: &Communicator, mine: Traffic) -> transom::Result<Traffic> {
    let sums = comm.allreduce(&[mine.puts, mine.bytes], Op::Sum)?;
    Ok(Traffic {
        puts: sums[0],
        bytes: sums[1],
    })
}

fn describe(grid: &Grid, ranks: u32, options: &Options, traffic: Traffic) {
    let Grid { columns, rows, .. } = grid;
    println!("{rows} rows and {columns} columns of tiles");
    for rank in 0..ranks {
        let tile = grid.tile(rank);
        println!("rank {rank}: columns {:?}, rows {:?}", tile.x, tile.y);
    }
    let Traffic { puts, bytes } = traffic;
    println!(
        "by {:?}, {puts} puts of {bytes} bytes together in each step",
        options.variant
    );
}
