//! Transfers between lists of local and remote memory, posted together, and between blocks that need no list.

use std::ops::Range;
use std::slice;

use crate::{Error, RemoteAddress, Ticket};

/// Memory of this process.
#[derive(Clone, Copy, Debug)]
pub struct LocalPiece {
    /// First byte; a write only reads it.
    pub base: *mut u8,
    /// Length in bytes.
    pub len: usize,
}

/// Contiguous memory of a peer.
#[derive(Clone, Copy, Debug)]
pub struct RemoteRun {
    /// First byte.
    pub at: RemoteAddress,
    /// How many of the batch's local pieces make up this run. They follow those of earlier runs.
    pub pieces: usize,
}

/// Runs of a peer's memory and, in the same order, the local pieces that belong to them.
#[derive(Clone, Copy, Debug)]
pub struct TransferBatch<'a> {
    /// The memory of the peer that is written or read.
    pub runs: &'a [RemoteRun],
    /// The number of pieces is the sum over the runs.
    pub pieces: &'a [LocalPiece],
}

/// Equal blocks at equal distances, such as a column of a matrix. As a batch they would be many pieces.
#[derive(Clone, Copy, Debug)]
pub struct StridedBlocks {
    /// The first byte of the first block in this process; a write only reads it.
    pub here: *mut u8,
    /// The first byte of the first block at the peer.
    pub at: RemoteAddress,
    /// Bytes of each block.
    pub len: usize,
    /// The number of blocks.
    pub count: usize,
    /// Distance from one block to the next in this process.
    pub stride_here: isize,
    /// Distance from one block to the next at the peer.
    pub stride_there: i64,
}

/// The error of a batch, or of blocks, of which only a part was posted.
#[derive(Debug)]
pub struct BatchError {
    /// The last posted operation. The posted ones use their buffers until they are complete or have failed.
    pub posted: Ticket,
    /// Why the rest was not posted.
    pub error: Error,
}

impl From<Error> for BatchError {
    /// Nothing was posted.
    fn from(error: Error) -> Self {
        let posted = Ticket::DONE;
        Self { posted, error }
    }
}

/// Iterates over the pieces of a batch: [`TransferBatch::each`].
#[derive(Clone, Debug)]
pub struct Each<'a> {
    /// The runs after the one that contains the next piece.
    runs: slice::Iter<'a, RemoteRun>,
    pieces: slice::Iter<'a, LocalPiece>,
    /// The number of pieces left in the current run, and the remote place of the next one.
    left: usize,
    next: RemoteAddress,
}

impl Iterator for Each<'_> {
    type Item = (LocalPiece, RemoteAddress);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        while self.left == 0 {
            let run = self.runs.next()?;
            (self.left, self.next) = (run.pieces, run.at);
        }
        let &piece = self.pieces.next()?;
        let at = self.next;
        self.left -= 1;
        self.next.address = at.address.wrapping_add(piece.len as u64);
        Some((piece, at))
    }
}

impl<'a> TransferBatch<'a> {
    /// The runs, each with its pieces.
    pub fn parts(&self) -> impl Iterator<Item = (RemoteAddress, &'a [LocalPiece])> {
        let mut rest = self.pieces;
        self.runs.iter().map(move |run| {
            let (pieces, others) = rest.split_at(run.pieces.min(rest.len()));
            rest = others;
            (run.at, pieces)
        })
    }

    /// The pieces one by one, each with its remote place.
    pub fn each(&self) -> Each<'a> {
        Each {
            runs: self.runs.iter(),
            pieces: self.pieces.iter(),
            left: 0,
            next: RemoteAddress {
                address: 0,
                rkey: 0,
            },
        }
    }
}

impl StridedBlocks {
    /// The most blocks in a batch: as many as a send queue holds.
    pub(crate) const OF_A_BATCH: usize = 1024;

    /// A single block.
    pub(crate) fn run(here: *mut u8, len: usize, at: RemoteAddress) -> Self {
        Self {
            here,
            at,
            len,
            count: 1,
            stride_here: 0,
            stride_there: 0,
        }
    }

