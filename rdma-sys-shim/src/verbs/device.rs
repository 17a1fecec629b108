//! An open port as a device: its memory, and its connections by peer.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::adapter::Adapter;
use super::connect::{Address, Connector, Numbers, PeerId, Queues, Timing};
use super::endpoint::VerbsEndpoint;
use super::limits::atomic_scope;
use super::objects::{CompletionQueue, Establish, MemoryRegion, QueuePair};
use super::peer::Peer;
use super::settings::Settings;
use super::terms::Terms;
use super::{events, self_test};
use crate::rdma::{self, Choice};
use crate::{Access, AtomicDomain, Capabilities, Device, Endpoint, Error, Region, Result, Usage};

pub(crate) struct VerbsDevice {
    name: String,
    capabilities: Capabilities,
    adapter: Arc<Adapter>,
    own: Arc<Address>,
    endpoints: Endpoints,
    // Dropped, and its thread joined, before the queue pairs go.
    connector: Connector,
}

/// The connections of this process. The connector's thread makes them, for requests from either
/// side.
#[derive(Clone, Default)]
struct Endpoints(Arc<Mutex<HashMap<PeerId, Arc<VerbsEndpoint>>>>);

impl Endpoints {
    fn lock(&self) -> MutexGuard<'_, HashMap<PeerId, Arc<VerbsEndpoint>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, peer: PeerId) -> Option<Arc<VerbsEndpoint>> {
        self.lock().get(&peer).cloned()
    }
}

impl VerbsDevice {
    /// Opens a device's port.
    pub(crate) fn open(choice: Choice) -> Result<Self> {
        let settings = Settings::from_env()?;
        let adapter = Adapter::open(&choice, settings)?;
        let Some(domain) = atomic_scope(&adapter.context) else {
            return Err(Error::NoAtomics {
                device: choice.device,
            });
        };
        let capabilities = rdma::capabilities(domain, adapter.port.max_message.into());
        let own = Address::fresh(adapter.own.address(), adapter.own.transport, &choice.device)?;
        let adapter = Arc::new(adapter);
        let endpoints = Endpoints::default();
        let queues = PeerQueues {
            adapter: adapter.clone(),
            endpoints: endpoints.clone(),
        };
        let events = events::watch(&adapter.trouble, &adapter.context, adapter.port.number);
        let timing = Timing::from_environment()?;
        let connector = Connector::start(&adapter, own, queues, timing, Some(events))?;
        let mut device = Self {
            name: choice.device,
            capabilities,
            own: connector.address().clone(),
            adapter,
            endpoints,
            connector,
        };
        let to_self = device.connect_to(&device.own)?;
        self_test::atomics(&device, &to_self)?;
        if domain == AtomicDomain::Global
            && !self_test::adds_beside_the_processor(&device, &to_self)?
        {
            tracing::warn!(
                device = device.name,
                "its atomics are not atomic to the processor's, though it says so"
            );
            device.capabilities.atomic_domain = AtomicDomain::Device;
        }
        Ok(device)
    }

    fn connect_to(&self, peer: &Arc<Address>) -> Result<Arc<VerbsEndpoint>> {
        self.connector.connect(peer)?;
        self.endpoints.get(peer.instance).ok_or(Error::BadAddress {
            device: "verbs",
            reason: "its connection was not kept",
        })
    }
}

impl Device for VerbsDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn usage(&self) -> Option<Usage> {
        // Not under the lock, which the connector needs: an endpoint may be busy.
        let endpoints = self.endpoints.lock().clone();
        Some(Usage {
            registered_bytes: MemoryRegion::registered_bytes(),
            queue_pairs: QueuePair::in_use(),
            completion_entries: CompletionQueue::entries_in_use(),
            connections: endpoints.len() as u32,
            neighbours: 0,
            requests: endpoints.values().map(|endpoint| endpoint.posted()).sum(),
        })
    }

    fn address(&self) -> Vec<u8> {
        self.own.encode()
    }

    fn connect(&self, address: &[u8]) -> Result<Arc<dyn Endpoint>> {
        let peer = Arc::new(Address::decode(address)?);
        Ok(self.connect_to(&peer)?)
    }

    fn allocate(&self, len: usize, align: usize) -> Result<Region> {
        self.adapter.regions.allocate(len, align)
    }

    unsafe fn register(&self, base: *mut u8, len: usize, access: Access) -> Result<Region> {
        // SAFETY: the caller's promise.
        unsafe { self.adapter.regions.expose(base, len, access) }
    }

    fn close(&self) {
        let limit = self.adapter.settings.silence();
        let endpoints = self.endpoints.lock().clone();
        // All are asked before one is waited for, so that many that are gone take no longer.
        for endpoint in endpoints.values() {
            endpoint.is_drained();
        }
        let end = Instant::now() + limit + Duration::from_secs(1);
        for (peer, endpoint) in endpoints {
            let settled = endpoint.drain(end);
            if endpoint.has_failed() {
                self.connector.abandon(peer);
            }
            if !settled {
                tracing::warn!("operations are still under way while the device is closed");
            }
        }
        self.connector.close(limit);
    }
}

/// Makes the queue pairs that the connector asks for.
struct PeerQueues {
    adapter: Arc<Adapter>,
    endpoints: Endpoints,
}

impl PeerQueues {
    fn numbers(&self, endpoint: &VerbsEndpoint) -> Numbers {
        let number = endpoint.number();
        Numbers {
            qpn: number,
            psn: endpoint.psn(),
            responder_resources: self.adapter.max_reads().1,
            mtu: self.adapter.port.mtu,
            max_message: self.adapter.port.max_message,
        }
    }
}

impl Queues for PeerQueues {
    fn create(&mut self, peer: &Arc<Address>) -> Result<Numbers> {
        let who = Peer {
            pid: peer.pid,
            host: peer.host.as_str().into(),
        };
        let endpoint = Arc::new(VerbsEndpoint::new(&self.adapter, who)?);
        let numbers = self.numbers(&endpoint);
        self.endpoints.lock().insert(peer.instance, endpoint);
        Ok(numbers)
    }

    fn bring_up(&mut self, peer: &Arc<Address>, theirs: &Numbers) -> Result<()> {
        let Some(endpoint) = self.endpoints.get(peer.instance) else {
            return Ok(());
        };
        let adapter = &self.adapter;
        let ours = self.numbers(&endpoint);
        let terms = Terms::between(&ours, adapter.max_reads().0, theirs);
        let with = Establish {
            route: peer.route_from(&adapter.own)?,
            number: theirs.qpn,
            their_psn: theirs.psn,
            our_psn: endpoint.psn(),
            mtu: terms.mtu,
            reads_out: terms.reads_out,
            reads_in: ours.responder_resources,
            timeout: adapter.settings.timeout,
            retries: adapter.settings.retries,
        };
        endpoint.establish(&with, terms.longest)
    }

    fn peer_closed(&mut self, peer: PeerId) {
        if let Some(endpoint) = self.endpoints.get(peer) {
            endpoint.close();
        }
    }
}
