//! A neighbour: its memory is mapped, and the device is connected to it once something needs that.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::device::batch::{BatchError, StridedBlocks, TransferBatch};
use crate::device::combine::{Combination, CombinedElements};
use crate::soft::SoftEndpoint;
use crate::{
    Device, Direction, Endpoint, Fetch, Mapping, RemoteAddress, RemoteRegion, Result, Ticket,
    Update, Via, Width,
};

pub(super) struct MappingEndpoint {
    neighbour: SoftEndpoint,
    device: Arc<dyn Device>,
    /// The peer's address on the device.
    address: Vec<u8>,
    connected: OnceLock<Arc<dyn Endpoint>>,
    /// Locked while the device connects: there is one connection to a peer.
    connecting: Mutex<()>,
}

impl MappingEndpoint {
    pub(super) fn new(neighbour: SoftEndpoint, device: &Arc<dyn Device>, address: Vec<u8>) -> Self {
        Self {
            neighbour,
            device: device.clone(),
            address,
            connected: OnceLock::new(),
            connecting: Mutex::new(()),
        }
    }

    #[inline]
    fn by_device(&self) -> Result<&dyn Endpoint> {
        match self.connected.get() {
            Some(endpoint) => Ok(&**endpoint),
            None => self.connect(),
        }
    }

    #[cold]
    fn connect(&self) -> Result<&dyn Endpoint> {
        let _alone = self
            .connecting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(endpoint) = self.connected.get() {
            return Ok(&**endpoint);
        }
        let endpoint = self.device.connect(&self.address)?;
        Ok(&**self.connected.get_or_init(|| endpoint))
    }

    fn for_data(&self, mapping: Mapping) -> Mapping {
        let [own, peer] = self.neighbour.peer.pids();
        match own == peer {
            true => mapping.for_data(),
            false => self.device.accompany(mapping.for_data()),
        }
    }
}

impl Endpoint for MappingEndpoint {
    fn map(&self, region: &RemoteRegion) -> Result<Option<Mapping>> {
        // The device accesses memory that cannot be mapped, and reports what is wrong with it.
        let mapped = self.neighbour.map_by_place(region).unwrap_or_else(|error| {
            tracing::warn!(%error, "memory of a rank of this host is reached by the device");
            None
        });
        Ok(mapped.map(|mapping| self.for_data(mapping)))
    }

    fn map_or_fail(&self, region: &RemoteRegion) -> Result<Option<Mapping>> {
        let reason = "no such memory of that process can be mapped";
        let gone = || {
            self.neighbour
                .peer
                .refusal("mapping", region.at(0), region.len, reason)
        };
        let mapped = self.neighbour.map_by_place(region)?;
        Ok(Some(self.for_data(mapped.ok_or_else(gone)?)))
    }

    unsafe fn transfer(
        &self,
        direction: Direction,
        local: *mut u8,
        len: usize,
        at: RemoteAddress,
    ) -> Result<Ticket> {
        // SAFETY: the caller's promise.
        unsafe { self.by_device()?.transfer(direction, local, len, at) }
    }

    unsafe fn transfer_batch(
        &self,
        direction: Direction,
        batch: &TransferBatch<'_>,
    ) -> std::result::Result<Ticket, BatchError> {
        // SAFETY: the caller's promise.
        unsafe { self.by_device()?.transfer_batch(direction, batch) }
    }

    unsafe fn transfer_blocks(
        &self,
        direction: Direction,
        blocks: StridedBlocks,
    ) -> std::result::Result<Ticket, BatchError> {
        // SAFETY: the caller's promise.
        unsafe { self.by_device()?.transfer_blocks(direction, blocks) }
    }

    unsafe fn fetch(
        &self,
        at: RemoteAddress,
        width: Width,
        fetch: Fetch,
        old: *mut u64,
    ) -> Result<Ticket> {
        // SAFETY: the caller's promise.
        unsafe { self.by_device()?.fetch(at, width, fetch, old) }
    }

    unsafe fn update_each(
        &self,
        at: RemoteAddress,
        width: Width,
        update: Update,
        values: *const u8,
        count: usize,
    ) -> Result<Ticket> {
        // SAFETY: the caller's promise.
        unsafe {
            self.by_device()?
                .update_each(at, width, update, values, count)
        }
    }

    unsafe fn update_batch(
        &self,
        width: Width,
        update: Update,
        batch: &TransferBatch<'_>,
    ) -> std::result::Result<Ticket, BatchError> {
        // SAFETY: the caller's promise.
        unsafe { self.by_device()?.update_batch(width, update, batch) }
    }

    unsafe fn combine(
        &self,
        what: Combination,
        lock: RemoteAddress,
        at: RemoteAddress,
        elements: CombinedElements,
    ) -> Result<(usize, Ticket)> {
        // SAFETY: the caller's promise.
        unsafe { self.by_device()?.combine(what, lock, at, elements) }
    }

    fn store(&self, at: RemoteAddress, old: u64, new: u64) -> Result<Ticket> {
        self.by_device()?.store(at, old, new)
    }

    // Without a connection, nothing was posted.

    fn released(&self, ticket: Ticket) -> Result<bool> {
        let connected = self.connected.get();
        connected.map_or(Ok(true), |endpoint| endpoint.released(ticket))
    }

    fn completed(&self, ticket: Ticket) -> Result<bool> {
        let connected = self.connected.get();
        connected.map_or(Ok(true), |endpoint| endpoint.completed(ticket))
    }

    fn intact(&self) -> Result<()> {
        let connected = self.connected.get();
        connected.map_or(Ok(()), |endpoint| endpoint.intact())
    }

    fn host(&self) -> Option<Arc<str>> {
        self.connected.get()?.host()
    }

    fn is_connected(&self) -> bool {
        self.connected.get().is_some()
    }

    fn via(&self, atomics: bool) -> Via {
        let connected = self.connected.get();
        connected.map_or(Via::Device, |endpoint| endpoint.via(atomics))
    }

    fn liveness(&self) -> Result<()> {
        if let Some(endpoint) = self.connected.get() {
            endpoint.liveness()?;
        }
        self.neighbour.liveness()
    }

    fn known_liveness(&self) -> Result<()> {
        if let Some(endpoint) = self.connected.get() {
            endpoint.known_liveness()?;
        }
        self.neighbour.known_liveness()
    }
}
