//! Processes of one host that use a device across hosts also map each other's memory.
//!
//! Memory that the device allocates is a memory file of the soft provider's, registered with the device. A
//! neighbour maps it for loads and stores; every other access, and every atomic, goes through the device. So all
//! atomics are the device's, unless these are atomic with respect to the processor's. Each process decides for
//! itself what it maps: both paths lead to the same bytes.
//!
//! The device connects to a neighbour only when something is first posted to it. The layers above keep the two paths in
//! order:
//! - A full fence precedes each operation that is posted to a word, so it takes effect after this thread's earlier
//!   stores.
//! - A completed wait, a lock that was taken and a counter that was read are followed by an acquire fence.
//! - A get goes through the device while something of this rank is posted to its target.
//! - Before a rank stores a flag in mapped memory, everything that it has posted to that rank through the device is
//!   complete (`complete_before_flag`).

mod address;
mod endpoint;
mod setting;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use address::NeighbourAddress;
use endpoint::MappingEndpoint;
pub(crate) use setting::Setting;

use crate::device::combine::Combiner;
use crate::soft::{SoftDevice, SoftEndpoint};
use crate::{
    Access, Capabilities, Device, Endpoint, LocalRegion, Nearest, OriginRegion, Result, Usage,
};

/// A device, and memory that neighbours map.
pub(crate) struct WithNeighbours {
    device: Arc<dyn Device>,
    /// `None` if neighbours are not to be mapped, or the system prevents it.
    memory: Option<SoftDevice>,
    setting: Setting,
    /// How many peers are neighbours.
    found: AtomicU32,
}

impl WithNeighbours {
    /// `launcher`: the process from which all ranks of this job on this host descend, if known.
    pub(crate) fn new(device: Arc<dyn Device>, setting: Setting, launcher: Option<u32>) -> Self {
        let memory = match setting {
            Setting::Off => None,
            _ => SoftDevice::for_neighbours(launcher)
                .inspect_err(|error| {
                    tracing::warn!(%error, "ranks of this host reach each other by the device");
                })
                .ok(),
        };
        Self {
            device,
            memory,
            setting,
            found: AtomicU32::new(0),
        }
    }

