//! An open port as a device: its memory, and its connections by peer.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::adapter::Adapter;
use super::connect::{Address, Connector, Numbers, Queues};
use super::endpoint::{self, VerbsEndpoint};
use super::limits::atomic_scope;
use super::objects::{CompletionQueue, Establish, MemoryRegion, QueuePair};
use super::peer::Peer;
use super::settings::Settings;
use super::terms::Terms;
use super::{events, self_test};
use crate::channel::Status;
use crate::provider::JobSecret;
use crate::rdma::{self, Choice};
use crate::{
    Access, AtomicDomain, Capabilities, Device, Endpoint, Error, LocalRegion, OriginRegion, Result,
    Usage,
};

pub(crate) struct VerbsDevice {
    name: String,
    capabilities: Capabilities,
    has_atomics: bool,
    adapter: Arc<Adapter>,
    endpoints: Endpoints,
    // Its drop joins its thread, and must come before that of the queue pairs.
    connector: Connector,
}

/// The connections of this process, by the instance of the peer's device.
#[derive(Clone, Default)]
struct Endpoints(Arc<Mutex<HashMap<u64, Arc<VerbsEndpoint>>>>);

impl Endpoints {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<VerbsEndpoint>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, peer: u64) -> Option<Arc<VerbsEndpoint>> {
        self.lock().get(&peer).cloned()
    }
}

impl VerbsDevice {
    /// Opens a device's port. `data_only`: the device's atomics are not used.
    pub(crate) fn open(choice: Choice, secret: JobSecret, data_only: bool) -> Result<Self> {
        let settings = Settings::from_env()?;
        let mut adapter = Adapter::open(&choice, settings)?;
        adapter.inline = endpoint::carried(&adapter)?;
        let scope = atomic_scope(&adapter.context).filter(|_| !data_only);
        let domain = scope.unwrap_or(AtomicDomain::Device);
        let capabilities = rdma::capabilities(domain, adapter.port.max_message.into());
        let adapter = Arc::new(adapter);
        let endpoints = Endpoints::default();
        let queues = PeerQueues {
            adapter: adapter.clone(),
            endpoints: endpoints.clone(),
        };
        let events = events::watch(&adapter.trouble, &adapter.context, adapter.port.number);
        let port = (adapter.own.address(), adapter.own.transport);
        let timeout = settings.connect_timeout;
        let connector =
            Connector::start(secret, port, &choice.device, queues, timeout, Some(events))?;
        let mut device = Self {
            name: choice.device,
            capabilities,
            has_atomics: scope.is_some(),
            adapter,
            endpoints,
            connector,
        };
        let to_self = device.connect_to(device.own())?;
        if !device.has_atomics {
            return Ok(device);
        }
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

    /// Whether the device's atomics are used. Otherwise it is for writes and reads only.
    pub(crate) fn has_atomics(&self) -> bool {
        self.has_atomics
    }

    fn own(&self) -> &Address {
        self.connector.address()
    }

    fn connect_to(&self, peer: &Address) -> Result<Arc<VerbsEndpoint>> {
        self.connector.connect(peer)?;
        self.endpoints
            .get(peer.record.instance)
            .ok_or(Error::BadAddress {
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
        // Without the lock, which connecting threads need: an endpoint may be busy.
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
        self.own().encode()
    }

    fn connect(&self, address: &[u8]) -> Result<Arc<dyn Endpoint>> {
        Ok(self.connect_to(&Address::decode(address)?)?)
    }

    fn allocate(&self, len: usize, align: usize) -> Result<LocalRegion> {
        self.adapter.regions.allocate(len, align)
    }

    unsafe fn register(&self, base: *mut u8, len: usize, access: Access) -> Result<LocalRegion> {
        // SAFETY: the caller's promise.
        unsafe { self.adapter.regions.expose(base, len, access) }
    }

    unsafe fn register_origin(
        &self,
        base: *mut u8,
        len: usize,
        written: bool,
    ) -> Result<OriginRegion> {
        // SAFETY: the caller's promise.
        unsafe { self.adapter.regions.keep(base, len, written) }
    }

    fn close(&self) {
        let limit = self.adapter.settings.silence();
        let endpoints = self.endpoints.lock().clone();
        // All endpoints are asked before the wait for one, so that many dead peers do not prolong it.
        for endpoint in endpoints.values() {
            endpoint.is_drained();
        }
        let end = Instant::now() + limit + Duration::from_secs(1);
        for endpoint in endpoints.values() {
            if !endpoint.drain(end) {
                tracing::warn!("operations are still under way while the device is closed");
            }
        }
        self.connector.close();
    }
}

/// Makes the queue pairs, for requests from either side.
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
            trailing: (self.adapter.is_one_of_several).then(|| self.adapter.nowhere.remote()),
        }
    }
}

impl Queues for PeerQueues {
    fn create(&self, peer: &Address, status: &Arc<Status>) -> Result<Numbers> {
        let record = &peer.record;
        let who = Peer {
            pid: record.pid,
            host: record.host.as_str().into(),
            port: peer.place_from(&self.adapter.own).into(),
        };
        let endpoint = Arc::new(VerbsEndpoint::new(&self.adapter, who, status.clone())?);
        let numbers = self.numbers(&endpoint);
        self.endpoints.lock().insert(record.instance, endpoint);
        Ok(numbers)
    }

    fn bring_up(&self, peer: &Address, theirs: &Numbers) -> Result<()> {
        let Some(endpoint) = self.endpoints.get(peer.record.instance) else {
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
        endpoint.establish(&with, terms.longest, theirs.trailing)
    }
}
