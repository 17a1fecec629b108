//! What can go wrong, grouped by whose fault it is.
//!
//! Every [`Error`] names the operation that failed, the operands and the cause, and carries the
//! error class that MPI gives to it ([`Error::class`], MPI-4.1 section 9.4).

mod class;
mod datatype;

use std::fmt;

pub use class::ErrorClass;
pub use datatype::DatatypeMisuse;

use rdma_sys_shim::Absence;

use crate::job::PmiError;
use crate::sync::LockKind;
use crate::window::Flavor;

/// The result of every fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation: what was tried, and why it did not work.
///
/// One pointer wide, so that the success path of a put stays in registers.
pub struct Error(Box<Inner>);

struct Inner {
    operation: &'static str,
    kind: ErrorKind,
}

/// Whose fault it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller broke a rule of the interface; nothing was transferred.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// The operating system or the device refused.
    #[error(transparent)]
    System(#[from] SystemError),
    /// Another rank died, left or gave up.
    #[error(transparent)]
    Peer(#[from] PeerError),
}

/// A rule of the interface that the caller broke.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum Misuse {
    #[error("rank {rank} is not one of these {size} ranks (legal: 0 to {})", .size.saturating_sub(1))]
    RankOutOfRange { rank: u32, size: u32 },
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
    #[error("{count} elements of {element} bytes overflow a 64-bit length")]
    CountOverflow { count: u64, element: u64 },
    #[error("{origin} elements at the origin, and {result} in the result")]
    LengthsDiffer { origin: u64, result: u64 },
    #[error("displacement unit {unit} is not legal (legal: 1 to 2147483647 bytes)")]
    BadUnit { unit: u64 },
    #[error("size {size} is not legal: {reason}")]
    BadSize { size: u64, reason: &'static str },
    /// The device was asked for something that it does not have, or cannot do with this memory.
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
        "hint {key} has to be the same on all ranks, but rank {rank} gave {other}, and rank 0 {first}"
    )]
    HintDiffers {
        key: &'static str,
        rank: u32,
        first: String,
        other: String,
    },
    #[error(
        "hint {key}=true promises what is not so: rank {rank} has {other} bytes, and rank 0 {first}"
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
    #[error("it is not defined for {ty} (legal: {legal})")]
    BadType {
        ty: &'static str,
        legal: &'static str,
    },
    /// A rule of derived datatypes.
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
    #[error("an earlier collective here failed, so that the ranks are out of step")]
    OutOfStep,
    #[error("this process has a job already; it can join only one, once")]
    JobTaken,
    #[error("the process was forked from a rank; only the rank itself may use the job")]
    Forked,
    #[error("environment variable {name}={value:?} is malformed (legal: {legal})")]
    BadVariable {
        name: &'static str,
        value: String,
        legal: &'static str,
    },
}

/// What a window was found in when a call needed something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EpochState {
    /// No access epoch is open.
    None,
    /// A fence epoch is open.
    Fence,
    /// Locks of single targets are held.
    Locks,
    /// This target is locked already.
    Locked(u32),
    /// This target is not locked.
    NotLocked(u32),
    /// `lock_all` is in force.
    LockAll,
    /// An access epoch of `start` is open.
    Started,
    /// An access epoch of `start` is open, and this rank is not in its group.
    NotStarted(u32),
    /// An exposure epoch of `post` is open.
    Exposed,
    /// No exposure epoch of `post` is open.
    NotExposed,
    /// A rank is in a collective call of the window, and waits there for another one.
    InCollective {
        /// The rank that is in the call.
        rank: u32,
        /// The call.
        call: &'static str,
        /// A rank that has not come to it.
        awaited: u32,
    },
    /// The lock at hand is one of this kind, of this rank.
    LockOf(LockKind, u32),
}

impl fmt::Display for EpochState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no epoch is open"),
            Self::Fence => f.write_str("a fence epoch is open"),
            Self::Locks => f.write_str("locks of single targets are held"),
            Self::Locked(rank) => write!(f, "rank {rank} is locked already"),
            Self::NotLocked(rank) => write!(f, "rank {rank} is not locked"),
            Self::LockAll => f.write_str("lock_all is in force"),
            Self::Started => f.write_str("an access epoch of start is open"),
            Self::NotStarted(rank) => write!(f, "rank {rank} is not in the group of start"),
            Self::Exposed => f.write_str("an exposure epoch of post is open"),
            Self::NotExposed => f.write_str("no exposure epoch of post is open"),
            Self::InCollective {
                rank,
                call,
                awaited,
            } => write!(
                f,
                "rank {rank} is in {call}, where it waits for rank {awaited}"
            ),
            Self::LockOf(LockKind::Shared, rank) => {
                write!(f, "this is a shared lock of rank {rank}")
            }
            Self::LockOf(LockKind::Exclusive, rank) => {
                write!(f, "this is an exclusive lock of rank {rank}")
            }
        }
    }
}

