//! Rank 0 adds its matrix, transposed, to that of rank 1, by one accumulate between two fences:
//!
//! ```text
//! cargo run --release --example transpose -- -n 2 --rows 100 --columns 100
//! ```
//!
//! Nobody copies or rearranges anything: that the elements arrive transposed is said by the type of
//! the target (`layout.rs`).

mod layout;
mod matrix;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use transom::raw::{Assert, Committed, Window};
use transom::{BasicType, Communicator, Info, Op};
use transom_examples::{Failure, Launchable, Start, agree};

use matrix::{Matrix, Wrong};

/// The rank that accumulates, and the one that has it done to its matrix.
const ORIGIN: u32 = 0;
const TARGET: u32 = 1;

/// The most elements of a matrix: more could overflow in the sum.
const MOST: u64 = 1 << 28;

/// Add a matrix, transposed, to that of another rank
#[derive(Parser)]
#[command(name = "transpose")]
struct Options {
    /// Rows of rank 0's matrix, and columns of rank 1's
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    rows: u32,

    /// Columns of rank 0's matrix, and rows of rank 1's
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    columns: u32,

    /// Say what the types look like
    #[arg(short, long)]
    verbose: bool,

    #[command(flatten)]
    start: Start,
}

impl Launchable for Options {
    fn ranks(&self) -> Option<u32> {
        self.start.ranks
    }
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(
        "one rank accumulates on another, so that 2 ranks are needed: start it with -n 2, or by \
         `transom run -n 2`"
    )]
    OneRank,
    #[error("{rows} x {columns} elements are too many (legal: up to {MOST})")]
    TooMany { rows: u32, columns: u32 },
    #[error(transparent)]
    Wrong(#[from] Wrong),
}

fn main() -> ExitCode {
    transom_examples::main("transpose", run)
}

/// Collective.
fn run(comm: &Communicator, options: &Options) -> Result<(), Failure> {
    agree(comm, check(comm, options))?;
    let (rows, columns) = (options.rows as usize, options.columns as usize);
    let (rank, element) = (comm.rank(), size_of::<i32>());

    let size = match rank {
        TARGET => element * rows * columns,
        _ => 0,
    };
    let window = Window::allocate(comm, size, element as u64, &Info::new())?;
    if rank == TARGET {
        // SAFETY: the window's own memory, which no rank accesses before the fence.
        unsafe { Matrix::new(columns, rows).write(window.base().cast()) };
    }

    let dense = Committed::of(BasicType::I32);
    let transposed = layout::transposed(rows, columns)?;
    if rank == ORIGIN && options.verbose {
        println!("at the origin: {}", dense.times((rows * columns) as u64));
        println!("at the target: {}", transposed.times(1));
    }
    let matrix: Vec<i32> = match rank {
        ORIGIN => Matrix::new(rows, columns).elements().collect(),
        _ => Vec::new(),
    };
    let begun = Instant::now();
    window.fence(Assert::NO_PRECEDE)?;
    if rank == ORIGIN {
        let (from, target) = (matrix.as_ptr().cast(), transposed.times(1));
        let origin = dense.times(matrix.len() as u64);
        // SAFETY: the matrix lives, unchanged, until the fence has completed the operation.
        unsafe { window.accumulate_layout(from, origin, TARGET, 0, target, Op::Sum)? };
    }
    window.fence(Assert::NO_SUCCEED)?;
    let took = begun.elapsed().as_secs_f64();

    let checked = match rank {
        // SAFETY: no rank accesses it after the fence; it has as many elements.
        TARGET => unsafe { matrix::check(rows, columns, window.base().cast()) },
        _ => Ok(()),
    };
    agree(comm, checked.map_err(Error::from))?;
    if rank == TARGET {
        let bytes = size as f64;
        println!(
            "rank {TARGET}: all {} values are right; {rows} x {columns} took {:.3} ms, {:.1} MB/s",
            rows * columns,
            took * 1e3,
            bytes / took / 1e6,
        );
    }
    Ok(window.free()?)
}

fn check(comm: &Communicator, options: &Options) -> Result<(), Error> {
    let &Options { rows, columns, .. } = options;
    if comm.size() < 2 {
        return Err(Error::OneRank);
    }
    if u64::from(rows) * u64::from(columns) > MOST {
        return Err(Error::TooMany { rows, columns });
    }
    Ok(())
}
