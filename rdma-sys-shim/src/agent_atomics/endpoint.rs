//! A connection by two devices.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::order::{Order, Which};
use crate::device::batch::{BatchError, StridedBlocks, TransferBatch};
use crate::device::combine::{Combination, CombinedElements};
use crate::sharing::{liveness_interval, stretched};
use crate::{
    Direction, Endpoint, Error, Fetch, Mapping, RemoteAddress, RemoteRegion, Result, Ticket,
    Update, Via, Width,
};

/// A wait spins this often, then yields for a time, and then sleeps for short intervals.
const SPINS: u32 = 64;
const YIELDING: Duration = Duration::from_millis(1);
const SLEEP: Duration = Duration::from_micros(50);

pub(super) struct AgentAtomicsEndpoint {
    data: Arc<dyn Endpoint>,
    atomics: Arc<dyn Endpoint>,
    /// Locked while an operation is posted, so that operations of one device are complete before the other gets any.
    posting: Mutex<()>,
    order: Mutex<Order>,
    /// The source of trailing reads, and their destination.
    trailing: RemoteAddress,
    unused: Unused,
}

/// Eight bytes that trailing reads write and nothing reads.
struct Unused(*mut u64);

// SAFETY: the pointer is only given to trailing reads, and at most one is under way.
unsafe impl Send for Unused {}
// SAFETY: as above.
unsafe impl Sync for Unused {}

impl AgentAtomicsEndpoint {
    pub(super) fn new(
        data: Arc<dyn Endpoint>,
        atomics: Arc<dyn Endpoint>,
        trailing: RemoteAddress,
    ) -> Self {
        Self {
            data,
            atomics,
            posting: Mutex::new(()),
            order: Mutex::default(),
            trailing,
            unused: Unused(Box::into_raw(Box::new(0))),
        }
    }

    fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn device(&self, which: Which) -> &dyn Endpoint {
        match which {
            Which::Data => &*self.data,
            Which::Atomics => &*self.atomics,
        }
    }

    /// Waits until nothing is under way on the other device. No other thread posts until the guard is dropped.
    fn turn_to(&self, which: Which) -> Result<MutexGuard<'_, ()>> {
        let posting = self.posting.lock().unwrap_or_else(PoisonError::into_inner);
        let (present, last) = {
            let order = self.order();
            (order.which(), order.last())
        };
        if present != which {
            self.wait(last)?;
            self.order().turn_to(which);
        }
        Ok(posting)
    }

    /// Posts an operation to a device. `writes`: the operation is a write.
    fn post(
        &self,
        which: Which,
        writes: bool,
        post: impl FnOnce(&dyn Endpoint) -> Result<Ticket>,
    ) -> Result<Ticket> {
        let _posting = self.turn_to(which)?;
        let ticket = post(self.device(which))?;
        Ok(self.order().has_posted(ticket, writes))
    }

    fn post_batch(
        &self,
        which: Which,
        writes: bool,
        post: impl FnOnce(&dyn Endpoint) -> std::result::Result<Ticket, BatchError>,
    ) -> std::result::Result<Ticket, BatchError> {
        let _posting = self.turn_to(which)?;
        let posted = post(self.device(which));
        let mut order = self.order();
        posted
            .map(|ticket| order.has_posted(ticket, writes))
            .map_err(|failed| BatchError {
                posted: order.has_posted(failed.posted, writes),
                error: failed.error,
            })
    }

    /// As [`Endpoint::completed`], for data. A completed write has reached the peer's device. It has reached the memory
    /// once a later read is complete.
    fn data_completed(&self, order: &mut Order, ticket: Ticket) -> Result<bool> {
        loop {
            if let Some(read) = order.trailing_read() {
                if !self.data.completed(read.ticket)? {
                    return Ok(false);
                }
                order.trailing_read_is_complete();
            }
            if order.is_complete(ticket) {
                return Ok(true);
            }
            if !order.needs_trailing_read(ticket) {
                return self.data.completed(order.of_device(ticket));
            }
            let (to, len) = (self.unused.0.cast(), size_of::<u64>());
            // SAFETY: no other trailing read is under way, and `drop` frees the bytes only if none is.
            let posted = unsafe { (self.data).transfer(Direction::Read, to, len, self.trailing)? };
            order.has_posted_trailing_read(posted);
        }
    }

    /// Waits for an operation.
    fn wait(&self, ticket: Ticket) -> Result<()> {
        let mut spins = 0;
        let mut times = None;
        while !self.completed(ticket)? {
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop();
                continue;
            }
            let now = Instant::now();
            let (begun, checked) = times.get_or_insert((now, now));
            if now.duration_since(*checked) >= liveness_interval() {
                *checked = now;
                self.intact()?;
            }
            match now.duration_since(*begun) < YIELDING {
                true => thread::yield_now(),
                false => thread::sleep(stretched(SLEEP)),
            }
        }
        Ok(())
    }

    /// Whether all posted operations are complete or have failed, or the peer does not run.
    pub(super) fn is_drained(&self) -> bool {
        let last = self.order().last();
        self.completed(last).unwrap_or(true) || self.liveness().is_err()
    }

    /// Waits for [`Self::is_drained`]. False if that takes longer than until `end`.
    pub(super) fn drain(&self, end: Instant) -> bool {
        while !self.is_drained() && self.intact().is_ok() {
            if Instant::now() > end {
                return false;
            }
            thread::sleep(SLEEP);
        }
        true
    }
}

