//! What can go wrong, grouped by whose fault it is.
//!
//! Every [`Error`] names the operation that failed, the operands and the cause, and carries the
//! error class that MPI gives to it ([`Error::class`], MPI-4.1 section 9.4).

mod class;
mod datatype;
mod epoch;
mod misuse;
mod peer;
mod system;

use std::fmt;

pub use class::ErrorClass;
pub use datatype::DatatypeMisuse;
pub use epoch::EpochState;
pub use misuse::Misuse;
pub use peer::{AbortCause, PeerError};
pub use system::SystemError;

use rdma_sys_shim::Absence;
use transom_launch::pmi::PmiError;
use transom_launch::pmix::PmixError;
use transom_launch::start::StartError;

/// The result of every fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation: its name, and why it failed.
///
/// One pointer wide, so that the success path of a put stays in registers.
pub struct Error(Box<Inner>);

struct Inner {
    operation: &'static str,
    kind: ErrorKind,
}

/// The party at fault.
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

    /// Names the place of a list that was wrong.
    #[cold]
    pub(crate) fn at_place(self, index: usize, rank: u32, disp: usize) -> Self {
        let Inner { operation, kind } = *self.0;
        match kind {
            ErrorKind::Misuse(cause) => {
                let (index, disp, cause) = (index as u64, disp as u64, Box::new(cause));
                let misuse = Misuse::InList {
                    index,
                    rank,
                    disp,
                    cause,
                };
                Self::new(operation, misuse)
            }
            kind => Self::new(operation, kind),
        }
    }

    /// Whether the operating system stops this rank, and perhaps no other. A launcher that has gone affects all ranks;
    /// each finds out by itself.
    pub(crate) fn is_of_this_rank(&self) -> bool {
        match self.kind() {
            ErrorKind::System(SystemError::Start(StartError::Pmi(_) | StartError::Pmix(_))) => {
                false
            }
            kind => matches!(kind, ErrorKind::System(_)),
        }
    }

    /// Local. The call that failed.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// Local. The party at fault, with the operands.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Local. The MPI error class.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match &self.0.kind {
            ErrorKind::Misuse(misuse) => misuse.class(),
            ErrorKind::System(system) => system.class(),
            ErrorKind::Peer(PeerError::Failed { class, .. }) => *class,
            ErrorKind::Peer(_) => ErrorClass::ProcAborted,
        }
    }

    /// Whether a collective failed on every rank, because one of them failed and told the others.
    pub(crate) fn is_known_everywhere(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Peer(PeerError::Failed { .. }))
    }

    /// What the device reported.
    fn of_device(&self) -> Option<&rdma_sys_shim::Error> {
        match self.kind() {
            ErrorKind::System(SystemError::Device(error)) => Some(error),
            _ => None,
        }
    }

    /// The process that the device reported as absent, and the cause of its absence.
    pub(crate) fn absence(&self) -> Option<(u32, Absence)> {
        self.of_device()?.absence()
    }

    /// Whether the operation failed because this rank's own device did.
    pub(crate) fn is_own_trouble(&self) -> bool {
        (self.of_device()).is_some_and(rdma_sys_shim::Error::is_own_trouble)
    }

    /// Whether the operation failed because the rank no longer exists.
    pub(crate) fn is_absence(&self) -> bool {
        let named = matches!(
            self.0.kind,
            ErrorKind::Peer(
                PeerError::Died { .. }
                    | PeerError::Replaced { .. }
                    | PeerError::Gone { .. }
                    | PeerError::Left { .. }
                    | PeerError::Silent { .. }
            )
        );
        named || self.absence().is_some() || self.is_remote_access()
    }

    /// The address to which a peer's device refused access.
    pub(crate) fn refused_address(&self) -> Option<u64> {
        match self.of_device()? {
            rdma_sys_shim::Error::RemoteAccess { address, .. } => Some(*address),
            _ => None,
        }
    }

    /// Whether a peer's device refused access: it has withdrawn the memory, or never permitted this access.
    pub(crate) fn is_remote_access(&self) -> bool {
        (self.of_device()).is_some_and(rdma_sys_shim::Error::is_remote_access)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.operation, self.0.kind)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class() {
            // The class `Other` adds no information.
            ErrorClass::Other => write!(f, "{self}"),
            class => write!(f, "{self} ({class:?})"),
        }
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
            | Device::LeftOut { .. }
            | Device::Select(_) => Misuse::Device(error).into(),
            _ => ErrorKind::from(SystemError::Device(error)),
        };
        Self::new("device", kind)
    }
}

impl From<PmiError> for Error {
    fn from(error: PmiError) -> Self {
        StartError::Pmi(error).into()
    }
}

impl From<PmixError> for Error {
    fn from(error: PmixError) -> Self {
        StartError::Pmix(error).into()
    }
}

impl From<StartError> for Error {
    fn from(error: StartError) -> Self {
        Self::new("job start", SystemError::Start(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_main_prints_of_an_error_ends_with_its_class_if_it_has_one() {
        let printed = |kind: ErrorKind| format!("{:?}", Error::new("put", kind));
        let full = SystemError::ControlFull {
            wanted: 8,
            capacity: 4,
        };
        assert!(printed(full.into()).ends_with("TRANSOM_CONTROL_BYTES (NoMem)"));
        let refused = SystemError::Io {
            what: "opening the file".to_owned(),
            source: std::io::Error::from_raw_os_error(libc::ENOENT),
        };
        let printed = printed(refused.into());
        assert_eq!(
            printed,
            "put: opening the file: No such file or directory (os error 2)"
        );
    }
}
