//! The caller's fault.

use super::{DatatypeMisuse, EpochState, ErrorClass};
use crate::terms::Flavor;

/// A rule of the interface that the caller broke.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum Misuse {
    #[error("rank {rank} is not one of these {size} ranks (legal: 0 to {})", .size.saturating_sub(1))]
    RankOutOfRange { rank: u32, size: u32 },
    /// A number that the program passed as a rank is negative or too large.
    #[error("{number} is not one of these {size} ranks (legal: 0 to {})", .size.saturating_sub(1))]
    NoRank { number: i128, size: u32 },
    #[error("rank {rank} comes twice; a group holds each rank once")]
    RankTwice { rank: u32 },
    #[error("a range of ranks from {first} to {last} needs a stride that is not 0")]
    NoStride { first: u32, last: u32 },
    #[error(
        "the group's rank {rank} is rank {world_rank} of the world, which is not among the \
         {ranks} ranks of the window"
    )]
    NotInWindow {
        rank: u32,
        world_rank: u32,
        ranks: u32,
    },
    #[error("rank {rank} has no notification counter {counter}: it has {counters} (hint {hint})")]
    NoCounter {
        rank: u32,
        counter: u32,
        counters: u32,
        hint: &'static str,
    },
    #[error(
        "displacement {disp} × unit {unit} + {len} bytes ends past rank {rank}'s window of {size} bytes"
    )]
    PastEnd {
        rank: u32,
        disp: u64,
        unit: u64,
        len: u64,
        size: u64,
    },
    /// One place of a list is wrong; the operation did nothing at any place.
    #[error("place {index} of the list, rank {rank} and displacement {disp}: {cause}")]
    InList {
        index: u64,
        rank: u32,
        disp: u64,
        cause: Box<Misuse>,
    },
    #[error("{count} elements of {element} bytes overflow a 64-bit length")]
    CountOverflow { count: u64, element: u64 },
    #[error("{origin} elements at the origin, and {other} {side}")]
    LengthsDiffer {
        origin: u64,
        other: u64,
        side: &'static str,
    },
    #[error("{count} elements cannot be cut into equal parts for {ranks} ranks")]
    UnequalParts { count: u64, ranks: u32 },
    #[error("there are {found} parts for {ranks} ranks, each of which gets one")]
    PartCount { found: u64, ranks: u32 },
    #[error("no grid of {dims:?} has {ranks} ranks (0: as many as fit)")]
    NoGrid { ranks: u32, dims: Vec<u32> },
    #[error("coordinates {coords:?} are outside of a grid of {dims:?}")]
    OutsideGrid { coords: Vec<u32>, dims: Vec<u32> },
    #[error("displacement unit {unit} is not legal (legal: 1 to 9223372036854775807 bytes)")]
    BadUnit { unit: u64 },
    #[error("size {size} is not legal: {reason}")]
    BadSize { size: u64, reason: &'static str },
    /// The device lacks something that the call needs, or cannot do it with this memory.
    #[error(transparent)]
    Device(rdma_sys_shim::Error),
    #[error("address {address:#x} was not handed out by alloc_mem, or was freed already")]
    NotAllocated { address: usize },
    #[error("{needs}, but {state}")]
    Epoch {
        needs: &'static str,
        state: EpochState,
    },
    #[error("the window was created with the hint no_locks")]
    NoLocks,
    #[error("the window is poisoned: an earlier epoch ended in an error or a panic")]
    Poisoned,
    #[error("hint {key}={value:?} is malformed (legal: {legal})")]
    BadHint {
        key: &'static str,
        value: String,
        legal: &'static str,
    },
    #[error(
        "hint {key}=true promises what is not so: rank {rank} has {other} bytes, and rank 0 has {first}"
    )]
    BrokenPromise {
        key: &'static str,
        rank: u32,
        first: u64,
        other: u64,
    },
    #[error("it needs {needs}, but this one was made by {found}")]
    Flavor { found: Flavor, needs: &'static str },
    #[error(
        "the {size} bytes at {base:#x} overlap with the {other_size} bytes at {other:#x}, which are \
         attached already; detach those first"
    )]
    AttachOverlap {
        base: usize,
        size: usize,
        other: usize,
        other_size: usize,
    },
    #[error("nothing is attached at {base:#x}; detach takes the address that attach was given")]
    NotDetachable { base: usize },
    #[error(
        "the {len} bytes at displacement {address:#x} are not all attached by rank {rank}, or an element \
         of them is in two regions"
    )]
    NotAttached { rank: u32, address: u64, len: u64 },
    #[error(
        "device {device} gives no way to load and store other ranks' memory; make the window on a \
         communicator of split_shared"
    )]
    NoSharing { device: String },
    #[error("{what} failed: {source}")]
    Callback {
        what: &'static str,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("the assertion {given} makes no sense here (legal: {legal})")]
    BadAssert { given: String, legal: String },
    #[error("this rank would wait for itself: {why}")]
    WaitsForItself { why: &'static str },
    #[error("{op} is not defined for {ty}")]
    BadOperation { op: String, ty: String },
    #[error(
        "NoOp changes nothing, and this call fetches nothing; get_accumulate and fetch_and_op do"
    )]
    FetchesNothing,
    #[error("it is not defined for {ty} (legal: {legal})")]
    BadType {
        ty: &'static str,
        legal: &'static str,
    },
    /// A rule of derived datatypes was broken.
    #[error(transparent)]
    Datatype(DatatypeMisuse),
    #[error("null buffer for {len} bytes")]
    NullBuffer { len: usize },
    #[error("rank {rank} disagrees: {ours} here, {theirs} there")]
    Mismatch {
        rank: u32,
        ours: String,
        theirs: String,
    },
    /// The caller's allgather returned a wrong number of blocks.
    #[error("the allgather is of {found} ranks, where there are {size}")]
    BlockCount { found: usize, size: u32 },
    #[error("the allgather returned {found} bytes of rank {rank}, where all passed {wanted}")]
    BlockLength {
        rank: u32,
        found: usize,
        wanted: usize,
    },
    #[error("the allgather returned for this rank, {rank}, what it did not pass")]
    BlockChanged { rank: u32 },
    #[error("an earlier collective here failed, so that the ranks are out of step")]
    OutOfStep,
    #[error("this process has a job already; it can join only one, once")]
    JobTaken,
    #[error("this process has left its job; windows are used and freed before that")]
    JobLeft,
    #[error(
        "survivors() is for communicators of all {size} ranks of a job, and this one has {ranks}"
    )]
    NotAllRanks { ranks: u32, size: u32 },
    #[error("survivors() is for after a death, and no rank of the job has died")]
    NoDeath,
    #[error(
        "survivors() was called for this job before, which is possible once; after another death, call it on the \
         communicator that it returned"
    )]
    SurvivorsTaken,
    #[error("the survivors of this job cannot find each other: {reason}")]
    NoSurvivors { reason: &'static str },
    #[error(
        "another thread opened the session, in a job of ThreadLevel::Serialized; threads share sessions in \
         jobs of ThreadLevel::Multiple"
    )]
    OtherThread,
    #[error("the process was forked from a rank; only the rank itself may use the job")]
    Forked,
    #[error("environment variable {name}={value:?} is malformed (legal: {legal})")]
    BadVariable {
        name: &'static str,
        value: String,
        legal: &'static str,
    },
}

