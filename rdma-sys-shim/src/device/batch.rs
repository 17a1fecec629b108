//! Transfers between lists of local and remote memory, posted together.

use std::slice;

use crate::{Error, RemoteAddress, Ticket};

/// Memory of this process.
#[derive(Clone, Copy, Debug)]
pub struct LocalPiece {
    /// First byte; only read from by writes.
    pub base: *mut u8,
    /// Length in bytes.
    pub len: usize,
}

/// Contiguous memory of a peer.
#[derive(Clone, Copy, Debug)]
pub struct RemoteRun {
    /// First byte.
    pub at: RemoteAddress,
    /// How many of the batch's local pieces make it up, after those of the runs before it.
    pub pieces: usize,
}

/// Runs of a peer's memory and, in the same order, the local pieces that belong to them.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Where it goes to, or comes from.
    pub runs: &'a [RemoteRun],
    /// As many as the runs say.
    pub pieces: &'a [LocalPiece],
}

/// A batch of which only a part was posted.
#[derive(Debug)]
pub struct BatchError {
    /// What was posted, which uses its buffers until it is complete or has failed.
    pub posted: Ticket,
    /// Why the rest was not.
    pub error: Error,
}

impl From<Error> for BatchError {
    /// Nothing was posted.
    fn from(error: Error) -> Self {
        let posted = Ticket::DONE;
        Self { posted, error }
    }
}

/// The pieces of a batch one by one: [`Batch::each`].
#[derive(Clone, Debug)]
pub struct Each<'a> {
    /// Those after the one that the next piece is of.
    runs: slice::Iter<'a, RemoteRun>,
    pieces: slice::Iter<'a, LocalPiece>,
    /// Pieces of that run, and where the next of them belongs.
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

impl<'a> Batch<'a> {
    /// The runs, each with its pieces.
    pub fn parts(&self) -> impl Iterator<Item = (RemoteAddress, &'a [LocalPiece])> {
        let mut rest = self.pieces;
        self.runs.iter().map(move |run| {
            let (pieces, others) = rest.split_at(run.pieces.min(rest.len()));
            rest = others;
            (run.at, pieces)
        })
    }

    /// The pieces one by one, each with the place of its own.
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

    /// Posts them one by one.
    pub(crate) fn post_each(
        &self,
        mut post: impl FnMut(LocalPiece, RemoteAddress) -> crate::Result<Ticket>,
    ) -> Result<Ticket, BatchError> {
        let mut posted = Ticket::DONE;
        for (piece, at) in self.each() {
            match post(piece, at) {
                Ok(ticket) => posted = posted.max(ticket),
                Err(error) => return Err(BatchError { posted, error }),
            }
        }
        Ok(posted)
    }
}
