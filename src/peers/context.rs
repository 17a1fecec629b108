//! What all communicators and windows of a process share: the device, the peers, the control
//! region, and the liveness words.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use rdma_sys_shim::{BootstrapSegment, Combiner, Device, LocalRegion};
use transom_launch::Bootstrap;

mod membership;
mod over;

pub(crate) use membership::Membership;
pub(crate) use over::check_rank;

use super::abort_words::AbortWords;
use super::control_header::{STATE, STATE_LEFT, WORLD};
use super::gather::bootstrap_error;
use super::{Fabric, Hosts, Peer, is_forked, not_forked, start};
use crate::error::{Error, Misuse, PeerError, Result};
use crate::memory::control::ControlBlock;
use crate::memory::word::SharedWord;
use crate::terms::{ThreadLevel, WorldRank};
use crate::wait::{Patience, lock};

pub(crate) struct Context {
    this_rank: ThisRank,
    /// The fabric that connects all ranks.
    pub(crate) fabric: Arc<Fabric>,
    /// If `fabric` does not map memory: the fabric between the ranks of this host, once it is needed.
    host: Mutex<Option<Arc<Fabric>>>,
    combiner: OnceLock<Arc<dyn Combiner>>,
    pub(crate) abort_words: Arc<AbortWords>,
    /// The rank to check next, if a wait depends on any of many. It begins again at 1 behind the last rank.
    pub(crate) next_looked_at: AtomicU32,
    /// The time when this rank last checked one for which it does not wait, in milliseconds.
    pub(crate) last_check: AtomicU32,
    /// The calls that wait for nobody until this rank looks at the clock, when it last looked at connected ranks, in
    /// milliseconds, and how many of them come before the next ones.
    pub(crate) calls_to_look: AtomicU8,
    pub(crate) looked_at: AtomicU32,
    pub(crate) next_connected: AtomicU32,
    /// Whether the others were told that the job ends.
    pub(crate) told: AtomicBool,
    /// `None` without a launcher, and after it was told that this rank left.
    launcher: Mutex<Option<Arc<dyn Bootstrap>>>,
    /// A hook that is called when the job ends.
    on_abort: Mutex<Option<Arc<AbortHook>>>,
    has_left: AtomicBool,
    allocations: Mutex<BTreeMap<usize, LocalRegion>>,
    /// `None` if the ranks cannot go on after a death.
    membership: Option<Membership>,
    /// The job of those who went on after a death.
    successor: OnceLock<Arc<Context>>,
    /// Whether this rank has tried to go on. It can do so once.
    has_gone_on: AtomicBool,
}

/// Its arguments are the exit code and the reason.
pub(crate) type AbortHook = dyn Fn(i32, &str) + Send + Sync;

/// This rank's number, and how it waits.
struct ThisRank {
    rank: u32,
    size: u32,
    /// The host of each rank, if that matters.
    hosts: Hosts,
    /// Bytes of the world communicator's block.
    world_block: u64,
    level: ThreadLevel,
    patience: Patience,
}

/// The bytes of every control region that the world communicator takes.
pub(super) type WorldBlock = fn(u32, &Hosts) -> u64;