    /// The blocks from `first` on.
    pub(crate) fn from(self, first: usize) -> Self {
        let Self { here, at, .. } = self;
        let first = first.min(self.count);
        let address =
            (self.stride_there.wrapping_mul(first as i64)).wrapping_add_unsigned(at.address);
        Self {
            here: here.wrapping_offset(self.stride_here.wrapping_mul(first as isize)),
            at: RemoteAddress {
                address: address as u64,
                ..at
            },
            count: self.count - first,
            ..self
        }
    }

    /// The blocks of a range.
    pub(crate) fn part(self, range: Range<usize>) -> Self {
        Self {
            count: range.len(),
            ..self.from(range.start)
        }
    }

    /// All blocks in chunks of `most`; the last chunk may be smaller.
    pub(crate) fn chunks(self, most: usize) -> impl Iterator<Item = Self> + Clone {
        let starts = (0..self.count).step_by(most);
        starts.map(move |start| self.part(start..self.count.min(start + most)))
    }

    /// Splits a single block into blocks of at most `most` bytes. Several blocks must not be longer than that.
    pub(crate) fn shortened(self, most: usize) -> impl Iterator<Item = Self> + Clone {
        let starts = (0..self.len.max(1)).step_by(most);
        starts.map(move |start| Self {
            here: self.here.wrapping_add(start),
            at: self.at.moved(start as i64),
            len: most.min(self.len - start),
            ..self
        })
    }

    /// The start of the first block and the end of the last at the peer. `None` if the blocks go backwards, or beyond
    /// the address space.
    pub(crate) fn extent(self) -> Option<(u64, u64)> {
        let low = self.at.address;
        let last = u64::try_from(self.stride_there)
            .ok()?
            .checked_mul(self.count.saturating_sub(1) as u64)?;
        let len = last.checked_add(self.len as u64)?;
        Some((low, low.checked_add(len)?))
    }

    /// The same blocks, in reverse order.
    pub(crate) fn reversed(self) -> Self {
        let last = self.from(self.count.saturating_sub(1));
        Self {
            here: last.here,
            at: last.at,
            stride_here: self.stride_here.wrapping_neg(),
            stride_there: self.stride_there.wrapping_neg(),
            ..self
        }
    }

    /// Whether the blocks are contiguous at the peer.
    fn is_run(&self) -> bool {
        i64::try_from(self.len) == Ok(self.stride_there)
    }

    /// The blocks one by one, as pieces of a batch.
    pub fn each(self) -> impl ExactSizeIterator<Item = (LocalPiece, RemoteAddress)> + Clone {
        let Self { len, count, .. } = self;
        (0..count).map(move |which| {
            let Self { here, at, .. } = self.from(which);
            (LocalPiece { base: here, len }, at)
        })
    }

