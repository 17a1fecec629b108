//! What all communicators and windows of a process share: the device, the peers, the control
//! region, and the signs of life.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rdma_sys_shim::{Device, Placement, Region};

use super::peer::{Card, refusal};
use super::pmi::Client;
use super::{Peer, ThreadLevel, fork, is_forked, start};
use crate::comm::world_block_bytes;
use crate::error::{Error, Misuse, PeerError, Result};
use crate::memory::control::{ControlBlock, ControlRegion, LINE};
use crate::wait::Patience;

/// Offset in every control region of the word that tells its rank to give up.
pub(super) const ABORT: u64 = 0;
/// Offset of the word in which its rank says that it left.
pub(super) const STATE: u64 = LINE;
/// Offset of the world communicator's block.
const WORLD: u64 = 2 * LINE;

pub(super) const STATE_LEFT: u64 = 1;

pub(crate) struct Context {
    rank: u32,
    size: u32,
    level: ThreadLevel,
    patience: Patience,
    device: Arc<dyn Device>,
    control: Arc<ControlRegion>,
    /// Words of this rank, written by its peers and itself.
    pub(super) signs: ControlBlock,
    /// Filled as ranks are first needed.
    peers: Box<[OnceLock<Peer>]>,
    /// Held while one is connected: two threads must not make two connections to it.
    connecting: Mutex<()>,
    /// At which rank to look next, where a wait depends on any of many.
    pub(super) turn: AtomicU32,
    /// Whether the others were told that the job ends.
    pub(super) told: AtomicBool,
    own_card: String,
    /// None without a launcher, and once it was told that this rank left.
    launcher: Mutex<Option<Client>>,
    allocations: Mutex<BTreeMap<usize, Region>>,
}

impl Context {
    /// `named`: the device that was asked for, if any.
    pub(super) fn join(
        level: ThreadLevel,
        client: Option<Client>,
        named: Result<Option<Arc<dyn Device>>>,
    ) -> Result<Arc<Self>> {
        fork::watch();
        let (rank, size) = client.as_ref().map_or((0, 1), |c| (c.rank(), c.size()));
        let nodes = match &client {
            Some(client) => client.process_mapping()?,
            None => None,
        };
        let ranks_here = nodes.map(|nodes| nodes.neighbours(rank, size).count());
        let ready = named.and_then(|named| prepare(named, client.as_ref(), ranks_here));
        if let Some(client) = &client {
            // Also where this rank cannot start: the others wait in the barrier, some launchers let
            // them wait for ever, and they want to know why.
            let card = match &ready {
                Ok((.., card)) => card.clone(),
                Err(error) => refusal(error),
            };
            let told = client.put(&card_key(rank), &card);
            let told = told.and_then(|()| client.barrier());
            if ready.is_ok() {
                told?;
            }
        }
        let (device, control, own_card) = ready?;
        Ok(Arc::new(Self {
            rank,
            size,
            level,
            patience: Patience::new(ranks_here.unwrap_or(size as usize)),
            device,
            signs: control.reserved(0, WORLD),
            control,
            peers: (0..size).map(|_| OnceLock::new()).collect(),
            connecting: Mutex::new(()),
            turn: AtomicU32::new(rank + 1),
            told: AtomicBool::new(false),
            own_card,
            launcher: Mutex::new(client),
            allocations: Mutex::default(),
        }))
    }

    #[inline]
    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    pub(crate) fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    pub(crate) fn control(&self) -> &Arc<ControlRegion> {
        &self.control
    }

    pub(crate) fn world_block(&self) -> ControlBlock {
        self.control.reserved(WORLD, world_block_bytes(self.size))
    }

    #[inline]
    pub(crate) fn patience(&self) -> Patience {
        self.patience
    }

    /// Whether calls of several threads may overlap.
    #[inline]
    pub(crate) fn concurrent(&self) -> bool {
        self.level == ThreadLevel::Multiple
    }

    /// Rank `rank` of the world, connected on first use.
    #[inline]
    pub(crate) fn peer(&self, rank: u32) -> Result<&Peer> {
        match self.known(rank) {
            Some(peer) => Ok(peer),
            None => self.connect(rank),
        }
    }

    /// Rank `rank` of the world, if it is connected.
    #[inline]
    pub(super) fn known(&self, rank: u32) -> Option<&Peer> {
        self.peers[rank as usize].get()
    }

    #[cold]
    fn connect(&self, rank: u32) -> Result<&Peer> {
        if is_forked() {
            return Err(Error::new("connect", Misuse::Forked));
        }
        let _alone = lock(&self.connecting);
        if let Some(peer) = self.known(rank) {
            return Ok(peer);
        }
        let found;
        let card = if rank == self.rank {
            &self.own_card
        } else {
            let launcher = lock(&self.launcher);
            let client = launcher
                .as_ref()
                .ok_or_else(|| Error::new("connect", PeerError::Left { rank: self.rank }))?;
            found = client.get(&card_key(rank))?;
            &found
        };
        let peer = Peer::connect(&*self.device, rank, card, self.patience)
            .map_err(|error| self.name_absent(rank, error))?;
        Ok(self.peers[rank as usize].get_or_init(|| peer))
    }

    pub(super) fn leave(&self) {
        // Whoever reads that this rank has left concludes that nothing of it is still under way.
        self.device.close();
        self.signs.word(STATE).store(STATE_LEFT, Ordering::Release);
        if let Some(client) = lock(&self.launcher).take()
            && let Err(error) = client.finalize()
        {
            tracing::warn!(%error, "the launcher did not take the farewell");
        }
    }

    pub(crate) fn tell_launcher_abort(&self, code: i32, message: &str) {
        if let Some(client) = &*lock(&self.launcher)
            && let Err(error) = client.abort(code, message)
        {
            tracing::warn!(%error, "the launcher did not take the abort");
        }
    }

    pub(super) fn alloc_mem(&self, size: usize, align: Result<usize>) -> Result<NonNull<u8>> {
        let region = align
            .and_then(|align| Ok(self.device.allocate(size, align)?))
            .map_err(|error| error.during("alloc_mem"))?;
        let base = NonNull::new(region.base()).unwrap_or(NonNull::dangling());
        lock(&self.allocations).insert(base.as_ptr().addr(), region);
        Ok(base)
    }

    pub(super) fn free_mem(&self, base: NonNull<u8>) -> Result<()> {
        let address = base.as_ptr().addr();
        match lock(&self.allocations).remove(&address) {
            Some(_region) => Ok(()),
            None => Err(Error::new("free_mem", Misuse::NotAllocated { address })),
        }
    }
}

/// The device, the control region, and the card that tells of both.
type Ready = (Arc<dyn Device>, Arc<ControlRegion>, String);

fn prepare(
    named: Option<Arc<dyn Device>>,
    client: Option<&Client>,
    ranks_here: Option<usize>,
) -> Result<Ready> {
    let device = match (named, client) {
        (Some(device), _) => device,
        (None, None) => start::choose_device(Placement::OneHost)?,
        (None, Some(client)) => start::choose_device(start::placement(client, ranks_here)?)?,
    };
    let size = client.map_or(1, Client::size);
    let control = ControlRegion::new(&*device, WORLD + world_block_bytes(size))?;
    let card = Card {
        device: device.name().to_owned(),
        address: device.address(),
        control: control.remote(),
    };
    Ok((device, control, card.encode()))
}

fn card_key(rank: u32) -> String {
    format!("transom-{rank}")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
