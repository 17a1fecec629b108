//! Processes of one host that share a device across hosts reach each other's memory by mapping it, too.
//!
//! Memory that the device allocates is a memory file of the soft provider's, registered with the device. A
//! neighbour maps it for loads and stores; every other access, and every atomic, goes through the device, whose
//! atomics stay the only ones. Who can map what is each process's own matter: either way leads to the same bytes.

mod card;
mod setting;

use std::sync::{Arc, OnceLock};

use card::Card;
pub(crate) use setting::Setting;

use crate::device::batch::{Batch, BatchError};
use crate::fork::OfProcess;
use crate::soft::{Neighbour, NeighbourMemory};
use crate::{
    Access, Capabilities, Device, Endpoint, Liveness, Mapping, Region, RemoteAddress, RemoteRegion,
    Result, Ticket, Update, Usage, Width,
};

/// A device, with memory that neighbours map.
pub(crate) struct WithNeighbours {
    device: Arc<dyn Device>,
    /// None where neighbours are not to be mapped, or the system keeps them from it.
    memory: Option<Arc<NeighbourMemory>>,
    setting: Setting,
}

impl WithNeighbours {
    /// `launcher`: the process from which all ranks of this job on this host descend, if known.
    pub(crate) fn new(device: Arc<dyn Device>, setting: Setting, launcher: Option<u32>) -> Self {
        let memory = match setting {
            Setting::Off => None,
            _ => NeighbourMemory::open(launcher)
                .inspect_err(|error| {
                    tracing::warn!(%error, "ranks of this host reach each other by the device");
                })
                .ok(),
        };
        Self {
            device,
            memory: memory.map(Arc::new),
            setting,
        }
    }
}

impl Device for WithNeighbours {
    fn name(&self) -> &str {
        self.device.name()
    }

    fn capabilities(&self) -> &Capabilities {
        self.device.capabilities()
    }

    fn usage(&self) -> Option<Usage> {
        self.device.usage()
    }

    fn address(&self) -> Vec<u8> {
        let memory = self.memory.as_ref();
        Card {
            setting: self.setting,
            memory: memory.map_or_else(Vec::new, |memory| memory.address()),
            device: self.device.address(),
        }
        .encode()
    }

    fn connect(&self, address: &[u8]) -> Result<Arc<dyn Endpoint>> {
        let card = Card::decode(address)?;
        card.must_agree_with(self.setting)?;
        let endpoint = self.device.connect(&card.device)?;
        let Some(own) = self.memory.clone().filter(|_| !card.memory.is_empty()) else {
            return Ok(endpoint);
        };
        Ok(Arc::new(MappingEndpoint {
            endpoint,
            own,
            setting: self.setting,
            address: card.memory,
            neighbour: OnceLock::new(),
        }))
    }

    fn allocate(&self, len: usize, align: usize) -> Result<Region> {
        let Some(memory) = &self.memory else {
            return self.device.allocate(len, align);
        };
        let allocated = memory.allocate(len, align)?;
        let base = allocated.base();
        // SAFETY: the memory goes into the region, and is given back after it is deregistered; nobody has a
        // reference to it.
        let registered = unsafe { self.device.register(base, len, Access::ALL)? };
        Ok(Region {
            remote: registered.remote,
            base,
            _owner: OfProcess::new(Box::new((registered, allocated))),
        })
    }

    unsafe fn register(&self, base: *mut u8, len: usize, access: Access) -> Result<Region> {
        // SAFETY: the caller's promise.
        unsafe { self.device.register(base, len, access) }
    }

    fn close(&self) {
        self.device.close();
    }
}

/// A connection of the device, to a peer that may be a neighbour.
struct MappingEndpoint {
    endpoint: Arc<dyn Endpoint>,
    own: Arc<NeighbourMemory>,
    setting: Setting,
    /// Where the peer's memory is found, if it is one.
    address: Vec<u8>,
    /// Found out when it first matters.
    neighbour: OnceLock<Option<Neighbour>>,
}

impl MappingEndpoint {
    fn neighbour(&self) -> Option<&Neighbour> {
        let find = || {
            let found = self.own.neighbour(&self.address);
            let found = found.inspect_err(|error| {
                tracing::warn!(%error, "a rank of this host is reached by the device");
            });
            let found = found.ok().flatten()?;
            self.setting.takes(found.pids()).then_some(found)
        };
        self.neighbour.get_or_init(find).as_ref()
    }
}

impl Endpoint for MappingEndpoint {
    fn map(&self, region: &RemoteRegion) -> Result<Option<Mapping>> {
        let Some(neighbour) = self.neighbour() else {
            return Ok(None);
        };
        // What cannot be mapped is reached by the device, which says what is wrong with it.
        let mapped = neighbour.map(region).unwrap_or_else(|error| {
            tracing::warn!(%error, "memory of a rank of this host is reached by the device");
            None
        });
        Ok(mapped.map(Mapping::for_data))
    }