    /// Posts the blocks as batches.
    pub(crate) fn post_as_batches(
        self,
        mut post: impl FnMut(&TransferBatch<'_>) -> Result<Ticket, BatchError>,
    ) -> Result<Ticket, BatchError> {
        let most = self.count.min(Self::OF_A_BATCH);
        let (mut runs, mut pieces) = (Vec::with_capacity(most), Vec::with_capacity(most));
        let mut posted = Ticket::DONE;
        for some in self.chunks(Self::OF_A_BATCH) {
            runs.clear();
            pieces.clear();
            for (piece, at) in some.each() {
                match runs.last_mut() {
                    Some(RemoteRun { pieces, .. }) if self.is_run() => *pieces += 1,
                    _ => runs.push(RemoteRun { at, pieces: 1 }),
                }
                pieces.push(piece);
            }
            let batch = TransferBatch {
                runs: &runs,
                pieces: &pieces,
            };
            match post(&batch) {
                Ok(ticket) => posted = posted.max(ticket),
                Err(failed) => {
                    return Err(BatchError {
                        posted: posted.max(failed.posted),
                        error: failed.error,
                    });
                }
            }
        }
        Ok(posted)
    }
}

/// Posts pieces, or runs of them, one by one. Stops at the first error.
pub(crate) fn post_each<A, B>(
    pieces: impl Iterator<Item = (A, B)>,
    mut post: impl FnMut(A, B) -> crate::Result<Ticket>,
) -> Result<Ticket, BatchError> {
    let mut posted = Ticket::DONE;
    for (first, second) in pieces {
        match post(first, second) {
            Ok(ticket) => posted = posted.max(ticket),
            Err(error) => return Err(BatchError { posted, error }),
        }
    }
    Ok(posted)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Where pieces of a batch that is posted are, here and at the peer, and how many runs.
    type Posted = (Vec<(usize, u64)>, usize);

    fn posted(blocks: StridedBlocks, most: usize) -> (Vec<Posted>, Result<Ticket, BatchError>) {
        let mut batches = Vec::new();
        let result = blocks.post_as_batches(|batch| {
            if batches.len() == most {
                return Err(Error::PeerGone { pid: 1 }.into());
            }
            let each = batch.each().inspect(|(piece, _)| assert_eq!(piece.len, 8));
            let each = each.map(|(piece, at)| (piece.base.addr(), at.address));
            batches.push((each.collect(), batch.runs.len()));
            Ok(Ticket(batches.len() as u64))
        });
        (batches, result)
    }

    fn blocks(count: usize, stride_here: isize, stride_there: i64) -> StridedBlocks {
        StridedBlocks {
            here: std::ptr::without_provenance_mut(1 << 20),
            at: RemoteAddress {
                address: 1 << 30,
                rkey: 7,
            },
            len: 8,
            count,
            stride_here,
            stride_there,
        }
    }

    #[test]
    fn blocks_are_posted_in_their_order() {
        for (stride_here, stride_there) in [(8, 1000), (-16, 8), (24, -64), (8, 0)] {
            let (batches, result) = posted(blocks(2500, stride_here, stride_there), 9);
            assert_eq!(result.unwrap(), Ticket(3));
            let sizes: Vec<_> = batches.iter().map(|(each, _)| each.len()).collect();
            assert_eq!(sizes, [1024, 1024, 452]);
            for (each, runs) in &batches {
                let expected = if stride_there == 8 { 1 } else { each.len() };
                assert_eq!(*runs, expected);
            }
            let all = batches.iter().flat_map(|(each, _)| each);
            for (which, &(here, there)) in all.enumerate() {
                let which = which as isize;
                assert_eq!(here as isize, (1 << 20) + which * stride_here);
                assert_eq!(there as i64, (1 << 30) + which as i64 * stride_there);
            }
        }
        assert!(posted(blocks(0, 8, 8), 9).0.is_empty());
    }

    #[test]
    fn what_was_posted_before_an_error_is_told() {
        let (batches, result) = posted(blocks(2500, 8, 100), 2);
        assert_eq!(batches.len(), 2);
        assert_eq!(result.unwrap_err().posted, Ticket(2));
    }

    #[test]
    fn the_rest_begins_where_it_is_said() {
        let rest = blocks(10, 16, -100).from(3);
        assert_eq!(rest.count, 7);
        let first = rest.each().next().unwrap();
        let there = (first.0.base.addr(), first.1.address, first.1.rkey);
        assert_eq!(there, ((1 << 20) + 48, (1 << 30) - 300, 7));
        assert_eq!(blocks(10, 16, 100).from(11).count, 0);
    }

    #[test]
    fn backwards_they_are_the_same() {
        for count in [0, 1, 10] {
            let blocks = blocks(count, 24, -100);
            let places = |blocks: StridedBlocks| {
                let each = blocks.each();
                each.map(|(piece, at)| (piece.base.addr(), at.address))
                    .collect::<Vec<_>>()
            };
            let mut backwards = places(blocks.reversed());
            backwards.reverse();
            assert_eq!(backwards, places(blocks));
        }
    }
}
