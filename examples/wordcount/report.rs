//! The result: brought to rank 0, and printed there.

use std::io::{self, BufWriter, Write as _};

use transom::{Communicator, Op};

use crate::error::Error;
use crate::list;

/// Characters of a long word that the list of the most frequent ones shows.
const SHOWN: usize = 60;

/// A word and its count.
pub(crate) type Entry = (Vec<u8>, u64);

pub(crate) struct Report {
    /// The most frequent words, the most frequent first; only on rank 0.
    pub(crate) entries: Vec<Entry>,
    /// Distinct words.
    pub(crate) distinct: u64,
    /// All of them.
    pub(crate) words: u64,
}

/// Collective. Makes one list of the ranks' words, of the `most` most frequent ones.
pub(crate) fn collect(
    comm: &Communicator,
    mut mine: Vec<Entry>,
    most: usize,
) -> Result<Report, Error> {
    let words = mine.iter().map(|(_, count)| count).sum();
    let totals = comm.allreduce(&[mine.len() as u64, words], Op::Sum)?;
    // No word is in the parts of two ranks, so the most frequent of all are among each rank's.
    keep_most(&mut mine, most);
    let mine = list::encode(mine.iter().map(|(word, count)| (*count, word.as_slice())));
    let lists = comm.gatherv(&mine, 0)?;
    let entries = lists.iter().flat_map(|list| list::decode(list));
    let mut entries = entries
        .map(|(count, word)| (word.to_vec(), count))
        .collect();
    keep_most(&mut entries, most);
    Ok(Report {
        entries,
        distinct: totals[0],
        words: totals[1],
    })
}

/// Sorts by count, and then by word.
fn keep_most(entries: &mut Vec<Entry>, most: usize) {
    entries.sort_unstable_by(|(word, count), (other, its)| its.cmp(count).then(word.cmp(other)));
    entries.truncate(most);
}

impl Report {
    /// Prints all entries whole, for other programs: count, tab, word.
    pub(crate) fn print_all(&self) -> io::Result<()> {
        let mut out = BufWriter::new(io::stdout().lock());
        for (word, count) in &self.entries {
            write!(out, "{count}\t")?;
            out.write_all(word)?;
            out.write_all(b"\n")?;
        }
        out.flush()
    }

    /// Prints the entries, and how many words there are.
    pub(crate) fn print_top(&self, source: &str) -> io::Result<()> {
        let mut out = BufWriter::new(io::stdout().lock());
        for (word, count) in &self.entries {
            let word = String::from_utf8_lossy(word);
            match word.char_indices().nth(SHOWN) {
                None => writeln!(out, "{count:>12}  {word}")?,
                Some((end, _)) => {
                    writeln!(out, "{count:>12}  {}… ({} bytes)", &word[..end], word.len())?;
                }
            }
        }
        let Self {
            words, distinct, ..
        } = self;
        writeln!(out, "{words:>12}  words, {distinct} distinct, in {source}")?;
        out.flush()
    }
}