impl Drop for AgentAtomicsEndpoint {
    fn drop(&mut self) {
        let order = self.order.get_mut();
        let order = order.unwrap_or_else(PoisonError::into_inner);
        // A pending trailing read may still write its bytes; then they are leaked.
        if order.trailing_read().is_none() {
            // SAFETY: `new` took the pointer out of a box, and nothing uses it any more.
            drop(unsafe { Box::from_raw(self.unused.0) });
        }
    }
}

impl Endpoint for AgentAtomicsEndpoint {
    unsafe fn transfer(
        &self,
        direction: Direction,
        local: *mut u8,
        len: usize,
        at: RemoteAddress,
    ) -> Result<Ticket> {
        let writes = direction == Direction::Write;
        // SAFETY: the caller's promise.
        self.post(Which::Data, writes, |data| unsafe {
            data.transfer(direction, local, len, at)
        })
    }

    unsafe fn transfer_batch(
        &self,
        direction: Direction,
        batch: &TransferBatch<'_>,
    ) -> std::result::Result<Ticket, BatchError> {
        let writes = direction == Direction::Write;
        // SAFETY: the caller's promise.
        self.post_batch(Which::Data, writes, |data| unsafe {
            data.transfer_batch(direction, batch)
        })
    }

    unsafe fn transfer_blocks(
        &self,
        direction: Direction,
        blocks: StridedBlocks,
    ) -> std::result::Result<Ticket, BatchError> {
        let writes = direction == Direction::Write;
        // SAFETY: the caller's promise.
        self.post_batch(Which::Data, writes, |data| unsafe {
            data.transfer_blocks(direction, blocks)
        })
    }

    unsafe fn fetch(
        &self,
        at: RemoteAddress,
        width: Width,
        fetch: Fetch,
        old: *mut u64,
    ) -> Result<Ticket> {
        // SAFETY: the caller's promise.
        self.post(Which::Atomics, false, |atomics| unsafe {
            atomics.fetch(at, width, fetch, old)
        })
    }

    unsafe fn update_each(
        &self,
        at: RemoteAddress,
        width: Width,
        update: Update,
        values: *const u8,
        count: usize,
    ) -> Result<Ticket> {
        // The agent does not know regions of no bytes.
        if count == 0 {
            return Ok(Ticket::DONE);
        }
        // SAFETY: the caller's promise.
        self.post(Which::Atomics, false, |atomics| unsafe {
            atomics.update_each(at, width, update, values, count)
        })
    }

    unsafe fn update_batch(
        &self,
        width: Width,
        update: Update,
        batch: &TransferBatch<'_>,
    ) -> std::result::Result<Ticket, BatchError> {
        if batch.pieces.iter().all(|piece| piece.len == 0) {
            return Ok(Ticket::DONE);
        }
        // SAFETY: the caller's promise.
        self.post_batch(Which::Atomics, false, |atomics| unsafe {
            atomics.update_batch(width, update, batch)
        })
    }

    unsafe fn combine(
        &self,
        what: Combination,
        lock: RemoteAddress,
        at: RemoteAddress,
        elements: CombinedElements,
    ) -> Result<(usize, Ticket)> {
        let _posting = self.turn_to(Which::Atomics)?;
        // SAFETY: the caller's promise.
        let (done, ticket) = unsafe { self.atomics.combine(what, lock, at, elements)? };
        let ticket = match done {
            0 => ticket,
            _ => self.order().has_posted(ticket, false),
        };
        Ok((done, ticket))
    }

    fn store(&self, at: RemoteAddress, old: u64, new: u64) -> Result<Ticket> {
        self.post(Which::Atomics, false, |atomics| atomics.store(at, old, new))
    }

    fn released(&self, ticket: Ticket) -> Result<bool> {
        let (which, of_device) = {
            let order = self.order();
            if order.is_complete(ticket) {
                return Ok(true);
            }
            (order.which(), order.of_device(ticket))
        };
        // By now the other device may be the present one. Then this operation is complete, and the device asked here says so.
        self.device(which).released(of_device)
    }

    fn completed(&self, ticket: Ticket) -> Result<bool> {
        let mut order = self.order();
        if order.is_complete(ticket) {
            return Ok(true);
        }
        let is_complete = match order.which() {
            Which::Data => self.data_completed(&mut order, ticket)?,
            Which::Atomics => self.atomics.completed(order.of_device(ticket))?,
        };
        if is_complete {
            order.becomes_complete(ticket);
        }
        Ok(is_complete)
    }

    /// Checks the device that has operations under way, and the other one only when none are: after an error, no
    /// operation may use memory any more.
    fn intact(&self) -> Result<()> {
        let (other, last) = {
            // Locked, so that the present device stays the same.
            let order = self.order();
            self.device(order.which()).intact()?;
            (order.which().other(), order.last())
        };
        match self.posting.try_lock() {
            Ok(_posting) if self.completed(last)? => self.device(other).intact(),
            _ => Ok(()),
        }
    }

    fn host(&self) -> Option<Arc<str>> {
        self.atomics.host()
    }

    fn via(&self, atomics: bool) -> Via {
        match atomics {
            true => self.atomics.via(true),
            false => self.data.via(false),
        }
    }

    fn map(&self, region: &RemoteRegion) -> Result<Option<Mapping>> {
        self.data.map(region)
    }

    fn liveness(&self) -> Result<()> {
        of_both(self.atomics.liveness(), self.data.liveness())
    }

    fn known_liveness(&self) -> Result<()> {
        of_both(self.atomics.known_liveness(), self.data.known_liveness())
    }
}

/// A process that closes its device tells peers over both. It may be gone before the second one has learned of it.
fn of_both(atomics: Result<()>, data: Result<()>) -> Result<()> {
    match data {
        Err(closed @ Error::PeerClosed { .. }) => Err(closed),
        data => atomics.and(data),
    }
}
