//! What all communicators and windows of a process share: the device, the peers, the control
//! region, and the signs of life.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rdma_sys_shim::{Device, Liveness, Region};

use super::peer::Card;
use super::pmi::Client;
use super::{Peer, ThreadLevel, fork, is_forked};
use crate::comm::world_block_bytes;
use crate::error::{AbortCause, Error, ErrorKind, Misuse, PeerError, Result};
use crate::memory::control::{ControlBlock, ControlRegion, LINE};
use crate::wait::Patience;

/// Offset in every control region of the word that tells its rank to give up.
pub(super) const ABORT: u64 = 0;
/// Offset of the word in which its rank says that it left.
pub(super) const STATE: u64 = LINE;
/// Offset of the world communicator's block.
const WORLD: u64 = 2 * LINE;

const STATE_LEFT: u64 = 1;

/// Whom a wait depends on.
#[derive(Clone, Copy)]
pub(crate) enum Awaited<'a> {
    /// A rank of the world.
    Rank(u32),
    /// Some of these ranks of the world, nobody knows which.
    AnyOf(&'a dyn Fn(u32) -> Option<u32>),
}

pub(crate) struct Context {
    rank: u32,
    size: u32,
    level: ThreadLevel,
    patience: Patience,
    device: Arc<dyn Device>,
    control: Arc<ControlRegion>,
    /// Words of this rank, written by its peers and itself.
    signs: ControlBlock,
    /// Filled as ranks are first needed.
    peers: Box<[OnceLock<Peer>]>,
    own_card: String,
    /// None without a launcher, and once it was told that this rank left.
    launcher: Mutex<Option<Client>>,
    allocations: Mutex<BTreeMap<usize, Region>>,
}

