//! Groups, communicators and the collectives.

mod algorithms;
mod barrier;
mod blocks;
mod by_host;
mod call;
mod carrier;
mod collective;
mod grid;
mod group;
mod merge;
mod over;
mod pipe;
mod rank;
mod ring;
mod ring_channel;
mod scan;
mod scatter;
mod schedule;
mod split;
mod team;
#[cfg(all(test, not(loom)))]
mod tests;
mod two_steps;
mod values;

use std::any::type_name;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};

pub use grid::{Grid, block};
pub use group::{Comparison, Group};
pub use rank::{IntoRank, IntoTarget};

pub use barrier::Purpose;
pub(crate) use barrier::{Barrier, Step, barrier_bytes, barrier_flags, barrier_step};
pub(crate) use merge::{Merged, merge_bytes};
pub(crate) use pipe::{acknowledgement, piece};
pub(crate) use ring::Ring;
pub(crate) use ring_channel::HEADER;
pub(crate) use schedule::{Algorithm, Among, Phase, Phases, Round};
pub(crate) use team::{Rings, Team};
pub(crate) use two_steps::block_bytes;

use crate::datatype::{Element, Op, Reduce};
use crate::diagnostics::{self, InCall};
use crate::error::{AbortCause, Error, ErrorClass, Misuse, PeerError, Result, SystemError};
use crate::memory::columns::Column;
use crate::memory::control::ControlBlock;
use crate::peers::{Context, Hosts, not_forked, padded, unpadded};
use crate::wait::lock;
use call::Call;
use carrier::Carrier;
use collective::BARRIER_AT;
use over::Lent;
use transom_launch::Allgather;
use two_steps::Engine;

/// Bytes of every rank's control region that the world communicator takes: the same on each rank.
pub(crate) fn world_block_bytes(size: u32, hosts: &Hosts) -> u64 {
    block_bytes(&Rings::new(hosts, &Group::world(size), 0))
}

/// An ordered set of ranks that act together, with a context of its own: communication in one communicator does not
/// interfere with another (MPI-4.1, chapter 7).
///
/// Clones are handles to the same communicator. All methods may be called from any thread. The collectives of one
/// communicator run one after another, and every rank must call them in the same order.
#[derive(Clone)]
pub struct Communicator {
    inner: Arc<Inner>,
}

struct Inner {
    team: Team,
    carrier: Mutex<Box<dyn Carrier>>,
}

/// A collective call that has begun. Its waits are shown under its name.
struct InCollective<'c> {
    carrier: MutexGuard<'c, Box<dyn Carrier>>,
    _call: Option<InCall>,
}

impl Deref for InCollective<'_> {
    type Target = Box<dyn Carrier>;

    fn deref(&self) -> &Self::Target {
        &self.carrier
    }
}

impl DerefMut for InCollective<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.carrier
    }
}

impl Communicator {
    fn new(team: Team, block: ControlBlock, blocks: Column<u64>) -> Self {
        let block = Arc::new(block);
        let blocks = Arc::new(blocks);
        let barrier = Arc::new(Barrier::new(&team, &block, BARRIER_AT, false));
        let engine = Engine::new(&team, &block, &blocks, &barrier);
        Self::carried(team, Box::new(engine))
    }

    fn carried(team: Team, carrier: Box<dyn Carrier>) -> Self {
        let carrier = Mutex::new(carrier);
        Self {
            inner: Arc::new(Inner { team, carrier }),
        }
    }

    /// A communicator of the ranks of `group`; `by` carries its collectives.
    pub(crate) fn over(
        context: &Arc<Context>,
        group: &Group,
        by: Box<dyn Allgather + Send>,
    ) -> Result<Self> {
        const OPERATION: &str = "communicator";
        not_forked(OPERATION)?;
        let (rank, size) = (by.rank(), by.size());
        let misuse = if rank >= group.size() {
            let size = group.size();
            Misuse::RankOutOfRange { rank, size }
        } else if size != group.size() {
            Misuse::BlockCount {
                found: size as usize,
                size: group.size(),
            }
        } else if group.in_world(rank) != Some(context.rank()) {
            let world_rank = group.world_rank(rank);
            Misuse::Mismatch {
                rank,
                ours: format!("rank {} of the world", context.rank()),
                theirs: format!("rank {} in the group", world_rank.unwrap_or(rank)),
            }
        } else {
            let team = Team::new(context, context.fabric.clone(), group.clone(), rank);
            let lent = Lent::new(&team, by);
            return Ok(Self::carried(team, Box::new(lent)));
        };
        Err(Error::new(OPERATION, misuse))
    }

