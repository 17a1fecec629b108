//! Batches: the kernel takes lists of parts of both processes, and the agent lists of short pieces.

use super::assist::Group;
use super::{Operation, Path, SoftEndpoint};
use crate::cross_memory::{self, Direction, MOST_PARTS, part};
use crate::device::batch::{Batch, BatchError, Blocks, LocalPiece, post_each};
use crate::soft::iovec;
use crate::{RemoteAddress, Result, Ticket};

impl SoftEndpoint {
    /// # Safety
    /// The pieces are readable (for a write) or writable (for a read).
    pub(super) unsafe fn transfer_batch(
        &self,
        operation: Operation,
        batch: &Batch<'_>,
    ) -> std::result::Result<Ticket, BatchError> {
        let by_assist = match self.path {
            // SAFETY: the caller's promise.
            Path::CrossMemory => unsafe { self.batch_by_assist(operation, batch)? },
            _ => None,
        };
        if self.path == Path::Agent && self.check_batch(operation, batch).is_ok() {
            // SAFETY: the caller's promise.
            unsafe { self.batch_by_agent(operation, batch)? };
        } else if let Some(left) = by_assist {
            // The peer may have refused them.
            for &(piece, at) in &left {
                self.check(at, piece.len as u64, operation)?;
            }
            // SAFETY: the caller's promise.
            unsafe { self.batch_by_kernel(operation, left.into_iter())? };
        } else if self.path == Path::CrossMemory && self.check_batch(operation, batch).is_ok() {
            // SAFETY: the caller's promise.
            unsafe { self.batch_by_kernel(operation, batch.each())? };
        } else {
            // Where one of them is refused, it is named.
            // SAFETY: the caller's promise.
            return unsafe { self.one_by_one(operation, batch.each()) };
        }
        Ok(Ticket::DONE)
    }

    /// # Safety
    /// The blocks are readable (for a write) or writable (for a read).
    pub(super) unsafe fn transfer_blocks(
        &self,
        operation: Operation,
        blocks: Blocks,
    ) -> std::result::Result<Ticket, BatchError> {
        let blocks = match blocks.stride_there < 0 {
            true => blocks.reversed(),
            false => blocks,
        };
        // Whoever was not there for some may be for those behind.
        for some in blocks.chunks(Blocks::OF_A_BATCH) {
            // SAFETY: the caller's promise.
            unsafe {
                let done = match self.path {
                    Path::CrossMemory => self.blocks_by_assist(operation, some)?,
                    Path::Agent => None,
                    Path::Direct => Some(0),
                };
                let Some(done) = done else {
                    some.post_as_batches(|batch| self.transfer_batch(operation, batch))?;
                    continue;
                };
                let left = some.from(done);
                if self.path == Path::CrossMemory && self.check_blocks(operation, left).is_ok() {
                    self.batch_by_kernel(operation, left.each())?;
                } else {
                    self.one_by_one(operation, left.each())?;
                }
            }
        }
        Ok(Ticket::DONE)
    }

    /// Has the agent move short pieces as lists, since each request takes a wake-up of it, and others one by one.
    ///
    /// # Safety
    /// The pieces are readable (for a write) or writable (for a read).
    unsafe fn batch_by_agent(
        &self,
        operation: Operation,
        batch: &Batch<'_>,
    ) -> std::result::Result<(), BatchError> {
        let mut rest = batch.each();
        while let Some((_, first)) = rest.clone().next() {
            let group = Group::of(0, rest.clone(), first.rkey);
            let count = group.as_ref().map_or(1, |group| group.members.len());
            let pieces = rest.clone().take(count);
            // SAFETY: the caller's promise.
            let moved = unsafe {
                match group.filter(|_| count > 1) {
                    Some(group) => self.ask_for_group(operation, &group, first.rkey, pieces)?,
                    None => false,
                }
            };
            let pieces = rest.by_ref().take(count);
            if !moved {
                // SAFETY: the caller's promise.
                unsafe { self.one_by_one(operation, pieces)? };
            } else {
                pieces.for_each(drop);
            }
        }
        Ok(())
    }

