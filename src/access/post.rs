//! Strips as batches for the device.

use rdma_sys_shim::{
    BatchError, Direction, Endpoint, LocalPiece, RemoteAddress, RemoteRun, StridedBlocks, Ticket,
    TransferBatch, Update, Width,
};

use crate::error::Result;
use crate::wait::Patience;

/// The number of pieces that are posted together: as many as a send queue has entries.
const MOST: usize = 1024;

/// At least this many equal blocks are posted by themselves. Fewer are listed with the other pieces, since waiting for
/// each small group would take longer.
const MANY: usize = 128;

/// Collects pieces in the order of the target's memory, and posts them when there are enough.
pub(super) struct Poster<'w> {
    endpoint: &'w dyn Endpoint,
    patience: Patience,
    direction: Direction,
    /// If pieces are not transferred, but used for updates of words.
    update: Option<(Update, Width)>,
    rkey: u64,
    runs: Vec<RemoteRun>,
    pieces: Vec<LocalPiece>,
    /// The address after the last run.
    end: u64,
    posted: Ticket,
}

impl<'w> Poster<'w> {
    pub(super) fn new(
        endpoint: &'w dyn Endpoint,
        patience: Patience,
        direction: Direction,
        rkey: u64,
    ) -> Self {
        Self {
            endpoint,
            patience,
            direction,
            update: None,
            rkey,
            runs: Vec::new(),
            pieces: Vec::new(),
            end: 0,
            posted: Ticket::DONE,
        }
    }

    /// Uses pieces for updates of words of this width from now on.
    ///
    /// # Safety
    /// As for [`Poster::push`], for all that was pushed.
    pub(super) unsafe fn turn_to(&mut self, update: Update, width: Width) -> Result<()> {
        let update = Some((update, width));
        if self.update != update {
            // SAFETY: the caller's promise.
            unsafe { self.post()? };
            self.update = update;
        }
        Ok(())
    }

    /// Adds blocks. They may be the only ones.
    ///
    /// # Safety
    /// As for [`Poster::push`], for each of them.
    pub(super) unsafe fn push_blocks(
        &mut self,
        blocks: StridedBlocks,
        are_all: bool,
    ) -> Result<()> {
        let least = if are_all { 2 } else { MANY };
        if blocks.count >= least {
            // SAFETY: the caller's promise.
            let posted = unsafe { (self.endpoint).transfer_blocks(self.direction, blocks) };
            return self.note(posted);
        }
        for (piece, at) in blocks.each() {
            // SAFETY: the caller's promise.
            unsafe { self.push(piece.base, at.address, piece.len)? };
        }
        Ok(())
    }

    /// Adds `len` bytes at `here` and, at the target, at `address`.
    ///
    /// # Safety
    /// The bytes here are readable, or writable for a get, and no other code accesses bytes that are
    /// written, until the operation is complete or has failed.
    pub(super) unsafe fn push(&mut self, here: *mut u8, address: u64, len: usize) -> Result<()> {
        if self.pieces.len() == MOST {
            // SAFETY: this function's promise, for those that were pushed.
            unsafe { self.post()? };
        }
        let run = self.runs.last_mut().filter(|_| self.end == address);
        match (run, self.pieces.last_mut()) {
            (Some(_), Some(last)) if last.base.wrapping_add(last.len) == here => last.len += len,
            (run, _) => {
                let (rkey, pieces) = (self.rkey, 1);
                let at = RemoteAddress { address, rkey };
                match run {
                    Some(run) => run.pieces += 1,
                    None => self.runs.push(RemoteRun { at, pieces }),
                }
                self.pieces.push(LocalPiece { base: here, len });
            }
        }
        self.end = address.wrapping_add(len as u64);
        Ok(())
    }

    /// Posts the rest, and returns a ticket for all.
    ///
    /// # Safety
    /// As for [`Poster::push`].
    pub(super) unsafe fn finish(mut self) -> Result<Ticket> {
        // SAFETY: the caller's promise.
        unsafe { self.post()? };
        Ok(self.posted)
    }

    /// # Safety
    /// As for [`Poster::push`], for all that was pushed.
    unsafe fn post(&mut self) -> Result<()> {
        if self.runs.is_empty() {
            return Ok(());
        }
        let batch = TransferBatch {
            runs: &self.runs,
            pieces: &self.pieces,
        };
        // SAFETY: the caller's promise.
        let posted = unsafe {
            match (self.update, batch.pieces) {
                (Some((update, width)), _) => self.endpoint.update_batch(width, update, &batch),
                (None, &[LocalPiece { base, len }]) => {
                    let at = batch.runs[0].at;
                    let posted = self.endpoint.transfer(self.direction, base, len, at);
                    posted.map_err(BatchError::from)
                }
                (None, _) => self.endpoint.transfer_batch(self.direction, &batch),
            }
        };
        self.runs.clear();
        self.pieces.clear();
        self.note(posted)
    }

    fn note(&mut self, posted: std::result::Result<Ticket, BatchError>) -> Result<()> {
        match posted {
            Ok(ticket) => {
                self.posted = self.posted.max(ticket);
                Ok(())
            }
            Err(BatchError { posted, error }) => {
                // The caller may reuse its buffers, so no operation may be in flight.
                let last = self.posted.max(posted);
                let _ = self.patience.complete(self.endpoint, last);
                Err(error.into())
            }
        }
    }
}