    /// All ranks. Its blocks have the same offset on every rank, so it needs no exchange.
    pub(crate) fn world(context: &Arc<Context>) -> Self {
        let everyone = Group::world(context.size());
        let team = Team::new(context, context.fabric.clone(), everyone, context.rank().0);
        let block = context.world_block();
        let blocks = Column::Uniform(block.place());
        Self::new(team, block, blocks)
    }

    pub(crate) fn alone(context: &Arc<Context>) -> Result<Self> {
        // A forked child may share the control memory with the rank, and would give the same block away again.
        not_forked("alone")?;
        let itself = Group::of([context.rank().0]);
        let team = Team::new(context, context.fabric.clone(), itself, 0);
        let control = &context.fabric.control;
        let block = control
            .allocate(block_bytes(&team.rings))
            .map_err(|error| error.during("alone"))?;
        let blocks = Column::Uniform(block.place());
        Ok(Self::new(team, block, blocks))
    }

    pub(crate) fn team(&self) -> &Team {
        &self.inner.team
    }

    /// Collective. Begins a call that every rank makes alike, unless the job was aborted. `fit` says whether the
    /// arguments are right.
    fn begin(
        &self,
        operation: &'static str,
        call: Call,
        fit: Result<()>,
    ) -> Result<InCollective<'_>> {
        self.team().context.check_aborted(operation)?;
        let mut begun = InCollective {
            _call: diagnostics::in_call_of_its_own(operation),
            carrier: lock(&self.inner.carrier),
        };
        begun.carrier.begin(operation, call, fit)?;
        Ok(begun)
    }

    /// Local. This process's rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.inner.team.rank
    }

    /// Local. The number of ranks.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.inner.team.size()
    }

    /// Local. The ranks of this communicator.
    #[must_use]
    pub fn group(&self) -> &Group {
        &self.inner.team.group
    }

    /// Collective. Agrees on success. If every rank passes an `Ok`, each gets its own value back. If a rank passes an
    /// error, all ranks get an error that names the lowest such rank and quotes up to 512 bytes of its text
    /// ([`PeerError::Failed`]). The communicator remains usable.
    ///
    /// ```
    /// # fn main() -> transom::Result<()> {
    /// # let job = transom::Job::init()?;
    /// # let world = job.world();
    /// let size = "17".parse::<u64>();
    /// let size = world.agree(size)?;
    /// assert_eq!(size, 17);
    ///
    /// let file = world.agree(std::fs::File::open("/no/such/file"));
    /// assert!(file.unwrap_err().to_string().starts_with("agree: rank 0 failed: No such file"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A rank passes an error, makes another call, died or left.
    pub fn agree<T, E: fmt::Display>(&self, mine: std::result::Result<T, E>) -> Result<T> {
        const OPERATION: &str = "agree";
        match mine {
            Ok(value) => self.agree_in_words(OPERATION, Ok(0_u8)).map(|_| value),
            Err(error) => {
                let mine: std::result::Result<u8, _> = Err((ErrorClass::Other, error.to_string()));
                let agreed = self.agree_in_words(OPERATION, mine);
                Err(agreed.err().unwrap_or_else(|| {
                    self.garbled(OPERATION, self.rank(), "what others know of the error")
                }))
            }
        }
    }

    /// Collective. Gathers a value from every rank, or fails on every rank if it failed on one.
    pub(crate) fn agree_on<T: Element>(
        &self,
        operation: &'static str,
        mine: std::result::Result<T, &Error>,
    ) -> Result<Vec<T>> {
        let in_words = |error: &Error| (error.class(), error.to_string());
        self.agree_in_words(operation, mine.map_err(in_words))
    }

    /// Collective. The same, for an error that is text.
    fn agree_in_words<T: Element>(
        &self,
        operation: &'static str,
        mine: std::result::Result<T, (ErrorClass, String)>,
    ) -> Result<Vec<T>> {
        // A byte with the class of the error, and the value.
        let failed = mine.as_ref().map_or_else(|(class, _)| *class as u8, |_| 0);
        let value = mine.as_ref().map_or_else(|_| T::zeroed(), |value| *value);
        let bytes = [&[failed], bytemuck::bytes_of(&value)].concat();
        let lens = vec![bytes.len(); self.size() as usize];
        let all = self
            .begin(operation, Call::new(operation), Ok(()))?
            .allgather(&bytes, &lens)?;
        let entries = all.chunks_exact(bytes.len());
        // Between hosts, other ranks forward this rank's entry.
        if entries.clone().nth(self.rank() as usize) != Some(&bytes) {
            return Err(self.garbled(
                operation,
                self.rank(),
                "what another rank passed on as the block",
            ));
        }
        if let Some((rank, class)) = (0..)
            .zip(entries.clone())
            .find_map(|(rank, entry)| (entry[0] != 0).then_some((rank, entry[0])))
        {
            let class = ErrorClass::from_code(class);
            let mine = mine.err().map(|(_, words)| words);
            return Err(self.explain(operation, rank, class, mine));
        }
        Ok(entries
            .map(|entry| bytemuck::pod_read_unaligned(&entry[1..]))
            .collect())
    }

    /// Collective. Gives all ranks the error of `rank` with its text.
    #[cold]
    fn explain(
        &self,
        operation: &'static str,
        rank: u32,
        class: ErrorClass,
        mine: Option<String>,
    ) -> Error {
        let mine = mine.filter(|_| rank == self.rank());
        let mut text: [u8; 512] = padded(&mine.unwrap_or_default());
        let told = self.begin(operation, Call::new(operation).rooted(rank), Ok(()));
        match told.and_then(|mut carrier| carrier.bcast(&mut text, rank)) {
            Err(error) => error,
            Ok(()) => {
                let message = unpadded(&text);
                let failed = PeerError::Failed {
                    rank,
                    message,
                    class,
                };
                Error::new(operation, failed)
            }
        }
    }

    /// Collective. Returns when every rank has called it (MPI-4.1, section 6.3).
    ///
    /// Like every collective, it fails on every rank before anything is sent if a rank makes another call on this
    /// communicator or passes other arguments. Then the ranks are out of step, and the communicator refuses all later
    /// calls. Its windows and other communicators remain usable.
    ///
    /// # Errors
    /// A rank died or left, the job was aborted, or a rank makes another call.
    pub fn barrier(&self) -> Result<()> {
        const OPERATION: &str = "barrier";
        self.begin(OPERATION, Call::new(OPERATION), Ok(()))
            .map(drop)
    }

    /// Collective. Copies `root`'s `data` to every rank. Lengths are equal on all ranks (MPI-4.1, section 6.4).
    ///
    /// # Errors
    /// `root` is not a rank, lengths or roots differ, a rank died or left.
    pub fn bcast<T: Element>(&self, data: &mut [T], root: impl IntoRank) -> Result<()> {
        const OPERATION: &str = "bcast";
        let (root, fit) = self.root(OPERATION, root);
        let call = Call::new(OPERATION).of(data).rooted(root);
        let mut carrier = self.begin(OPERATION, call, fit)?;
        carrier.bcast(bytes_mut(data), root)
    }

    /// Collective. Gathers every rank's `data` at `root`, which gets it in the order of ranks; the others get nothing.
    /// Lengths are equal on all ranks (MPI-4.1, section 6.5).
    ///
    /// # Errors
    /// `root` is not a rank, lengths or roots differ, a rank died or left.
    #[must_use = "the result is returned; `data` is not changed"]
    pub fn gather<T: Element>(&self, data: &[T], root: impl IntoRank) -> Result<Vec<T>> {
        const OPERATION: &str = "gather";
        let (root, fit) = self.root(OPERATION, root);
        let call = Call::new(OPERATION).of(data).rooted(root);
        let mut carrier = self.begin(OPERATION, call, fit)?;
        let lens = vec![size_of_val(data); self.size() as usize];
        Ok(to_elements(&carrier.gather(bytes(data), &lens, root)?))
    }

    /// Collective. As [`Communicator::gather`], but lengths may differ. `root` gets one vector for each rank; the
    /// others get none (MPI-4.1, section 6.5, `MPI_Gatherv`).
    ///
    /// # Errors
    /// `root` is not a rank, roots differ, a rank died or left.
    #[must_use = "the result is returned; `data` is not changed"]
    pub fn gatherv<T: Element>(&self, data: &[T], root: impl IntoRank) -> Result<Vec<Vec<T>>> {
        const OPERATION: &str = "gatherv";
        let (root, fit) = self.root(OPERATION, root);
        let mut carrier = self.begin(OPERATION, Call::new(OPERATION).rooted(root), fit)?;
        let lens = self.lens(&mut **carrier, data, self.rank() == root)?;
        let bytes = carrier.gather(bytes(data), &lens, root)?;
        if self.rank() != root {
            return Ok(Vec::new());
        }
        Ok(cut(&bytes, &lens))
    }

    /// Collective. Gathers every rank's `data` on every rank, in the order of ranks. Lengths are equal on all ranks
    /// (MPI-4.1, section 6.7).
    ///
    /// # Errors
    /// Lengths differ, a rank died or left.
    #[must_use = "the result is returned; `data` is not changed"]
    pub fn allgather<T: Element>(&self, data: &[T]) -> Result<Vec<T>> {
        self.allgather_as("allgather", data)
    }

    /// Collective. The same, as part of a call with another name.
    fn allgather_as<T: Element>(&self, operation: &'static str, data: &[T]) -> Result<Vec<T>> {
        let call = Call::new(operation).of(data);
        let mut carrier = self.begin(operation, call, Ok(()))?;
        let lens = vec![size_of_val(data); self.size() as usize];
        Ok(to_elements(&carrier.allgather(bytes(data), &lens)?))
    }

    /// Collective. As [`Communicator::allgather`], but lengths may differ. Returns one vector for each rank (MPI-4.1,
    /// section 6.7, `MPI_Allgatherv`).
    ///
    /// # Errors
    /// A rank died or left.
    #[must_use = "the result is returned; `data` is not changed"]
    pub fn allgatherv<T: Element>(&self, data: &[T]) -> Result<Vec<Vec<T>>> {
        self.allgatherv_as("allgatherv", data)
    }

    /// Collective. The same, as part of a call with another name.
    fn allgatherv_as<T: Element>(
        &self,
        operation: &'static str,
        data: &[T],
    ) -> Result<Vec<Vec<T>>> {
        let mut carrier = self.begin(operation, Call::new(operation), Ok(()))?;
        let lens = self.lens(&mut **carrier, data, true)?;
        Ok(cut(&carrier.allgather(bytes(data), &lens)?, &lens))
    }

    /// Collective. Combines the ranks' `data` element by element. Lengths are equal on all ranks. `root` gets the
    /// result, the others nothing. The number of ranks, their hosts and the root fix the order of combination (MPI-4.1,
    /// section 6.9).
    ///
    /// # Errors
    /// The operation is not defined for the type, `root` is not a rank; lengths, types, operations or
    /// roots differ; a rank died or left.
    #[must_use = "the result is returned; `data` is not changed"]
    pub fn reduce<T: Reduce>(&self, data: &[T], op: Op, root: impl IntoRank) -> Result<Vec<T>> {
        const OPERATION: &str = "reduce";
        let (root, fit) = self.root(OPERATION, root);
        let call = Call::new(OPERATION)
            .of(data)
            .combining::<T>(op)
            .rooted(root);
        let fit = fit.and_then(|()| is_defined::<T>(OPERATION, op));
        let mut carrier = self.begin(OPERATION, call, fit)?;
        let result = reduce_to(&mut **carrier, data, op, root)?;
        Ok(if self.rank() == root {
            result
        } else {
            Vec::new()
        })
    }

    /// Collective. As [`Communicator::reduce`], but every rank gets the result, with identical bits. `data` is not
    /// changed (MPI-4.1, section 6.9.6).
    ///
    /// # Errors
    /// The operation is not defined for the type; lengths, types or operations differ; a rank died or
    /// left.
    #[must_use = "the result is returned; `data` is not changed"]
    pub fn allreduce<T: Reduce>(&self, data: &[T], op: Op) -> Result<Vec<T>> {
        const OPERATION: &str = "allreduce";
        let call = Call::new(OPERATION).of(data).combining::<T>(op);
        let mut carrier = self.begin(OPERATION, call, is_defined::<T>(OPERATION, op))?;
        let mut result = reduce_to(&mut **carrier, data, op, 0)?;
        carrier.bcast(bytes_mut(&mut result), 0)?;
        Ok(result)
    }

    /// The root of a collective, and whether it is a rank. Every number that is not a rank is refused alike.
    fn root(&self, operation: &'static str, root: impl IntoRank) -> (u32, Result<()>) {
        match root.into_rank(operation, self.size()) {
            Ok(root) => (root, Ok(())),
            Err(error) => (u32::MAX, Err(error)),
        }
    }

    /// The number of bytes of each rank. `gathers`: whether this rank gets them all.
    fn lens<T: Element>(
        &self,
        carrier: &mut dyn Carrier,
        data: &[T],
        gathers: bool,
    ) -> Result<Vec<usize>> {
        let mine = size_of_val(data) as u64;
        let lens = carrier.allgather(&mine.to_ne_bytes(), &vec![8; self.size() as usize])?;
        let lens: Vec<u64> = bytemuck::pod_collect_to_vec(&lens);
        let me = self.rank();
        let mut total = 0_u64;
        for (rank, &len) in (0..).zip(&lens) {
            total = total.saturating_add(len);
            if total > isize::MAX as u64 || (rank == me && len != mine) {
                return Err(self.garbled("collective", rank, "the length of the data"));
            }
        }
        // If an allocation failed later, the process would end.
        let mut room = Vec::<u8>::new();
        if gathers && room.try_reserve_exact(total as usize).is_err() {
            (self.team().context).abort_everywhere(AbortCause::CollectiveFailed);
            let what = format!("{total} bytes for the data of all ranks");
            let source = std::io::Error::from_raw_os_error(libc::ENOMEM);
            return Err(SystemError::Io { what, source }.into());
        }
        Ok(lens.into_iter().map(|len| len as usize).collect())
    }

    /// Reports malformed data of a rank in a collective. Aborts the job, since other ranks may continue.
    #[cold]
    pub(crate) fn garbled(&self, operation: &'static str, rank: u32, what: &'static str) -> Error {
        let team = self.team();
        (team.context).abort_everywhere(AbortCause::FoundGarbled);
        let rank = team.world_rank(rank).0;
        Error::new(operation, PeerError::Garbled { rank, what })
    }
}