/// The operating system or the device refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SystemError {
    /// The device layer reported a failure.
    #[error(transparent)]
    Device(#[from] rdma_sys_shim::Error),
    /// The launcher's key-value service failed, or its environment is broken.
    #[error(transparent)]
    Pmi(#[from] PmiError),
    /// Another rank cannot be reached over this rank's device.
    #[error("rank {rank}, with device {theirs}, cannot be reached over {ours}: {source}")]
    Connect {
        /// Rank in the world communicator.
        rank: u32,
        /// This rank's device.
        ours: String,
        /// The other rank's device.
        theirs: String,
        /// What stands in the way.
        source: rdma_sys_shim::Error,
    },
    /// The region from which windows and communicators take their control blocks is full.
    #[error(
        "the control region of {capacity} bytes has no room for {wanted} more; free windows or \
         communicators, or raise TRANSOM_CONTROL_BYTES"
    )]
    ControlFull {
        /// Bytes asked for.
        wanted: usize,
        /// Bytes in all.
        capacity: usize,
    },
    /// A call to the operating system failed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried, with its operands.
        what: String,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// Another rank died, left or gave up.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// The process is gone, without having said so.
    #[error("rank {rank} died (process {pid})")]
    Died {
        /// Rank in the world communicator.
        rank: u32,
        /// Its process.
        pid: u32,
    },
    /// The rank does not answer: it died, or the way to it is broken.
    #[error("rank {rank} does not answer: {reason}")]
    Silent {
        /// Rank in the world communicator.
        rank: u32,
        /// What the device says about it.
        reason: String,
    },
    /// The rank finished its part of the job while others still needed it.
    #[error("rank {rank} has left the job")]
    Left {
        /// Rank in the world communicator.
        rank: u32,
    },
    /// A rank gave up (an error, a panic or an abort) and told the others.
    #[error("the job was aborted because rank {rank} {cause}")]
    Aborted {
        /// Rank in the world communicator of the rank that failed first.
        rank: u32,
        /// What it did.
        cause: AbortCause,
    },
    /// What a rank wrote for others to read makes no sense: it was overwritten, or another version
    /// of Transom runs there.
    #[error(
        "{what} of rank {rank} makes no sense: it was overwritten, or another version of transom \
         runs there"
    )]
    Garbled {
        /// The rank, as far as it can be told.
        rank: u32,
        /// What it is.
        what: &'static str,
    },
    /// A collective operation failed on another rank.
    #[error("rank {rank} failed: {message}")]
    Failed {
        /// Rank in the communicator of the collective.
        rank: u32,
        /// That rank's own error, in words.
        message: String,
        /// That rank's own error class.
        class: ErrorClass,
    },
}

impl PeerError {
    /// Local. The rank at fault.
    #[must_use]
    pub fn rank(&self) -> u32 {
        match self {
            Self::Died { rank, .. }
            | Self::Left { rank }
            | Self::Silent { rank, .. }
            | Self::Aborted { rank, .. }
            | Self::Garbled { rank, .. }
            | Self::Failed { rank, .. } => *rank,
        }
    }

    /// What to tell the others.
    pub(crate) fn cause(&self) -> AbortCause {
        match self {
            Self::Died { .. } => AbortCause::Died,
            Self::Left { .. } => AbortCause::Left,
            Self::Silent { .. } => AbortCause::Silent,
            Self::Aborted { cause, .. } => *cause,
            Self::Failed { .. } | Self::Garbled { .. } => AbortCause::Aborted,
        }
    }
}

/// Why a rank made the others stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AbortCause {
    /// It panicked.
    Panicked = 1,
    /// It was found dead.
    Died = 2,
    /// It called abort.
    Aborted = 3,
    /// It left the job while others still needed it.
    Left = 4,
    /// It could not begin or end an epoch of a window.
    EpochFailed = 5,
    /// It did not answer any more.
    Silent = 6,
}

impl AbortCause {
    pub(crate) fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Panicked,
            2 => Self::Died,
            4 => Self::Left,
            5 => Self::EpochFailed,
            6 => Self::Silent,
            _ => Self::Aborted,
        }
    }
}

impl fmt::Display for AbortCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Panicked => "panicked",
            Self::Died => "died",
            Self::Aborted => "called abort",
            Self::Left => "left the job early",
            Self::EpochFailed => "could not begin or end an epoch",
            Self::Silent => "did not answer any more",
        })
    }
}

