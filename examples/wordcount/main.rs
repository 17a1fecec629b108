//! Counts the words of files, on all ranks of a job together:
//!
//! ```text
//! cargo build --release --examples
//! transom run -n 4 target/release/examples/wordcount --top 20 FILE…
//! ```
//!
//! Each rank reads its share of the bytes, and counts into one hash table that lies in the windows
//! of all ranks. A rank finds, claims and increments slots on the others by itself (get,
//! compare_and_swap, fetch_and_op); none serves requests. What a word is, is said in `words.rs`.

mod error;
mod files;
mod hash;
mod heap;
mod layout;
mod list;
mod report;
mod share;
mod table;
mod tally;
mod words;

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use transom::Communicator;
use transom_examples::{Failure, Launchable, agree};

use error::Error;
use files::Input;
use share::Reader;
use table::{Access, Table};
use tally::Tally;
use words::Splitter;

/// Count the words of files, on all ranks of a job together
#[derive(Parser)]
struct Options {
    /// How many of the most frequent words to print
    #[arg(long, value_name = "K", default_value_t = 10)]
    top: usize,

    /// Print all words, one a line: count, tab, word
    #[arg(long, conflicts_with = "top")]
    all: bool,

    /// Slots for words on each rank [default: enough for any text of the files' length]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    slots: Option<u64>,

    /// Bytes for long words on each rank [default: by the length of the files]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=1 << 43))]
    heap: Option<u64>,

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

    let room = Room::for_input(bytes, comm.size());
    let slots = options.slots.unwrap_or(room.slots);
    let heap = options.heap.unwrap_or(room.heap);
    let table = Table::new(comm, slots as usize, heap as usize);
    let mut table = agree(comm, table)?;
    // An error is no reason to leave the epoch before the others do.
    let counted = table.access(|access| Ok(count(comm, &inputs, access)))?;
    agree(comm, counted)?;
    let mine = table.part()?;
    let took = start.elapsed();
    table.free()?;

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
fn count(
    comm: &Communicator,
    inputs: &[Input],
    table: &mut Access<'_, '_, '_>,
) -> Result<(), Error> {
    let lens: Vec<u64> = inputs.iter().map(|input| input.len).collect();
    let mut splitter = Splitter::default();
    let mut tally = Tally::default();
    for (file, part) in share::of_rank(&lens, comm.rank(), comm.size()) {
        let Input { path, len } = &inputs[file];
        let failed = |cause| Error::Input {
            path: path.clone(),
            cause,
        };
        let mut reader = Reader::open(path, part, *len).map_err(failed)?;
        while let Some(piece) = reader.next().map_err(failed)? {
            splitter.feed(piece, |word| tally.add(word));
            if tally.is_full() {
                empty(&mut tally, table)?;
            }
        }
        splitter.finish(|word| tally.add(word));
    }
    empty(&mut tally, table)
}

fn empty(tally: &mut Tally, table: &mut Access<'_, '_, '_>) -> Result<(), Error> {
    tally
        .take()
        .try_for_each(|(word, times)| table.add(&word, times))
}

/// How much room the table needs on each rank.
struct Room {
    slots: u64,
    heap: u64,
}

impl Room {
    /// Enough for a text of this many bytes. On the soft device only what is used takes memory; on
    /// one that pins it, less may be better.
    fn for_input(bytes: u64, ranks: u32) -> Self {
        let share = bytes / u64::from(ranks);
        Self {
            // There are too few words of less than three letters for more distinct ones than a
            // quarter of the bytes. Homes are chosen by hash, so that some get more words.
            slots: share / 4 + share / 32 + 4096,
            // Lower case and rounding make words longer. One long word lies on one rank.
            heap: 2 * share + (2 * bytes).min(64 << 20) + (64 << 10),
        }
    }
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
