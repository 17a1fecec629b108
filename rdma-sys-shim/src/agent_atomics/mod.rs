//! Atomics by an agent, for devices that have none. This device combines a device that writes and reads with tcp. Over
//! tcp, a thread of the target, the agent, carries out atomics and stores.
//!
//! Both devices register the same memory, under the keys of the first. The agent uses processor instructions, so these
//! atomics have the properties of tcp's. [`order`] defines how the operations of both form one endpoint.
//!
//! When a read is complete, all data that was written before it over the same connection must be in the target's
//! memory, where its processor sees it. Queue pairs guarantee this.
//!
//! So a write counts as complete only when a *trailing read* after it is complete: eight bytes that the target reserves
//! for this purpose. A responder carries out requests in order, and does not answer a read before it has carried out
//! the earlier writes. On PCIe, the adapter's read request does not pass its earlier writes, and its answer comes from
//! memory that the processors see. Both hold for all memory of that host, so one place to read is enough. They do not
//! hold for regions with relaxed ordering, which this device does not request.
//!
//! If an operation fails while a call waits for the other connection, the call returns that failure and posts nothing.
//! Each connection keeps its first failure. A process waits until everything is complete before it says over either
//! connection that it leaves, so a peer that learns this from one knows that nothing is under way on the other.

mod address;
mod endpoint;
mod order;
mod setting;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use address::AgentAtomicsAddress;
use endpoint::AgentAtomicsEndpoint;
pub(crate) use setting::AtomicsSetting;

use crate::device::combine::Combiner;
use crate::provider::JobSecret;
use crate::tcp::{self, TcpDevice};
use crate::{
    Access, Capabilities, Device, Endpoint, LocalRegion, Mapping, OriginRegion, Result, Usage,
};

/// How long `close` waits for posted operations: longer than tcp takes to find that a host is gone.
const DRAIN: Duration = Duration::from_secs(10);

pub(crate) struct WithAgentAtomics {
    data: Arc<dyn Device>,
    atomics: TcpDevice,
    capabilities: Capabilities,
    /// The memory that peers' trailing reads read.
    trailing: LocalRegion,
    endpoints: Mutex<Vec<Weak<AgentAtomicsEndpoint>>>,
}

/// The capabilities of a device with these capabilities together with tcp.
pub(crate) fn capabilities(data: &Capabilities) -> Capabilities {
    Capabilities {
        atomic_domain: tcp::CAPABILITIES.atomic_domain,
        narrow_atomics: tcp::CAPABILITIES.narrow_atomics,
        target_thread: tcp::CAPABILITIES.target_thread,
        ..data.clone()
    }
}

impl WithAgentAtomics {
    pub(crate) fn new(data: Arc<dyn Device>, secret: JobSecret) -> Result<Self> {
        Ok(Self {
            atomics: TcpDevice::beside_another(secret)?,
            capabilities: capabilities(data.capabilities()),
            trailing: data.allocate(size_of::<u64>(), align_of::<u64>())?,
            data,
            endpoints: Mutex::default(),
        })
    }

    fn endpoints(&self) -> MutexGuard<'_, Vec<Weak<AgentAtomicsEndpoint>>> {
        self.endpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers memory of the other device also with the agent.
    ///
    /// # Safety
    /// As for [`Device::register`]; `registered` keeps the memory if the device allocated it.
    unsafe fn show(&self, registered: LocalRegion, access: Access) -> Result<LocalRegion> {
        let (base, len, remote) = (registered.base(), registered.len(), registered.remote());
        // Empty memory has no words, and its key may not be unique.
        if len == 0 {
            return Ok(registered);
        }
        // SAFETY: the caller's promise.
        let shown = unsafe { self.atomics.register_as(base, len, access, remote.rkey)? };
        // The key must be the agent's no longer than the device's: the first of the pair is dropped first.
        Ok(LocalRegion::new(base, remote, (shown, registered)))
    }
}

impl Device for WithAgentAtomics {
    fn name(&self) -> &str {
        self.data.name()
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn usage(&self) -> Option<Usage> {
        let requests = self.atomics.usage().map_or(0, |usage| usage.requests);
        self.data.usage().map(|usage| Usage {
            requests: usage.requests + requests,
            ..usage
        })
    }

    fn addresses(&self) -> Option<String> {
        self.atomics.addresses()
    }

    fn address(&self) -> Vec<u8> {
        AgentAtomicsAddress {
            trailing: self.trailing.remote().at(0),
            data: self.data.address(),
            atomics: self.atomics.address(),
        }
        .encode()
    }

    fn connect(&self, address: &[u8]) -> Result<Arc<dyn Endpoint>> {
        let address = AgentAtomicsAddress::decode(address)?;
        let data = self.data.connect(&address.data)?;
        let atomics = self.atomics.connect(&address.atomics)?;
        let endpoint = Arc::new(AgentAtomicsEndpoint::new(data, atomics, address.trailing));
        let mut endpoints = self.endpoints();
        endpoints.retain(|endpoint| endpoint.strong_count() > 0);
        endpoints.push(Arc::downgrade(&endpoint));
        Ok(endpoint)
    }

    fn allocate(&self, len: usize, align: usize) -> Result<LocalRegion> {
        let allocated = self.data.allocate(len, align)?;
        // SAFETY: the memory is the region's, and nobody has a reference to it.
        unsafe { self.show(allocated, Access::ALL) }
    }

    unsafe fn register(&self, base: *mut u8, len: usize, access: Access) -> Result<LocalRegion> {
        // SAFETY: the caller's promise.
        unsafe {
            let registered = self.data.register(base, len, access)?;
            self.show(registered, access)
        }
    }

    unsafe fn register_origin(
        &self,
        base: *mut u8,
        len: usize,
        written: bool,
    ) -> Result<OriginRegion> {
        // SAFETY: the caller's promise.
        unsafe { self.data.register_origin(base, len, written) }
    }

    fn accompany(&self, mapping: Mapping) -> Mapping {
        self.data.accompany(mapping)
    }

    fn cancel_when(&self, is_aborted: Arc<dyn Fn() -> bool + Send + Sync>) {
        self.data.cancel_when(is_aborted.clone());
        self.atomics.cancel_when(is_aborted);
    }

    fn combine_by(&self, combiner: Arc<dyn Combiner>) {
        self.atomics.combine_by(combiner);
    }

    /// If either device tells peers that this process leaves, they assume that nothing is under way over the other one.
    fn close(&self) {
        let endpoints: Vec<_> = self.endpoints().iter().filter_map(Weak::upgrade).collect();
        // All endpoints are asked before the wait for one, so that many dead peers do not prolong it.
        for endpoint in &endpoints {
            endpoint.is_drained();
        }
        let end = Instant::now() + DRAIN;
        for endpoint in &endpoints {
            if !endpoint.drain(end) {
                tracing::warn!("operations are still under way while the device is closed");
            }
        }
        self.data.close();
        self.atomics.close();
    }
}