impl Context {
    pub(super) fn join(level: ThreadLevel) -> Result<Arc<Self>> {
        fork::watch();
        // The device first: a wrong name is found before the launcher counts this rank as joined.
        let spec = std::env::var("TRANSOM_DEVICE").unwrap_or_default();
        let device = rdma_sys_shim::open(&spec, launcher_process())
            .map_err(|error| Error::from(error).during("job start"))?;
        let client = Client::from_env()?;
        let (rank, size) = client.as_ref().map_or((0, 1), |c| (c.rank(), c.size()));
        let reserved = WORLD + world_block_bytes(size);
        let control = ControlRegion::new(&*device, reserved)?;
        let own_card = Card {
            address: device.address(),
            control: control.remote(),
        }
        .encode();
        let mut ranks_here = size as usize;
        if let Some(client) = &client {
            client.put(&card_key(rank), &own_card)?;
            client.barrier()?;
            if let Some(nodes) = client.process_mapping()? {
                ranks_here = nodes.neighbours(rank, size).count();
            }
        }
        Ok(Arc::new(Self {
            rank,
            size,
            level,
            patience: Patience::new(ranks_here),
            device,
            signs: control.reserved(0, WORLD),
            control,
            peers: (0..size).map(|_| OnceLock::new()).collect(),
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
        match self.peers[rank as usize].get() {
            Some(peer) => Ok(peer),
            None => self.connect(rank),
        }
    }

    #[cold]
    fn connect(&self, rank: u32) -> Result<&Peer> {
        if is_forked() {
            return Err(Error::new("connect", Misuse::Forked));
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

    /// Turns the device's "process is gone", or its refusal because the rank has withdrawn all its
    /// memory, into an error that names the rank.
    fn name_absent(&self, rank: u32, error: Error) -> Error {
        let cause = match error.gone_process() {
            Some(pid) => self.cause_of_absence(rank, pid),
            None if error.is_remote_access() && self.has_withdrawn(rank) => {
                PeerError::Left { rank }
            }
            None => return error,
        };
        Error::new(error.operation(), cause)
    }

    /// An operation that needs `rank` failed. If the job was aborted, that is why; if the rank is
    /// absent, names it and tells the others.
    #[cold]
    pub(crate) fn blame(&self, rank: u32, error: Error) -> Error {
        let error = self.name_absent(rank, error);
        if !matches!(error.kind(), ErrorKind::Misuse(_))
            && let Some(first) = self.aborted()
        {
            return Error::new(error.operation(), first);
        }
        let (culprit, cause) = match error.kind() {
            ErrorKind::Peer(PeerError::Died { rank, .. }) => (*rank, AbortCause::Died),
            ErrorKind::Peer(PeerError::Left { rank }) => (*rank, AbortCause::Left),
            _ => return error,
        };
        self.spread(culprit, cause);
        error
    }

    /// Whether the rank, once connected, said that it left or no longer shows its control region.
    fn has_withdrawn(&self, rank: u32) -> bool {
        let Some(peer) = self.peers[rank as usize].get() else {
            return false;
        };
        match peer.state.load() {
            Ok(state) => state == STATE_LEFT,
            Err(error) => error.is_remote_access(),
        }
    }

    fn cause_of_absence(&self, rank: u32, pid: u32) -> PeerError {
        let left = self.peers[rank as usize]
            .get()
            .is_some_and(|peer| peer.state.load().is_ok_and(|state| state == STATE_LEFT));
        if left {
            PeerError::Left { rank }
        } else {
            PeerError::Died { rank, pid }
        }
    }

    /// Whether a wait for `awaited` can still end: fails with an error that names `operation` and the
    /// rank at fault if the job was aborted or an awaited rank is gone.
    #[cold]
    pub(crate) fn check(&self, operation: &'static str, awaited: Awaited<'_>) -> Result<()> {
        if let Some(error) = self.aborted() {
            return Err(Error::new(operation, error));
        }
        let verdict = match awaited {
            Awaited::Rank(rank) => self.check_rank(rank),
            Awaited::AnyOf(ranks) => (0..)
                .map_while(ranks)
                .try_for_each(|rank| self.check_rank(rank)),
        };
        verdict.map_err(|error| {
            self.spread(error.rank(), error.cause());
            Error::new(operation, error)
        })
    }

    fn check_rank(&self, rank: u32) -> std::result::Result<(), PeerError> {
        if rank == self.rank {
            return Ok(());
        }
        if rank >= self.size {
            let what = "a lock held";
            return Err(PeerError::Garbled { rank, what });
        }
        let peer = match self.peer(rank) {
            Ok(peer) => peer,
            Err(error) => {
                return match error.kind() {
                    ErrorKind::Peer(cause) => Err(cause.clone()),
                    // It is judged by the operation that needs it.
                    _ => Ok(()),
                };
            }
        };
        match peer.endpoint().liveness() {
            Liveness::Alive => {}
            Liveness::Closed { .. } => return Err(PeerError::Left { rank }),
            Liveness::Gone { pid } => return Err(self.cause_of_absence(rank, pid)),
        }
        if self.has_withdrawn(rank) {
            return Err(PeerError::Left { rank });
        }
        Ok(())
    }

    fn aborted(&self) -> Option<PeerError> {
        let word = self.abort_word().load(Ordering::Relaxed);
        (word != 0).then(|| PeerError::Aborted {
            rank: ((word >> 8) as u32).wrapping_sub(1),
            cause: AbortCause::from_code(word as u8),
        })
    }

    fn abort_word(&self) -> &AtomicU64 {
        self.signs.word(ABORT)
    }

    /// Tells every rank that can be reached that this one gave up.
    pub(crate) fn abort_everywhere(&self, cause: AbortCause) {
        self.spread(self.rank, cause);
    }

    fn spread(&self, culprit: u32, cause: AbortCause) {
        let word = (u64::from(culprit) + 1) << 8 | cause as u64;
        let first = self
            .abort_word()
            .compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
        if !first {
            return;
        }
        for rank in (0..self.size).filter(|&rank| rank != self.rank && rank != culprit) {
            if let Ok(peer) = self.peer(rank) {
                // The first cause stays: a later one is mostly its consequence.
                let _ = peer.abort.compare_swap(0, word);
            }
        }
    }

    pub(super) fn leave(&self) {
        self.signs.word(STATE).store(STATE_LEFT, Ordering::Release);
        self.device.close();
        if let Some(client) = lock(&self.launcher).take()
            && let Err(error) = client.finalize()
        {
            tracing::warn!(%error, "the launcher did not take the farewell");
        }
    }

    pub(super) fn tell_launcher_abort(&self, code: i32, message: &str) {
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

fn card_key(rank: u32) -> String {
    format!("transom-{rank}")
}

/// Under Yama, peers may attach if they descend from this process.
fn launcher_process() -> Option<u32> {
    std::env::var("TRANSOM_LAUNCHER_PID")
        .ok()
        .and_then(|pid| pid.parse().ok())
        .or_else(|| Some(std::os::unix::process::parent_id()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