    /// The process that published `address`, if its memory is to be mapped. A process of this host that is gone is an
    /// error: the device would wait for it in vain.
    fn neighbour(&self, address: &NeighbourAddress) -> Result<Option<SoftEndpoint>> {
        let Some(own) = self.memory.as_ref().filter(|_| !address.memory.is_empty()) else {
            return Ok(None);
        };
        match own.neighbour(&address.memory) {
            Ok(found) => Ok(found.filter(|found| self.setting.takes(found.peer.pids()))),
            Err(error) if error.absence().is_some() => Err(error),
            Err(error) => {
                tracing::warn!(%error, "a rank of this host is reached by the device");
                Ok(None)
            }
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
        let neighbours = self.found.load(Ordering::Relaxed);
        self.device.usage().map(|usage| Usage {
            neighbours,
            ..usage
        })
    }

    fn addresses(&self) -> Option<String> {
        self.device.addresses()
    }

    fn nearest(&self) -> Nearest {
        match self.setting {
            Setting::Off => Nearest::None,
            Setting::On => Nearest::OfHost,
            Setting::Some => Nearest::Any,
        }
    }

    fn address(&self) -> Vec<u8> {
        let memory = self.memory.as_ref();
        NeighbourAddress {
            setting: self.setting,
            memory: memory.map_or_else(Vec::new, |memory| memory.address()),
            device: self.device.address(),
        }
        .encode()
    }

    fn connect(&self, address: &[u8]) -> Result<Arc<dyn Endpoint>> {
        let address = NeighbourAddress::decode(address)?;
        address.must_agree_with(self.setting)?;
        let Some(neighbour) = self.neighbour(&address)? else {
            return self.device.connect(&address.device);
        };
        self.found.fetch_add(1, Ordering::Relaxed);
        let endpoint = MappingEndpoint::new(neighbour, &self.device, address.device);
        Ok(Arc::new(endpoint))
    }

    fn allocate(&self, len: usize, align: usize) -> Result<LocalRegion> {
        let Some(memory) = &self.memory else {
            return self.device.allocate(len, align);
        };
        let allocated = memory.allocate(len, align)?;
        let base = allocated.base();
        // SAFETY: the memory goes into the region, and is freed after it is deregistered; nobody has a reference to it.
        let registered = unsafe { self.device.register(base, len, Access::ALL)? };
        let remote = registered.remote();
        Ok(LocalRegion::new(base, remote, (registered, allocated)))
    }

    unsafe fn register(&self, base: *mut u8, len: usize, access: Access) -> Result<LocalRegion> {
        // SAFETY: the caller's promise.
        unsafe { self.device.register(base, len, access) }
    }

    unsafe fn register_origin(
        &self,
        base: *mut u8,
        len: usize,
        written: bool,
    ) -> Result<OriginRegion> {
        // SAFETY: the caller's promise.
        unsafe { self.device.register_origin(base, len, written) }
    }

    fn cancel_when(&self, is_aborted: Arc<dyn Fn() -> bool + Send + Sync>) {
        self.device.cancel_when(is_aborted);
    }

    fn combine_by(&self, combiner: Arc<dyn Combiner>) {
        self.device.combine_by(combiner);
    }

    fn close(&self) {
        self.device.close();
        // The device has delivered all stores.
        if let Some(memory) = &self.memory {
            memory.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Absence, DeviceInfo, Direction, Error, Provider, Registry, RemoteRegion, Surroundings,
        testkit,
    };

    fn over_soft(setting: Setting) -> WithNeighbours {
        let device = Registry::new(&[]).open("soft:map=off", &Surroundings::default());
        WithNeighbours::new(device.unwrap(), setting, None)
    }

    struct OverSoft;

    impl Provider for OverSoft {
        fn name(&self) -> &'static str {
            "over-soft"
        }

        fn list(&self) -> Vec<DeviceInfo> {
            Vec::new()
        }

        fn open(&self, _: &str, _: &Surroundings) -> Result<Arc<dyn Device>> {
            Ok(Arc::new(over_soft(Setting::On)))
        }
    }

    #[test]
    fn the_contract_of_every_device_is_kept() {
        for (name, run) in testkit::over(Registry::new(&[&OverSoft]), vec!["over-soft"]) {
            eprintln!("{name}");
            run();
        }
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
            let (mut from, mut seen) = (7_u64, 0_u64);
            // SAFETY: locals, and eight bytes of memory that is this test's alone.
            unsafe {
                let from = (&raw mut from).cast();
                let at = |offset| region.remote().at(offset);
                (endpoint.transfer(Direction::Write, from, 8, at(64))).unwrap();
                assert_eq!(mapping.base().add(64).cast::<u64>().read(), 7);
                mapping.base().add(72).cast::<u64>().write(8);
                (endpoint.transfer(Direction::Read, (&raw mut seen).cast(), 8, at(72))).unwrap();
            }
            assert_eq!(seen, 8);
            let gone = region.remote();
            drop(mapping);
            drop(region);
            assert!(endpoint.map(&gone).unwrap().is_none());
        }
    }

    #[test]
    fn who_has_closed_is_known_without_a_connection() {
        let (ours, theirs) = (over_soft(Setting::On), over_soft(Setting::On));
        let endpoint = ours.connect(&theirs.address()).unwrap();
        endpoint.liveness().unwrap();
        theirs.close();
        let pid = std::process::id();
        let closed = endpoint.liveness().unwrap_err().absence();
        assert_eq!(closed, Some((pid, Absence::Closed)));
    }

    #[test]
    fn a_part_of_it_that_is_registered_once_more_is_mapped_too() {
        let device = over_soft(Setting::On);
        let endpoint = device.connect(&device.address()).unwrap();
        let whole = device.allocate(4096, 64).unwrap();
        let part = whole.base().wrapping_add(100);
        // SAFETY: a part of memory that outlives it, and that is this test's alone.
        let region = unsafe { device.register(part, 1000, Access::ALL).unwrap() };
        let mapping = endpoint.map(&region.remote()).unwrap().unwrap();
        assert_eq!((mapping.base(), mapping.len()), (part, 1000));
        for (skip, len) in [(3000, 1000), (u64::MAX - 149, 100), (0, u64::MAX)] {
            let beyond = RemoteRegion {
                address: region.remote().address.wrapping_add(skip),
                len,
                ..region.remote()
            };
            assert!(endpoint.map(&beyond).unwrap().is_none(), "{skip} {len}");
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
