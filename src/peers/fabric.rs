//! A device together with what its peers write into and where they are found.
//!
//! `split_shared` opens the soft device in addition to the job's, with a control region of its own. All words of that
//! communicator, its descendants and their windows go through soft: each word is reached by one fabric only. Liveness
//! checks and abort words stay with the job's device.

use std::sync::{Arc, Mutex};

use rdma_sys_shim::Device;
use transom_launch::pmi::PmiError;

use super::Peer;
use super::control_header::SLAB_LIST;
use super::peer::BootstrapRecord;
use crate::error::Result;
use crate::memory::control::ControlRegion;
use crate::memory::once_table::OnceTable;
use crate::wait::{Patience, lock};

/// A device with its peers. All words of a communicator or window are accessed through one fabric, so that atomics on
/// them are atomic to each other.
pub(crate) struct Fabric {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) control: Arc<ControlRegion>,
    /// This process's rank in the world.
    rank: u32,
    /// The bootstrap records of ranks of the world.
    records: OnceTable<String>,
    /// The connected ranks.
    peers: OnceTable<Peer>,
    /// Held while a rank is connected: two threads must not make two connections to it.
    connecting: Mutex<()>,
}

impl Fabric {
    /// For rank `rank` of a world of `ranks`. `reserved` bytes of the control region are left to the caller.
    pub(super) fn new(
        device: Arc<dyn Device>,
        reserved: u64,
        rank: u32,
        ranks: u32,
    ) -> Result<Self> {
        let control = ControlRegion::new(&device, reserved, SLAB_LIST)?;
        let record = BootstrapRecord {
            device: device.name().to_owned(),
            address: device.address(),
            control: control.remote(),
        };
        let fabric = Self {
            device,
            control,
            rank,
            records: OnceTable::new(ranks),
            peers: OnceTable::new(ranks),
            connecting: Mutex::new(()),
        };
        fabric.introduce(rank, record.encode());
        Ok(fabric)
    }

    /// The memory that its tables take without their contents, once all of it is touched.
    pub(crate) const fn bytes(ranks: u32) -> u64 {
        OnceTable::<String>::bytes(ranks) + OnceTable::<Peer>::bytes(ranks)
    }

    /// The record that a rank published, if it is known here.
    pub(super) fn record(&self, rank: u32) -> Option<&str> {
        Some(self.records.get(rank)?)
    }

    /// The record with which other ranks connect to this one.
    pub(crate) fn own_record(&self) -> &str {
        self.record(self.rank).unwrap_or_default()
    }

    /// Whether the device maps peers' memory, including words; then it also maps this rank's own.
    pub(crate) fn maps_memory(&self, patience: Patience) -> Result<bool> {
        let own = self.connect(self.rank, patience)?;
        let mapped = own.endpoint().map(&self.control.remote())?;
        Ok(mapped.is_some_and(|mapping| mapping.has_atomics()))
    }

    /// Stores the bootstrap record of a rank of the world, which does not change during the job.
    pub(crate) fn introduce(&self, rank: u32, record: String) {
        self.records.set(rank, record);
    }

    /// Rank `rank` of the world, if it is connected.
    #[inline]
    pub(super) fn known(&self, rank: u32) -> Option<&Peer> {
        self.peers.get(rank)
    }

    /// All ranks of the world that are connected.
    pub(super) fn all_known(&self) -> impl Iterator<Item = (u32, &Peer)> {
        self.peers.iter()
    }

    /// Connects to rank `rank` of the world, whose record must be known, unless it is connected.
    pub(super) fn connect(&self, rank: u32, patience: Patience) -> Result<&Peer> {
        let _alone = lock(&self.connecting);
        if let Some(peer) = self.known(rank) {
            return Ok(peer);
        }
        let record = self
            .record(rank)
            .ok_or(PmiError::BadBootstrapRecord { rank })?;
        let peer = Peer::connect(&*self.device, rank, record, patience)?;
        Ok(self.peers.set(rank, peer))
    }
}