impl Context {
    /// `segment`: the launcher's.
    fn new(
        this_rank: ThisRank,
        fabric: Fabric,
        segment: Option<BootstrapSegment>,
        membership: Option<Membership>,
    ) -> Self {
        let header = fabric.control.reserved(0, WORLD);
        let abort_words = Arc::new(AbortWords::new(header, segment));
        fabric.device.cancel_when(abort_words.watched());
        Self {
            abort_words,
            fabric: Arc::new(fabric),
            host: Mutex::default(),
            combiner: OnceLock::new(),
            next_looked_at: AtomicU32::new(this_rank.rank + 1),
            this_rank,
            last_check: AtomicU32::new(0),
            calls_to_look: AtomicU8::new(0),
            looked_at: AtomicU32::new(0),
            next_connected: AtomicU32::new(0),
            told: AtomicBool::new(false),
            launcher: Mutex::default(),
            on_abort: Mutex::default(),
            has_left: AtomicBool::new(false),
            allocations: Mutex::default(),
            membership,
            successor: OnceLock::new(),
            has_gone_on: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(crate) fn rank(&self) -> WorldRank {
        WorldRank(self.this_rank.rank)
    }

    /// As [`Context::rank`]: among peers, all ranks are of the world.
    #[inline]
    pub(crate) fn me(&self) -> u32 {
        self.this_rank.rank
    }

    pub(crate) fn size(&self) -> u32 {
        self.this_rank.size
    }

    pub(crate) fn hosts(&self) -> &Hosts {
        &self.this_rank.hosts
    }

    pub(crate) fn device(&self) -> &Arc<dyn Device> {
        &self.fabric.device
    }

    /// What carries out the accumulates of other ranks on the memory of this one. Only the first call has an effect.
    pub(crate) fn combine_by(&self, combiner: Arc<dyn Combiner>) {
        let combiner = self.combiner.get_or_init(|| combiner);
        self.fabric.device.combine_by(combiner.clone());
    }

    /// A fabric that maps memory between the ranks of this host.
    pub(crate) fn open_host_fabric(&self) -> Result<Arc<Fabric>> {
        if self.fabric.maps_memory(self.this_rank.patience)? {
            return Ok(self.fabric.clone());
        }
        let mut host = lock(&self.host);
        if let Some(known) = &*host {
            return Ok(known.clone());
        }
        let device = start::open("auto", start::Whereabouts::default())?;
        device.cancel_when(self.abort_words.watched());
        if let Some(combiner) = self.combiner.get() {
            device.combine_by(combiner.clone());
        }
        let made = Arc::new(Fabric::new(
            device,
            WORLD,
            self.this_rank.rank,
            self.this_rank.size,
        )?);
        *host = Some(made.clone());
        Ok(made)
    }

    /// The fabric of [`Context::open_host_fabric`], if it exists and is not the job's.
    pub(super) fn host(&self) -> Option<Arc<Fabric>> {
        lock(&self.host).clone()
    }

    /// The header of this rank's control region: the words that tell peers its state.
    pub(crate) fn control_header(&self) -> ControlBlock {
        self.fabric.control.reserved(0, WORLD)
    }

    pub(crate) fn world_block(&self) -> ControlBlock {
        let control = &self.fabric.control;
        control.reserved(WORLD, self.this_rank.world_block)
    }

    #[inline]
    pub(crate) fn patience(&self) -> Patience {
        self.this_rank.patience
    }

    /// Whether calls of several threads may overlap.
    #[inline]
    pub(crate) fn concurrent(&self) -> bool {
        self.this_rank.level == ThreadLevel::Multiple
    }

    /// Rank `rank` of the world, connected on first use.
    #[inline]
    pub(crate) fn connect_to(&self, rank: u32) -> Result<&Peer> {
        self.connect_by(&self.fabric, WorldRank(rank))
    }

    /// As [`Context::connect_to`], through another fabric.
    #[inline]
    pub(crate) fn connect_by<'f>(&self, fabric: &'f Fabric, rank: WorldRank) -> Result<&'f Peer> {
        match fabric.known(rank.0) {
            Some(peer) => Ok(peer),
            None => self.connect_now(fabric, rank.0),
        }
    }

    /// Rank `rank` of the world, if it is connected.
    #[inline]
    pub(crate) fn known(&self, rank: u32) -> Option<&Peer> {
        self.fabric.known(rank)
    }

    /// All ranks of the world that are connected.
    pub(crate) fn all_known(&self) -> impl Iterator<Item = (u32, &Peer)> {
        self.fabric.all_known()
    }

