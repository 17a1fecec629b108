//! The kernels of bale, by which libraries of this field compare themselves, on Transom's collections:
//! `bale KERNEL ELEMENTS`, with so many elements on each rank. Each checks its result, and rank 0 prints
//! `KERNEL RANKS SECONDS MOPS`. `ci/compare-bale --help` says what the kernels do and what counts as an operation.

mod kernels;
mod matrix;
mod random;
mod toposort;

use std::process::ExitCode;
use std::time::Instant;

use transom::{Communicator, Job, Op};
use transom_collections::Result;

/// Entries of a row, at most.
const ENTRIES: usize = 16;

/// What a kernel did: so many operations on all ranks, in so many seconds.
struct Done {
    operations: u64,
    seconds: f64,
}

/// Collective. Runs `kernel`, and says how long that took all ranks.
fn timed<R>(comm: &Communicator, kernel: impl FnOnce() -> Result<R>) -> Result<(R, f64)> {
    comm.barrier()?;
    let begun = Instant::now();
    let result = kernel()?;
    comm.barrier()?;
    Ok((result, begun.elapsed().as_secs_f64()))
}

/// Collective. Whether a check holds on every rank.
fn check(comm: &Communicator, holds: bool, what: &str) -> Result<()> {
    assert!(comm.all(holds)?, "wrong: {what}");
    Ok(())
}

/// Collective. Over all ranks.
fn sum(comm: &Communicator, mine: u64) -> Result<u64> {
    Ok(comm.allreduce_value(mine, Op::Sum)?)
}

/// Collective. Of the ranks before this one.
fn sum_before(comm: &Communicator, mine: u64) -> Result<u64> {
    let up_to_this = comm.scan_value(mine, Op::Sum)?;
    Ok(up_to_this - mine)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let elements = match &arguments[..] {
        [_, elements] => elements
            .parse()
            .ok()
            .filter(|&elements: &usize| elements >= ENTRIES),
        _ => None,
    };
    let kernel = match arguments.first().map(String::as_str) {
        Some("histogram") => kernels::histogram,
        Some("gather") => kernels::gather,
        Some("permutation") => kernels::permutation,
        Some("transpose") => matrix::transpose,
        Some("toposort") => toposort::toposort,
        _ => return usage(),
    };
    let Some(elements) = elements else {
        return usage();
    };
    let run = || -> Result<()> {
        let job = Job::init()?;
        let comm = job.world();
        let done = kernel(comm, elements)?;
        if comm.rank() == 0 {
            let mops = done.operations as f64 / done.seconds / 1e6;
            println!(
                "{} {} {:.6} {mops:.3}",
                arguments[0],
                comm.size(),
                done.seconds
            );
        }
        Ok(())
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bale: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: bale histogram|gather|permutation|transpose|toposort ELEMENTS (of each rank, {ENTRIES} or more)"
    );
    ExitCode::from(2)
}
