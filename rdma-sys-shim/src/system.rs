//! What the system says of itself and of this process.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::LazyLock;

use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::{Error, Result};

/// The kernel and the PID namespace of a process. Zero if the system hides them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostIdentity {
    /// Differs between hosts, and changes with every boot.
    pub boot: [u8; 16],
    /// Containers on one kernel see each other's processes only if they share this namespace.
    pub pid_namespace: u64,
    /// Processes reach each other at loopback addresses only if they share this namespace, too.
    pub network_namespace: u64,
}

impl HostIdentity {
    /// The identity of this process's host. Callers read it once: later there may be no free descriptor to read it.
    ///
    /// # Errors
    /// It may be readable, but no descriptor was free.
    pub fn this() -> Result<Self> {
        let namespace = |name| {
            let found = fs::metadata(format!("/proc/thread-self/ns/{name}"));
            found.map_or(0, |data| data.ino())
        };
        Ok(Self {
            boot: boot_id()?,
            pid_namespace: namespace("pid"),
            network_namespace: namespace("net"),
        })
    }
}

fn boot_id() -> Result<[u8; 16]> {
    const PATH: &str = "/proc/sys/kernel/random/boot_id";
    let mut id = [0; 16];
    let text = match fs::read_to_string(PATH) {
        Err(error) if is_shortage(&error) => {
            return Err(Error::os(format!("reading {PATH}"), error));
        }
        text => text.unwrap_or_default(),
    };
    let digits: Vec<u8> = text
        .bytes()
        .filter_map(|byte| (byte as char).to_digit(16).map(|digit| digit as u8))
        .collect();
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Ok(id)
}

/// Whether a file may exist although it could not be opened.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [libc::EMFILE, libc::ENFILE, libc::ENOMEM]
        .map(Some)
        .contains(&code)
}

/// The name of this host, for messages.
pub(crate) fn host_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "?".to_owned(), |name| name.trim_end().to_owned())
}

pub(crate) fn page_size() -> usize {
    static PAGE: LazyLock<usize> = LazyLock::new(|| {
        // SAFETY: sysconf has no preconditions.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
    });
    *PAGE
}

/// A limit of this process. If it is unknown, there is none: the kernel will report an error.
pub(crate) fn limit(resource: libc::__rlimit_resource_t) -> u64 {
    limits(resource).map_or(libc::RLIM_INFINITY, |limits| limits.rlim_cur)
}

fn limits(resource: libc::__rlimit_resource_t) -> Option<libc::rlimit> {
    let mut limits = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a live structure, which is only written.
    let rc = unsafe { libc::getrlimit(resource, &raw mut limits) };
    (rc == 0).then_some(limits)
}

/// Raises the limit of open descriptors as far as the process may: the usual limit of 1,024 is for programs that use
/// `select`.
pub(crate) fn allow_descriptors() {
    let Some(limits) = limits(libc::RLIMIT_NOFILE) else {
        return;
    };
    if limits.rlim_cur < limits.rlim_max {
        let raised = libc::rlimit {
            rlim_cur: limits.rlim_max,
            ..limits
        };
        // SAFETY: the pointer is to a live structure. If the call fails, the limit stays as it was.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) };
    }
}

/// The maximum size of a file for this process. A process that writes beyond it is killed by the kernel, unless it
/// handles or ignores SIGXFSZ.
#[must_use]
pub fn longest_file() -> u64 {
    limit(libc::RLIMIT_FSIZE)
}

/// Random bytes from the kernel.
///
/// # Errors
/// The kernel refuses.
pub fn random<const N: usize>() -> Result<[u8; N]> {
    const { assert!(N <= 256) };
    let mut bytes = [0; N];
    // Requests of at most 256 bytes are filled completely or not at all.
    match retry_on_intr(|| getrandom(&mut bytes, GetRandomFlags::empty())) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(Error::os(format!("getrandom({N})"), error.into())),
    }
}