    #[cold]
    fn connect_now<'f>(&self, fabric: &'f Fabric, rank: u32) -> Result<&'f Peer> {
        not_forked("connect")?;
        let joins_all = std::ptr::eq(fabric, &*self.fabric);
        if joins_all && rank != self.this_rank.rank && self.has_left_itself() {
            return Err(Error::new(
                "connect",
                PeerError::Left {
                    rank: self.this_rank.rank,
                },
            ));
        }
        if joins_all && fabric.record(rank).is_none() {
            let record = self.launcher().map(|launcher| launcher.published(rank));
            let record = record.transpose().map_err(|error| {
                let error = Error::new("connect", bootstrap_error(error));
                self.name_absent(rank, error)
            })?;
            if let Some(record) = record {
                fabric.introduce(rank, record);
            }
        }
        fabric
            .connect(rank, self.this_rank.patience)
            .map_err(|error| self.name_absent(rank, error))
    }

    /// A number that all ranks of this job share, and no other job has.
    pub(crate) fn identity(&self) -> u64 {
        fnv_1a(self.fabric.record(0).unwrap_or_default().as_bytes())
    }

    fn launcher(&self) -> Option<Arc<dyn Bootstrap>> {
        lock(&self.launcher).clone()
    }

    /// Whether a rank told the launcher that it left; `None` if the launcher does not say.
    pub(super) fn launcher_knows_left(&self, rank: u32) -> Option<bool> {
        self.launcher()?.has_left(rank)
    }

    /// Whether the launcher died.
    pub(crate) fn launcher_is_gone(&self) -> bool {
        self.launcher().is_some_and(|launcher| launcher.is_gone())
    }

    pub(crate) fn membership(&self) -> Option<&Membership> {
        self.membership.as_ref()
    }

    /// Whether the caller is the first that goes on from this job.
    pub(crate) fn is_first_to_go_on(&self) -> bool {
        !self.has_gone_on.swap(true, Ordering::Relaxed)
    }

    /// The job of those who went on after a death, if this rank is one of them.
    fn successor(&self) -> Option<&Arc<Self>> {
        self.successor.get()
    }

    /// Sets the job of those who went on.
    pub(crate) fn set_successor(&self, successor: Arc<Self>) {
        let _ = self.successor.set(successor);
    }

    /// This job and those of its survivors, in order.
    pub(crate) fn line(&self) -> impl DoubleEndedIterator<Item = &Self> {
        let all = std::iter::successors(Some(self), |context| {
            context.successor().map(|next| &**next)
        });
        all.collect::<Vec<_>>().into_iter()
    }

    /// Whether this rank has left the job.
    #[inline]
    pub(crate) fn has_left_itself(&self) -> bool {
        self.has_left.load(Ordering::Relaxed)
    }

    /// Leaves the job, even if the launcher does not accept the farewell.
    pub(crate) fn leave(&self) -> Result<()> {
        self.has_left.store(true, Ordering::Relaxed);
        // A rank that reads that this rank has left concludes that none of its operations are in flight.
        let host = self.host();
        let fabrics = [Some(&self.fabric), host.as_ref()].into_iter().flatten();
        for fabric in fabrics.clone() {
            fabric.device.close();
        }
        for fabric in fabrics {
            let header = fabric.control.reserved(0, WORLD);
            header.word(STATE).publish(STATE_LEFT);
        }
        // Not called with the lock held: other threads ask meanwhile whether the launcher is gone.
        let launcher = lock(&self.launcher).take();
        match launcher {
            Some(launcher) => launcher
                .finalize()
                .map_err(|error| Error::new("job start", bootstrap_error(error))),
            None => Ok(()),
        }
    }

    /// Sets the launcher that started the job of this context, and that is told of its end.
    pub(crate) fn set_launcher(&self, launcher: Arc<dyn Bootstrap>) {
        *lock(&self.launcher) = Some(launcher);
    }

    /// Replaces the previous hook.
    pub(crate) fn set_on_abort(&self, hook: Arc<AbortHook>) {
        let before = lock(&self.on_abort).replace(hook);
        // Dropping it may call this library.
        drop(before);
    }

    pub(crate) fn report_abort_to_launcher(&self, code: i32, message: &str) {
        if is_forked() {
            return;
        }
        if let Some(launcher) = self.launcher()
            && let Err(error) = launcher.abort(code, message)
        {
            tracing::warn!(%error, "the launcher did not take the abort");
        }
        // Not called with the lock held: it may never return.
        let hook = lock(&self.on_abort).clone();
        if let Some(hook) = hook {
            hook(code, message);
        }
    }

    pub(crate) fn alloc_mem(&self, size: usize, align: Result<usize>) -> Result<NonNull<u8>> {
        let region = align
            .and_then(|align| Ok(self.device().allocate(size, align)?))
            .map_err(|error| error.during("alloc_mem"))?;
        let base = NonNull::new(region.base()).unwrap_or(NonNull::dangling());
        lock(&self.allocations).insert(base.as_ptr().addr(), region);
        Ok(base)
    }

    pub(crate) fn free_mem(&self, base: NonNull<u8>) -> Result<()> {
        let address = base.as_ptr().addr();
        match lock(&self.allocations).remove(&address) {
            Some(_region) => Ok(()),
            None => Err(Error::new("free_mem", Misuse::NotAllocated { address })),
        }
    }
}

/// A digest that does not depend on the program that a rank runs.
fn fnv_1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
pub(super) mod tests {
    pub(crate) mod in_process;
}