    unsafe fn write(&self, from: *const u8, len: usize, to: RemoteAddress) -> Result<Ticket> {
        // SAFETY: the caller's promise.
        unsafe { self.endpoint.write(from, len, to) }
    }

    unsafe fn read(&self, to: *mut u8, len: usize, from: RemoteAddress) -> Result<Ticket> {
        // SAFETY: the caller's promise.
        unsafe { self.endpoint.read(to, len, from) }
    }

    unsafe fn write_batch(&self, batch: &Batch<'_>) -> std::result::Result<Ticket, BatchError> {
        // SAFETY: the caller's promise.
        unsafe { self.endpoint.write_batch(batch) }
    }

    unsafe fn read_batch(&self, batch: &Batch<'_>) -> std::result::Result<Ticket, BatchError> {
        // SAFETY: the caller's promise.
        unsafe { self.endpoint.read_batch(batch) }
    }

    unsafe fn fetch_add(
        &self,
        at: RemoteAddress,
        width: Width,
        add: u64,
        old: *mut u64,
    ) -> Result<Ticket> {
        // SAFETY: the caller's promise.
        unsafe { self.endpoint.fetch_add(at, width, add, old) }
    }

    unsafe fn compare_swap(
        &self,
        at: RemoteAddress,
        width: Width,
        expect: u64,
        new: u64,
        old: *mut u64,
    ) -> Result<Ticket> {
        // SAFETY: the caller's promise.
        unsafe { self.endpoint.compare_swap(at, width, expect, new, old) }
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
        unsafe { self.endpoint.update_each(at, width, update, values, count) }
    }

    fn store(&self, at: RemoteAddress, old: u64, new: u64) -> Result<Ticket> {
        self.endpoint.store(at, old, new)
    }

    fn released(&self, ticket: Ticket) -> Result<bool> {
        self.endpoint.released(ticket)
    }

    fn completed(&self, ticket: Ticket) -> Result<bool> {
        self.endpoint.completed(ticket)
    }

    fn intact(&self) -> Result<()> {
        self.endpoint.intact()
    }

    fn has_atomics(&self, region: &RemoteRegion) -> bool {
        self.endpoint.has_atomics(region)
    }

    fn liveness(&self) -> Liveness {
        self.endpoint.liveness()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, Surroundings, open};

    fn over_soft(setting: Setting) -> WithNeighbours {
        let device = open("soft:map=off", &Surroundings::default()).unwrap();
        WithNeighbours::new(device, setting, None)
    }

    #[test]
    fn what_the_device_writes_is_seen_where_it_is_mapped_and_the_other_way() {
        let device = over_soft(Setting::On);
        let endpoint = device.connect(&device.address()).unwrap();
        // In the port's file, and in one of its own.
        for len in [4096, 1 << 20] {
            let region = device.allocate(len, 64).unwrap();
            let mapping = endpoint.map(&region.remote()).unwrap().unwrap();
            assert_eq!(mapping.len(), len as u64);
            assert!(!mapping.has_atomics(), "those are the device's");
            let (from, mut seen) = (7_u64, 0_u64);
            // SAFETY: locals, and eight bytes of memory that is this test's alone.
            unsafe {
                (endpoint.write((&raw const from).cast(), 8, region.remote().at(64))).unwrap();
                assert_eq!(mapping.base().add(64).cast::<u64>().read(), 7);
                mapping.base().add(72).cast::<u64>().write(8);
                (endpoint.read((&raw mut seen).cast(), 8, region.remote().at(72))).unwrap();
            }
            assert_eq!(seen, 8);
            let gone = region.remote();
            drop(mapping);
            drop(region);
            assert!(endpoint.map(&gone).unwrap().is_none());
        }
    }

    #[test]
    fn memory_of_the_callers_is_the_devices_to_reach() {
        let device = over_soft(Setting::On);
        let endpoint = device.connect(&device.address()).unwrap();
        let mut memory = vec![0_u64; 512];
        // SAFETY: the vector outlives the region, and is not used meanwhile.
        let region = unsafe { device.register(memory.as_mut_ptr().cast(), 4096, Access::ALL) };
        assert!(endpoint.map(&region.unwrap().remote()).unwrap().is_none());
    }

    #[test]
    fn who_is_to_map_nothing_maps_nothing_and_agrees_with_no_one_else() {
        let (off, on) = (over_soft(Setting::Off), over_soft(Setting::On));
        let endpoint = off.connect(&off.address()).unwrap();
        let region = off.allocate(4096, 64).unwrap();
        assert!(endpoint.map(&region.remote()).unwrap().is_none());
        for (one, other) in [(&off, &on), (&on, &off)] {
            let refused = one.connect(&other.address()).err().unwrap();
            assert!(matches!(refused, Error::Disagreement { .. }), "{refused}");
        }
    }
}