impl Misuse {
    fn class(&self) -> ErrorClass {
        match self {
            Self::RankOutOfRange { .. } | Self::RankTwice { .. } => ErrorClass::Rank,
            Self::NotInWindow { .. } => ErrorClass::Group,
            Self::PastEnd { .. } | Self::NotAttached { .. } => ErrorClass::RmaRange,
            Self::AttachOverlap { .. } | Self::NotDetachable { .. } => ErrorClass::RmaAttach,
            Self::Flavor { .. } => ErrorClass::RmaFlavor,
            Self::NoSharing { .. } => ErrorClass::RmaShared,
            Self::HintDiffers { .. } => ErrorClass::Info,
            Self::BrokenPromise { key, .. } if *key == "same_size" => ErrorClass::Size,
            Self::BrokenPromise { .. } => ErrorClass::Disp,
            Self::CountOverflow { .. } | Self::LengthsDiffer { .. } => ErrorClass::Count,
            Self::OutOfStep => ErrorClass::Comm,
            Self::BadUnit { .. } => ErrorClass::Disp,
            Self::BadSize { .. } => ErrorClass::Size,
            Self::Device(rdma_sys_shim::Error::BadMemory { .. }) | Self::NotAllocated { .. } => {
                ErrorClass::Base
            }
            Self::Epoch { .. } | Self::Poisoned | Self::NoLocks => ErrorClass::RmaSync,
            Self::WaitsForItself { .. } => ErrorClass::RmaSync,
            Self::BadAssert { .. } => ErrorClass::Assert,
            Self::BadHint { .. } => ErrorClass::InfoValue,
            Self::BadOperation { .. } => ErrorClass::Op,
            Self::BadType { .. } => ErrorClass::Type,
            Self::Datatype(misuse) => misuse.class(),
            Self::NullBuffer { .. } => ErrorClass::Buffer,
            Self::Mismatch { .. }
            | Self::BadVariable { .. }
            | Self::NoStride { .. }
            | Self::NoCounter { .. } => ErrorClass::Arg,
            Self::Callback { .. } | Self::JobTaken | Self::Forked | Self::Device(_) => {
                ErrorClass::Other
            }
        }
    }
}

impl From<DatatypeMisuse> for ErrorKind {
    fn from(misuse: DatatypeMisuse) -> Self {
        Self::Misuse(Misuse::Datatype(misuse))
    }
}

impl Error {
    #[cold]
    pub(crate) fn new(operation: &'static str, kind: impl Into<ErrorKind>) -> Self {
        Self(Box::new(Inner {
            operation,
            kind: kind.into(),
        }))
    }

    /// Names the outermost operation, the one that the user called.
    #[cold]
    pub(crate) fn during(mut self, operation: &'static str) -> Self {
        self.0.operation = operation;
        self
    }

    /// Local. The call that failed.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// Local. Whose fault it is, with the operands.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Local. The MPI error class.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match &self.0.kind {
            ErrorKind::Misuse(misuse) => misuse.class(),
            ErrorKind::System(SystemError::ControlFull { .. }) => ErrorClass::NoMem,
            ErrorKind::System(SystemError::Device(error)) if error.is_out_of_memory() => {
                ErrorClass::NoMem
            }
            ErrorKind::System(SystemError::Device(error)) if error.is_remote_access() => {
                ErrorClass::RmaRange
            }
            ErrorKind::System(SystemError::Device(rdma_sys_shim::Error::BadMemory { .. })) => {
                ErrorClass::Base
            }
            ErrorKind::System(_) => ErrorClass::Other,
            ErrorKind::Peer(PeerError::Failed { class, .. }) => *class,
            ErrorKind::Peer(_) => ErrorClass::ProcAborted,
        }
    }
}

impl Error {
    /// Whether a collective failed on every rank, because one of them failed and told the others.
    pub(crate) fn is_known_everywhere(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Peer(PeerError::Failed { .. }))
    }

    /// The process whose absence the device reported, and how it came to be absent.
    pub(crate) fn absence(&self) -> Option<(u32, Absence)> {
        match &self.0.kind {
            ErrorKind::System(SystemError::Device(error)) => error.absence(),
            _ => None,
        }
    }

    /// Whether the operation failed because the rank is not there any more.
    pub(crate) fn is_absence(&self) -> bool {
        let named = matches!(
            self.0.kind,
            ErrorKind::Peer(
                PeerError::Died { .. } | PeerError::Left { .. } | PeerError::Silent { .. }
            )
        );
        named || self.absence().is_some() || self.is_remote_access()
    }

    /// What a peer's device refused access to.
    pub(crate) fn refused_address(&self) -> Option<u64> {
        match &self.0.kind {
            ErrorKind::System(SystemError::Device(rdma_sys_shim::Error::RemoteAccess {
                address,
                ..
            })) => Some(*address),
            _ => None,
        }
    }

    /// Whether a peer's device refused: it has withdrawn the memory, or never granted this.
    pub(crate) fn is_remote_access(&self) -> bool {
        matches!(&self.0.kind, ErrorKind::System(SystemError::Device(error)) if error.is_remote_access())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.operation, self.0.kind)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({:?})", self.class())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.0.kind)
    }
}

impl From<SystemError> for Error {
    fn from(error: SystemError) -> Self {
        Self::new("transom", error)
    }
}

impl From<rdma_sys_shim::Error> for Error {
    fn from(error: rdma_sys_shim::Error) -> Self {
        use rdma_sys_shim::Error as Device;
        let kind = match error {
            Device::BadMemory { .. }
            | Device::UnknownDevice { .. }
            | Device::BadOption { .. }
            | Device::NoProvider { .. }
            | Device::Select(_) => Misuse::Device(error).into(),
            _ => ErrorKind::from(SystemError::Device(error)),
        };
        Self::new("device", kind)
    }
}

impl From<PmiError> for Error {
    fn from(error: PmiError) -> Self {
        Self::new("job start", SystemError::Pmi(error))
    }
}
