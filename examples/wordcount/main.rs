//! Counts the words of files, on all ranks of a job together:
//!
//! ```text
//! cargo build --release --examples
//! transom run -n 4 target/release/examples/wordcount --top 20 FILE…
//! ```
//!
//! Each rank reads its share of the bytes and counts its words, and adds these counts to a map that lies on all ranks
//! (`counts.rs`). No rank serves another one. What a word is, is said in `words.rs`.

mod counts;
mod error;
mod files;
mod list;
mod report;
mod share;
mod words;

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use transom::Communicator;
use transom_examples::{Failure, Launchable, agree};

use counts::Counts;
use error::Error;
use files::Input;
use share::Reader;
use words::Splitter;

/// The words of one rank's share, with their counts.
type Tally = HashMap<Box<[u8]>, u64>;

/// Count the words of files, on all ranks of a job together
#[derive(Parser)]
struct Options {
    /// How many of the most frequent words to print
    #[arg(long, value_name = "K", default_value_t = 10)]
    top: usize,

    /// Print all words, one a line: count, tab, word
    #[arg(long, conflicts_with = "top")]
    all: bool,

    /// Words that each rank has room for [default: enough for the words that there are]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    capacity: Option<u64>,

    /// The files to read [default: the documents of this project]
    files: Vec<PathBuf>,
}

impl Launchable for Options {
    /// It starts none: alone, it is a job of one.
    fn ranks(&self) -> Option<u32> {
        None
    }
}

fn main() -> ExitCode {
    transom_examples::main("wordcount", run)
}

/// Collective.
fn run(comm: &Communicator, options: &Options) -> Result<(), Failure> {
    let start = Instant::now();
    let inputs = files::survey(comm, &options.files)?;
    let bytes: u64 = inputs.iter().map(|input| input.len).sum();

    let tally = agree(comm, count(comm, &inputs))?;
    let capacity = options.capacity.map(|capacity| capacity as usize);
    let counts = agree(comm, Counts::new(comm, &tally, capacity))?;
    let added = (tally.iter()).try_for_each(|(word, &times)| counts.add(word, times));
    agree(comm, added)?;
    let mine = counts.own()?;
    let took = start.elapsed();
    counts.free()?;

    let most = if options.all { usize::MAX } else { options.top };
    let report = report::collect(comm, mine, most)?;
    if comm.rank() != 0 {
        return Ok(());
    }
    let printed = if options.all {
        report.print_all()
    } else {
        report.print_top(&source(&inputs, bytes, comm.size(), took))
    };
    match printed {
        // Whoever read it has had enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => Ok(printed.map_err(Error::Output)?),
    }
}

/// Counts the words in this rank's share of the files.
fn count(comm: &Communicator, inputs: &[Input]) -> Result<Tally, Error> {
    let lens: Vec<u64> = inputs.iter().map(|input| input.len).collect();
    let mut splitter = Splitter::default();
    let mut tally = Tally::new();
    let mut add = |word: &[u8]| match tally.get_mut(word) {
        Some(times) => *times += 1,
        None => drop(tally.insert(word.into(), 1)),
    };
    for (file, part) in share::of_rank(&lens, comm.rank(), comm.size()) {
        let Input { path, len } = &inputs[file];
        let failed = |cause| Error::Input {
            path: path.clone(),
            cause,
        };
        let mut reader = Reader::open(path, part, *len).map_err(failed)?;
        while let Some(piece) = reader.next().map_err(failed)? {
            splitter.feed(piece, &mut add);
        }
        splitter.finish(&mut add);
    }
    Ok(tally)
}

fn source(inputs: &[Input], bytes: u64, ranks: u32, took: Duration) -> String {
    let rate = bytes as f64 / took.as_secs_f64() / 1e6;
    let files = match inputs.len() {
        1 => "1 file".to_owned(),
        files => format!("{files} files"),
    };
    let ranks = match ranks {
        1 => "1 rank".to_owned(),
        ranks => format!("{ranks} ranks"),
    };
    format!("{files} of {bytes} bytes; {ranks}, {rate:.0} MB/s")
}