/// Fails unless the operation is defined for elements of this type.
fn is_defined<T: Reduce>(operation: &'static str, op: Op) -> Result<()> {
    match T::combine(op, T::zeroed(), T::zeroed()) {
        Some(_) => Ok(()),
        None => Err(op.undefined(operation, type_name::<T>())),
    }
}

/// At the root, the combination of all ranks' data.
fn reduce_to<T: Reduce>(
    carrier: &mut dyn Carrier,
    data: &[T],
    op: Op,
    root: u32,
) -> Result<Vec<T>> {
    let mut result = data.to_vec();
    carrier.reduce(bytes_mut(&mut result), root, &mut |held, came| {
        fold::<T>(op, held, came);
    })?;
    Ok(result)
}

/// `held = held op came`, element by element.
fn fold<T: Reduce>(op: Op, held: &mut [u8], came: &[u8]) {
    let size = size_of::<T>().max(1);
    let pairs = held.chunks_exact_mut(size).zip(came.chunks_exact(size));
    for (held, came) in pairs {
        let (a, b) = (
            bytemuck::pod_read_unaligned::<T>(held),
            bytemuck::pod_read_unaligned::<T>(came),
        );
        if let Some(value) = T::combine(op, a, b) {
            held.copy_from_slice(bytemuck::bytes_of(&value));
        }
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Communicator(rank {} of {})", self.rank(), self.size())
    }
}

fn bytes<T: Element>(data: &[T]) -> &[u8] {
    const { assert!(size_of::<T>() > 0, "an element has more than no bytes") };
    bytemuck::cast_slice(data)
}

fn bytes_mut<T: Element>(data: &mut [T]) -> &mut [u8] {
    const { assert!(size_of::<T>() > 0, "an element has more than no bytes") };
    bytemuck::cast_slice_mut(data)
}

fn to_elements<T: Element>(bytes: &[u8]) -> Vec<T> {
    bytemuck::pod_collect_to_vec(bytes)
}

fn cut<T: Element>(bytes: &[u8], lens: &[usize]) -> Vec<Vec<T>> {
    let mut rest = bytes;
    lens.iter()
        .map(|&len| {
            let (part, more) = rest.split_at(len);
            rest = more;
            to_elements(part)
        })
        .collect()
}
