//! Which bytes of which files a rank reads.
//!
//! The files, one behind the other, are cut into as many ranges of equal length as there are
//! ranks. A range that is cut inside a file gives what comes before its first separating byte to the
//! rank before, and takes what comes up to the first separating byte at or behind its end: both
//! sides of a cut find the same place, and no word is cut. A rank whose range lies within one word
//! has nothing to do.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::words::separates;

/// Bytes in memory at a time.
const BLOCK: usize = 256 << 10;

/// The part of each file that `rank` of `ranks` reads: (number of the file, its bytes).
pub(crate) fn of_rank(lens: &[u64], rank: u32, ranks: u32) -> Vec<(usize, Range<u64>)> {
    let total: u64 = lens.iter().sum();
    let cut = |rank: u32| (u128::from(total) * u128::from(rank) / u128::from(ranks)) as u64;
    let mine = cut(rank)..cut(rank + 1);
    let mut start = 0;
    let mut parts = Vec::new();
    for (file, &len) in lens.iter().enumerate() {
        let part = mine.start.max(start)..mine.end.min(start + len);
        if part.start < part.end {
            parts.push((file, part.start - start..part.end - start));
        }
        start += len;
    }
    parts
}

/// Reads a part of a file, with its ends moved to where words end.
pub(crate) struct Reader {
    file: File,
    part: Range<u64>,
    /// Bytes of the file.
    len: u64,
    /// What is read next; the file's end when all is.
    at: u64,
    /// False while looking for the first byte that is not the rank before's.
    started: bool,
    buffer: Vec<u8>,
}

impl Reader {
    pub(crate) fn open(path: &Path, part: Range<u64>, len: u64) -> io::Result<Self> {
        Ok(Self {
            file: File::open(path)?,
            // The byte before the part says whether a word goes on into it.
            at: part.start.saturating_sub(1),
            started: part.start == 0,
            buffer: vec![0; BLOCK],
            part,
            len,
        })
    }

    /// The next bytes; none at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        while self.at < self.len {
            let room = (self.len - self.at).min(BLOCK as u64) as usize;
            let block = &mut self.buffer[..room];
            read_block(&self.file, block, self.at)?;
            let at = self.at;
            self.at += room as u64;

            let mut from = 0;
            if !self.started {
                let cut = block.iter().position(|&byte| separates(byte));
                from = cut.map_or(room, |cut| cut + 1);
                self.started = cut.is_some();
                if at + from as u64 >= self.part.end {
                    break;
                }
            }
            let mut to = room;
            if self.at >= self.part.end {
                let last = (self.part.end - 1).saturating_sub(at) as usize;
                if let Some(cut) = block[last..].iter().position(|&byte| separates(byte)) {
                    to = last + cut + 1;
                    self.at = self.len;
                }
            }
            if from < to {
                return Ok(Some(&self.buffer[from..to]));
            }
        }
        self.at = self.len;
        Ok(None)
    }
}

fn read_block(file: &File, block: &mut [u8], at: u64) -> io::Result<()> {
    file.read_exact_at(block, at)
        .map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => io::Error::new(
                ErrorKind::UnexpectedEof,
                "it was truncated while it was read",
            ),
            _ => error,
        })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn parts_of(lens: &[u64], ranks: u32) -> Vec<Vec<(usize, Range<u64>)>> {
        (0..ranks).map(|rank| of_rank(lens, rank, ranks)).collect()
    }

    #[test]
    fn shares_are_equal_and_cover_all() {
        assert_eq!(
            parts_of(&[4, 0, 5, 1], 3),
            [
                vec![(0, 0..3)],
                vec![(0, 3..4), (2, 0..2)],
                vec![(2, 2..5), (3, 0..1)]
            ]
        );
        assert_eq!(
            parts_of(&[1, 1], 4),
            [vec![], vec![(0, 0..1)], vec![], vec![(1, 0..1)]]
        );
        assert_eq!(parts_of(&[], 2), [vec![], vec![]]);
    }

    /// What each of `ranks` ranks reads of a file of these bytes.
    fn pieces(bytes: &[u8], ranks: u32) -> Vec<Vec<u8>> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let len = bytes.len() as u64;
        let piece = |rank| {
            let mut piece = Vec::new();
            for (_, part) in of_rank(&[len], rank, ranks) {
                let mut reader = Reader::open(file.path(), part, len).unwrap();
                while let Some(bytes) = reader.next().unwrap() {
                    piece.extend_from_slice(bytes);
                }
            }
            piece
        };
        (0..ranks).map(piece).collect()
    }

    #[test]
    fn each_byte_is_read_once_and_no_word_is_cut() {
        let long = "y".repeat(3 * BLOCK);
        let spaces = " ".repeat(2 * BLOCK + 1);
        for text in [
            "",
            "a",
            " ",
            "aa bb",
            "  a  ",
            "no-cut-é'at'all",
            &long,
            &spaces,
        ] {
            let text = format!("{text}{text} {text}x\n{text}");
            for ranks in [1, 2, 3, 7, 40] {
                let pieces = pieces(text.as_bytes(), ranks);
                assert_eq!(pieces.concat(), text.as_bytes());
                let mut filled: Vec<_> = pieces.iter().filter(|piece| !piece.is_empty()).collect();
                filled.pop();
                for piece in filled {
                    assert!(separates(piece[piece.len() - 1]), "{ranks} ranks");
                }
            }
        }
    }

    #[test]
    fn cuts_at_the_edges_of_blocks() {
        for shift in [BLOCK - 2, BLOCK - 1, BLOCK, BLOCK + 1] {
            let mut text = vec![b'z'; 2 * BLOCK];
            text[shift] = b' ';
            text[2 * BLOCK - 2] = b' ';
            for ranks in [2, 3] {
                assert_eq!(pieces(&text, ranks).concat(), text);
            }
        }
    }

    #[test]
    fn a_file_that_shrinks_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Reader::open(file.path(), 0..3, 3)
            .unwrap()
            .next()
            .unwrap_err();
        assert!(error.to_string().contains("truncated"), "{error}");
    }
}