impl Misuse {
    pub(super) fn class(&self) -> ErrorClass {
        match self {
            Self::RankOutOfRange { .. } | Self::NoRank { .. } | Self::RankTwice { .. } => {
                ErrorClass::Rank
            }
            Self::InList { cause, .. } => cause.class(),
            Self::NotInWindow { .. } => ErrorClass::Group,
            Self::PastEnd { .. } | Self::NotAttached { .. } => ErrorClass::RmaRange,
            Self::AttachOverlap { .. } | Self::NotDetachable { .. } => ErrorClass::RmaAttach,
            Self::Flavor { .. } => ErrorClass::RmaFlavor,
            Self::NoSharing { .. } => ErrorClass::RmaShared,
            Self::BrokenPromise {
                key: "same_size", ..
            }
            | Self::BadSize { .. } => ErrorClass::Size,
            Self::CountOverflow { .. }
            | Self::LengthsDiffer { .. }
            | Self::UnequalParts { .. }
            | Self::PartCount { .. } => ErrorClass::Count,
            Self::OutOfStep | Self::NotAllRanks { .. } => ErrorClass::Comm,
            Self::BrokenPromise { .. } | Self::BadUnit { .. } => ErrorClass::Disp,
            Self::Device(rdma_sys_shim::Error::BadMemory { .. }) | Self::NotAllocated { .. } => {
                ErrorClass::Base
            }
            Self::Epoch { .. } | Self::Poisoned | Self::NoLocks | Self::WaitsForItself { .. } => {
                ErrorClass::RmaSync
            }
            Self::BadAssert { .. } => ErrorClass::Assert,
            Self::BadHint { .. } => ErrorClass::InfoValue,
            Self::BadOperation { .. } | Self::FetchesNothing => ErrorClass::Op,
            Self::BadType { .. } => ErrorClass::Type,
            Self::Datatype(misuse) => misuse.class(),
            Self::NullBuffer { .. } => ErrorClass::Buffer,
            Self::Mismatch { .. }
            | Self::NoGrid { .. }
            | Self::OutsideGrid { .. }
            | Self::BlockCount { .. }
            | Self::BlockLength { .. }
            | Self::BlockChanged { .. }
            | Self::BadVariable { .. }
            | Self::NoStride { .. }
            | Self::NoCounter { .. } => ErrorClass::Arg,
            Self::Callback { .. }
            | Self::JobTaken
            | Self::JobLeft
            | Self::NoDeath
            | Self::SurvivorsTaken
            | Self::NoSurvivors { .. }
            | Self::OtherThread
            | Self::Forked
            | Self::Device(_) => ErrorClass::Other,
        }
    }
}
