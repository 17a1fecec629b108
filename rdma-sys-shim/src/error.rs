//! Failures of the device layer.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

/// The name of the soft device.
pub(crate) const SOFT: &str = "soft";
/// The name of the tcp device.
pub(crate) const TCP: &str = "tcp";

/// The result of every fallible call of the device layer.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of the device layer: what refused what, and the remedy.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused a call.
    #[error("{call} failed: {source}{}", IfKnown(" (", .remedy, ")"))]
    System {
        /// The call, with its operands.
        call: String,
        /// The kernel's answer.
        source: Arc<io::Error>,
        /// What the user can do about it, if anything.
        remedy: Option<Cow<'static, str>>,
    },
    /// Memory cannot be registered, since locking it would exceed this process's limit.
    #[error(
        "registering {len} bytes failed: {source} (the limit of locked memory is {} KiB; raise it \
         with `ulimit -l`)", .limit / 1024
    )]
    LockedMemory {
        /// Length in bytes.
        len: usize,
        /// The limit in bytes.
        limit: u64,
        /// The kernel's answer.
        source: Arc<io::Error>,
    },
    /// A connection cannot be made, since locking its queues would exceed this process's limit.
    #[error(
        "{call} failed: {source} (the queues of a connection lock about {} KiB, and the limit of locked memory is {} \
         KiB; raise it with `ulimit -l`)", .needed / 1024, .limit / 1024
    )]
    LockedQueues {
        /// The call, with its operands.
        call: String,
        /// What the queues of one connection lock, in bytes.
        needed: u64,
        /// The limit in bytes.
        limit: u64,
        /// The kernel's answer.
        source: Arc<io::Error>,
    },
    /// The kernel has an RDMA device that no driver of libibverbs serves.
    #[error(
        "RDMA device {device} has no driver in libibverbs (install the package ibverbs-providers)"
    )]
    NoDriver {
        /// The device's name.
        device: String,
    },
    /// The device has no atomics, but the environment requires the device's own.
    #[error(
        "RDMA device {device} has no atomics of eight bytes, which TRANSOM_RDMA_ATOMICS=device asks for (without it, or with \
         `agent`, a thread of the target carries atomics out, over TCP; `transom devices` shows what else there is, and \
         TRANSOM_DEVICE=NAME takes it)"
    )]
    NoAtomics {
        /// The device's name.
        device: String,
    },
    /// The device's atomics gave wrong results.
    #[error(
        "RDMA device {device} failed its self-test: fetch_add and compare_swap gave {found:#x?} \
         for {wanted:#x?}"
    )]
    BrokenAtomics {
        /// The device's name.
        device: String,
        /// Its three results and the final word.
        found: [u64; 4],
        /// The correct values.
        wanted: [u64; 4],
    },
    /// The verbs status "remote access error": the rkey does not allow this access.
    #[error(
        "remote access error: {need} of {len} bytes at {address:#x} of process {pid}{} with rkey \
         {rkey:#x} ({reason})", IfKnown(" on ", .host, "")
    )]
    RemoteAccess {
        /// The kind of access.
        need: &'static str,
        /// Address in the target's address space.
        address: u64,
        /// Length in bytes.
        len: u64,
        /// The target's process.
        pid: u32,
        /// Its host, if that may differ from ours.
        host: Option<Arc<str>>,
        /// The key that the origin used.
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
    /// The process at the other end has started another program in its place (exec).
    #[error("process {pid} has started another program (exec)")]
    PeerReplaced {
        /// The process.
        pid: u32,
    },
    /// The job was aborted before a thread of the peer had carried out the operation ([`Device::cancel_when`]).
    ///
    /// [`Device::cancel_when`]: crate::Device::cancel_when
    #[error("the job was aborted, and process {pid} had not answered by then")]
    Cancelled {
        /// The process.
        pid: u32,
    },
    /// An environment variable has an invalid value.
    #[error("{name}={value} is not a number from {least} to {most}")]
    BadSetting {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// The least legal value.
        least: f64,
        /// The greatest legal value.
        most: f64,
    },
    /// The port does not belong to the partition that the environment names.
    #[error(
        "TRANSOM_RDMA_PKEY={key:#06x}: port {port} of {device} is not of this partition; its \
         partition keys: {known}"
    )]
    NoPartition {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// The requested key.
        key: u16,
        /// The keys in its table.
        known: String,
    },
    /// The process at the other end has closed the device in good order.
    #[error("process {pid}{} has left", IfKnown(" on ", .host, ""))]
    PeerClosed {
        /// The process.
        pid: u32,
        /// Its host, if that may differ from ours.
        host: Option<Arc<str>>,
    },
    /// The peer's device did not answer within all retries.
    #[error("{operation}: no answer from process {pid} on {host} ({why})")]
    NoAnswer {
        /// The operation.
        operation: &'static str,
        /// The process.
        pid: u32,
        /// Its host.
        host: Arc<str>,
        /// The possible reason.
        why: Arc<str>,
    },
    /// A work request failed.
    #[error(
        "{operation} of {len} bytes at {address:#x} of process {pid} on {host} failed: {status} \
         (verbs status {code}, vendor error {vendor:#x}){}", IfKnown(": ", .why, "")
    )]
    Completion {
        /// The operation.
        operation: &'static str,
        /// Address in the target's address space.
        address: u64,
        /// Length in bytes.
        len: u64,
        /// The target's process.
        pid: u32,
        /// Its host.
        host: Arc<str>,
        /// The verbs status in words.
        status: &'static str,
        /// The verbs status.
        code: u32,
        /// The vendor's error code.
        vendor: u32,
        /// What is wrong with this process's own device, port or connection, if anything.
        why: Option<Arc<str>>,
        /// Whether the fault is the device's or the port's.
        port_failed: bool,
    },
    /// The peer cannot be reached over this device.
    #[error("peer process {pid} cannot be reached over {device}: {reason}")]
    Unreachable {
        /// The device's name.
        device: &'static str,
        /// The peer's process.
        pid: u32,
        /// What prevents it, and the remedy.
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
    /// The ranks run on several hosts, or in containers that separate them, and no device of this host joins them.
    #[error(
        "the ranks run on several hosts, or in containers that do not share their processes (`--pid=host`), and no \
         device of this one can join them (found: {found}): {remedy}"
    )]
    NoneBetweenHosts {
        /// The devices that exist, and why each cannot join them.
        found: String,
        /// What would work.
        remedy: &'static str,
    },
    /// An environment variable has to be the same on all ranks, but differs.
    #[error("{name} is {ours} here and {theirs} there; give all ranks the same")]
    Disagreement {
        /// The variable.
        name: &'static str,
        /// The peer's value.
        theirs: String,
        /// This process's value.
        ours: String,
    },
    /// An environment variable has none of its legal values.
    #[error("{name}={value:?} is none of: {known}")]
    BadWord {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// The legal values.
        known: &'static str,
    },
    /// The device does not have the requested option.
    #[error("device {device:?} has no option {option:?} (known: {known})")]
    BadOption {
        /// The device's name.
        device: &'static str,
        /// The option as given.
        option: String,
        /// The options that exist.
        known: &'static str,
    },
    /// This build has no code for the requested device.
    #[error("{device} cannot be used: {why}")]
    LeftOut {
        /// The device.
        device: String,
        /// Why this build lacks it, and the remedy.
        why: &'static str,
    },
    /// None of a provider's devices can be chosen; the provider has its own type for the reason.
    #[error(transparent)]
    Select(Arc<dyn std::error::Error + Send + Sync>),
}

