//! Failures of the device layer.

use std::io;

/// The result of every fallible call of the device layer.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of the device layer: who refused what, and what helps.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused a call.
    #[error("{call} failed: {source}{}", Remedy(.remedy))]
    System {
        /// The call, with its operands.
        call: String,
        /// The kernel's answer.
        source: io::Error,
        /// What the user can do about it, if anything.
        remedy: Option<&'static str>,
    },
    /// The verbs status "remote access error": the rkey does not allow this access.
    #[error(
        "remote access error: {need} of {len} bytes at {address:#x} with rkey {rkey:#x} ({reason})"
    )]
    RemoteAccess {
        /// What was tried.
        need: &'static str,
        /// Address in the target's address space.
        address: u64,
        /// Length in bytes.
        len: u64,
        /// The key that was shown.
        rkey: u64,
        /// Which check failed.
        reason: &'static str,
    },
    /// The process at the other end is gone, or has closed the device.
    #[error("process {pid} is gone")]
    PeerGone {
        /// The process.
        pid: u32,
    },
    /// The peer cannot be reached over this device.
    #[error("peer process {pid} cannot be reached over {device}: {reason}")]
    Unreachable {
        /// The device's name.
        device: &'static str,
        /// The peer's process.
        pid: u32,
        /// What stands in the way, and what helps.
        reason: String,
    },
    /// An address that no device of this provider published.
    #[error("not an address of device {device}: {reason}")]
    BadAddress {
        /// The device's name.
        device: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Memory that cannot be registered.
    #[error("{address:#x}..{:#x} cannot be registered: {reason}", .address.saturating_add(*.len))]
    BadMemory {
        /// First byte.
        address: usize,
        /// Length in bytes.
        len: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// No device has this name.
    #[error("no device {name:?} (known: {known})")]
    UnknownDevice {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// The ranks run on several hosts, and no device of this one joins them.
    #[error(
        "the ranks run on several hosts, and no device of this one can join them (found: {found}): \
         {remedy}"
    )]
    NoneBetweenHosts {
        /// The devices that exist, and why each cannot.
        found: String,
        /// What would work.
        remedy: &'static str,
    },
    /// A device was asked for with an option that it does not have.
    #[error("device {device:?} has no option {option:?} (known: {known})")]
    BadOption {
        /// The device's name.
        device: &'static str,
        /// The option as given.
        option: String,
        /// The options that exist.
        known: &'static str,
    },
    /// A device for tests was told to fail.
    #[error("injected failure: {what} ({device}, seed {seed})")]
    Injected {
        /// The device's name.
        device: &'static str,
        /// What repeats its choices.
        seed: u64,
        /// What happened.
        what: &'static str,
    },
}

/// How a peer came to be missing, as far as the device can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// It has closed its device in good order.
    Closed,
    /// Its process is gone.
    Gone,
    /// It does not answer: its process is gone, or the way to it is broken.
    Silent,
}

struct Remedy<'a>(&'a Option<&'static str>);

impl std::fmt::Display for Remedy<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(remedy) => write!(f, " ({remedy})"),
            None => Ok(()),
        }
    }
}

impl Error {
    /// The last call's `errno`, with what was tried and the remedy that usually helps.
    #[cold]
    pub(crate) fn last_os(call: impl Into<String>) -> Self {
        Self::os(call, io::Error::last_os_error())
    }

    #[cold]
    pub(crate) fn os(call: impl Into<String>, source: io::Error) -> Self {
        let remedy = match source.raw_os_error() {
            Some(libc::EMFILE) => {
                Some("the limit of open files is reached; raise it with `ulimit -n`")
            }
            Some(libc::ENFILE) => {
                Some("the system's limit of open files is reached; raise fs.file-max")
            }
            Some(libc::ENOMEM) => Some(
                "out of memory, address space (`ulimit -v`), mappings (vm.max_map_count) or \
                 lockable memory (`ulimit -l`)",
            ),
            _ => None,
        };
        Self::System {
            call: call.into(),
            source,
            remedy,
        }
    }

    /// The same failure once more, for the next operation that it stops.
    #[cold]
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::System {
                call,
                source,
                remedy,
            } => Self::System {
                call: call.clone(),
                source: match source.raw_os_error() {
                    Some(code) => io::Error::from_raw_os_error(code),
                    None => io::Error::new(source.kind(), source.to_string()),
                },
                remedy: *remedy,
            },
            &Self::RemoteAccess {
                need,
                address,
                len,
                rkey,
                reason,
            } => Self::RemoteAccess {
                need,
                address,
                len,
                rkey,
                reason,
            },
            &Self::PeerGone { pid } => Self::PeerGone { pid },
            Self::Unreachable {
                device,
                pid,
                reason,
            } => Self::Unreachable {
                device,
                pid: *pid,
                reason: reason.clone(),
            },
            &Self::BadAddress { device, reason } => Self::BadAddress { device, reason },
            &Self::BadMemory {
                address,
                len,
                reason,
            } => Self::BadMemory {
                address,
                len,
                reason,
            },
            Self::UnknownDevice { name, known } => Self::UnknownDevice {
                name: name.clone(),
                known: known.clone(),
            },
            Self::NoneBetweenHosts { found, remedy } => Self::NoneBetweenHosts {
                found: found.clone(),
                remedy,
            },
            Self::BadOption {
                device,
                option,
                known,
            } => Self::BadOption {
                device,
                option: option.clone(),
                known,
            },
            &Self::Injected { device, seed, what } => Self::Injected { device, seed, what },
        }
    }

    /// True if memory, address space or another memory limit ran out.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::System { source, .. } if source.raw_os_error() == Some(libc::ENOMEM))
    }

    /// The process that is missing, and how, if that is why the operation failed.
    #[must_use]
    pub fn absence(&self) -> Option<(u32, Absence)> {
        match self {
            Self::PeerGone { pid } => Some((*pid, Absence::Gone)),
            _ => None,
        }
    }

    /// True for the verbs status "remote access error".
    #[must_use]
    pub fn is_remote_access(&self) -> bool {
        matches!(self, Self::RemoteAccess { .. })
    }
}