    /// False if there is no agent: then nothing was done.
    ///
    /// # Safety
    /// The pieces are the group's, and readable (for a write) or writable (for a read).
    unsafe fn ask_for_group(
        &self,
        operation: Operation,
        group: &Group,
        rkey: u64,
        pieces: impl Iterator<Item = (LocalPiece, RemoteAddress)> + Clone,
    ) -> Result<bool> {
        let fill = |slot| {
            // SAFETY: the slot is claimed; the caller's promise.
            unsafe { group.fill(operation, rkey, pieces.clone(), (&self.segment, slot)) };
        };
        let take = |slot| {
            if operation != Operation::Write {
                let pieces = pieces.clone().map(|(piece, _)| (piece.base, piece.len));
                // SAFETY: the slot was filled with the group, and is answered; the caller's promise.
                unsafe { iovec::take(self.segment.slot_data(slot), pieces) };
            }
        };
        let request = group.request(operation, rkey, 0);
        let asked = request.ask_with(&self.segment, &self.peer, fill, take)?;
        Ok(asked.is_some())
    }

    /// # Safety
    /// The pieces are readable (for a write) or writable (for a read).
    unsafe fn one_by_one(
        &self,
        operation: Operation,
        pieces: impl Iterator<Item = (LocalPiece, RemoteAddress)>,
    ) -> std::result::Result<Ticket, BatchError> {
        post_each(pieces, |piece, at| {
            // SAFETY: the caller's promise.
            unsafe { self.transfer(operation, piece.base, piece.len, at) }
        })
    }

    /// # Safety
    /// The pieces are readable (for a write) or writable (for a read).
    unsafe fn batch_by_kernel(
        &self,
        operation: Operation,
        parts: impl Iterator<Item = (LocalPiece, RemoteAddress)>,
    ) -> Result<()> {
        let sub_allocator = MOST_PARTS.min(parts.size_hint().0.max(1));
        let mut local = Vec::with_capacity(sub_allocator);
        let mut remote: Vec<libc::iovec> = Vec::with_capacity(sub_allocator);
        for (piece, at) in parts {
            if local.len() == MOST_PARTS {
                // SAFETY: the caller's promise.
                unsafe { self.transfer_parts(operation, &mut local, &mut remote)? };
            }
            local.push(part(piece.base, piece.len));
            let place = at.address as usize as *mut u8;
            match remote.last_mut() {
                Some(last) if last.iov_base.wrapping_byte_add(last.iov_len) == place.cast() => {
                    last.iov_len += piece.len;
                }
                _ => remote.push(part(place, piece.len)),
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.transfer_parts(operation, &mut local, &mut remote) }
    }

    /// Checks all runs, at once where they name one region: that is contiguous.
    fn check_batch(&self, operation: Operation, batch: &Batch<'_>) -> Result<()> {
        let mut hull: Option<(RemoteAddress, u64)> = None;
        for (at, pieces) in batch.parts() {
            let len: usize = pieces.iter().map(|piece| piece.len).sum();
            let end = at.address.saturating_add(len as u64);
            hull = match hull {
                Some((first, last)) if first.rkey == at.rkey => {
                    let address = first.address.min(at.address);
                    Some((RemoteAddress { address, ..at }, last.max(end)))
                }
                other => {
                    if let Some((first, last)) = other {
                        self.check(first, last - first.address, operation)?;
                    }
                    Some((at, end))
                }
            };
        }
        match hull {
            Some((first, last)) => self.check(first, last - first.address, operation),
            None => Ok(()),
        }
    }

    /// Checks all blocks at once, of which each lies beyond the last: a region is contiguous.
    fn check_blocks(&self, operation: Operation, blocks: Blocks) -> Result<()> {
        if blocks.count == 0 {
            return Ok(());
        }
        let last = blocks.from(blocks.count - 1).at;
        let before = last.address.wrapping_sub(blocks.at.address);
        let len = before.saturating_add(blocks.len as u64);
        self.check(blocks.at, len, operation)
    }

    /// # Safety
    /// The local parts are readable (for a write) or writable (for a read).
    unsafe fn transfer_parts(
        &self,
        operation: Operation,
        local: &mut Vec<libc::iovec>,
        remote: &mut Vec<libc::iovec>,
    ) -> Result<()> {
        let direction = match operation {
            Operation::Write => Direction::Write,
            _ => Direction::Read,
        };
        let address = remote.first().map_or(0, |part| part.iov_base.addr() as u64);
        let len = local.iter().map(|part| part.iov_len).sum();
        let moved = self.peer.reach(|number| {
            // SAFETY: the caller's promise.
            unsafe { cross_memory::transfer_lists(number, direction, local, remote) }
        });
        local.clear();
        remote.clear();
        moved.map_err(|stopped| {
            let at = RemoteAddress { address, rkey: 0 };
            self.stopped(stopped, operation, at, len)
        })
    }
}