/// Why a peer is missing, as far as the device can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// It has closed its device in good order.
    Closed,
    /// Its process is gone.
    Gone,
    /// Its process has started another program in its place (exec).
    Replaced,
    /// It does not answer: its process is gone, or the way to it is broken.
    Silent,
}

/// An optional detail, with text before and after it; nothing if the detail is unknown.
pub(crate) struct IfKnown<'a, T>(
    pub(crate) &'static str,
    pub(crate) &'a Option<T>,
    pub(crate) &'static str,
);

impl<T: std::fmt::Display> std::fmt::Display for IfKnown<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(before, detail, after) = self;
        match detail {
            Some(detail) => write!(f, "{before}{detail}{after}"),
            None => Ok(()),
        }
    }
}

impl Error {
    /// The last call's `errno`, with the call and the usual remedy.
    #[cold]
    pub(crate) fn last_os(call: impl Into<String>) -> Self {
        Self::os(call, io::Error::last_os_error())
    }

    /// A call that failed, with the usual remedy.
    #[cold]
    pub fn os(call: impl Into<String>, source: io::Error) -> Self {
        let remedy = match source.raw_os_error() {
            Some(libc::EMFILE) => {
                Some("the limit of open files is reached; raise it with `ulimit -n`")
            }
            Some(libc::ENFILE) => {
                Some("the system's limit of open files is reached; raise fs.file-max")
            }
            Some(libc::EFBIG) => {
                Some("it is beyond the limit of file sizes; raise it with `ulimit -f`")
            }
            Some(libc::ENOMEM) => Some(
                "out of memory, address space (`ulimit -v`), mappings (vm.max_map_count) or \
                 lockable memory (`ulimit -l`)",
            ),
            _ => None,
        };
        Self::System {
            call: call.into(),
            source: source.into(),
            remedy: remedy.map(Cow::from),
        }
    }

    /// The same failure of a call, with another remedy.
    pub(crate) fn with_remedy(mut self, better: impl Into<Cow<'static, str>>) -> Self {
        if let Self::System { remedy, .. } = &mut self {
            *remedy = Some(better.into());
        }
        self
    }

    /// The `errno`, if a call failed.
    pub(crate) fn os_code(&self) -> Option<i32> {
        match self {
            Self::System { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }

    /// True if memory, address space or another memory limit ran out.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        let codes = [Some(libc::ENOMEM), Some(libc::EFBIG)];
        matches!(self, Self::LockedMemory { .. } | Self::LockedQueues { .. })
            || codes.contains(&self.os_code())
    }

    /// The missing process, and why it is missing, if that is why the operation failed.
    #[must_use]
    pub fn absence(&self) -> Option<(u32, Absence)> {
        match self {
            Self::PeerGone { pid } => Some((*pid, Absence::Gone)),
            Self::PeerReplaced { pid } => Some((*pid, Absence::Replaced)),
            Self::PeerClosed { pid, .. } => Some((*pid, Absence::Closed)),
            Self::NoAnswer { pid, .. } => Some((*pid, Absence::Silent)),
            _ => None,
        }
    }

    /// Whether the operation failed because this process's own device or port did.
    #[must_use]
    pub fn is_own_trouble(&self) -> bool {
        matches!(
            self,
            Self::Completion {
                port_failed: true,
                ..
            }
        )
    }

    /// True for the verbs status "remote access error".
    #[must_use]
    pub fn is_remote_access(&self) -> bool {
        matches!(self, Self::RemoteAccess { .. })
    }
}
