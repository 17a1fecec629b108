//! Where facts come from: files of the kernel, under a root that tests choose, and attempts.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rdma_sys_shim::rdma::{self, RdmaDevice, Seat};
use rdma_sys_shim::{Surroundings, probe};
use transom::devices::REGISTRY;
use transom::launcher::{Launch, LaunchError};
use transom_launch::oversubscription;

use super::slot::Slot;
use super::wanted::Wanted;

pub(super) struct Machine {
    root: PathBuf,
    /// Its RDMA devices.
    class: PathBuf,
}

impl Machine {
    pub(super) fn this() -> Self {
        Self {
            class: rdma::class(),
            ..Self::at("/")
        }
    }

    pub(super) fn at(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self {
            class: root.join(rdma::CLASS.trim_start_matches('/')),
            root,
        }
    }

    /// The path on this machine of `path`, which begins with `/`.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The content of a file, without surrounding white space.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let content = fs::read_to_string(self.path(path)).ok()?;
        Some(content.trim().to_owned())
    }

    /// The target of a symbolic link.
    pub(super) fn link(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        target.into_os_string().into_string().ok()
    }

    /// The names in a folder, sorted.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten();
        let mut names: Vec<_> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// The place from which this process chooses a device.
    pub(super) fn seat(&self) -> Seat {
        Seat::read(&self.root, &oversubscription::allowed())
            .with_subnet(rdma_sys_shim::variable(rdma::SUBNET))
    }

    pub(super) fn rdma_devices(&self) -> Vec<RdmaDevice> {
        rdma::read(&self.class)
    }

    /// Whether the kernel has the RDMA devices, and not a library for tests.
    pub(super) fn has_kernel_devices(&self) -> bool {
        self.class == self.path(rdma::CLASS)
    }

    pub(super) fn slot(&self, device: &str) -> Option<Slot> {
        Slot::read(&self.class, device)
    }

    /// A field of `/proc/self/status`.
    pub(super) fn status(&self, field: &str) -> Option<String> {
        let status = self.text("/proc/self/status")?;
        let mut values = status.lines().filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name == field).then(|| value.trim().to_owned())
        });
        values.next()
    }

    /// The soft and the hard limit of this name in `/proc/self/limits`. `None` means no limit.
    pub(super) fn limit(&self, name: &str) -> Option<(Option<u64>, Option<u64>)> {
        let limits = self.text("/proc/self/limits")?;
        let rest = limits.lines().find_map(|line| line.strip_prefix(name))?;
        let mut numbers = rest.split_whitespace().map(|word| match word {
            "unlimited" => Some(None),
            word => word.parse().ok().map(Some),
        });
        Some((numbers.next()??, numbers.next()??))
    }
}

/// Facts that no file contains.
pub(super) struct Probes {
    /// Whether this build has the verbs provider.
    pub(super) verbs: bool,
    /// What RDMA devices report when they are opened.
    pub(super) asked: Vec<Asked>,
    pub(super) attach: rdma_sys_shim::Result<()>,
    /// Whether ranks may use the device soft.
    pub(super) mapping: rdma_sys_shim::Result<()>,
    /// Whether a job can be started.
    pub(super) launcher: Result<(), LaunchError>,
    /// The addresses of the device tcp, or why it cannot be opened.
    pub(super) tcp: Result<Vec<String>, String>,
    pub(super) clock_resolution: Duration,
    pub(super) processors: u64,
}

impl Probes {
    pub(super) fn asked(&self, device: &str) -> Option<&Asked> {
        self.asked.iter().find(|asked| asked.device == device)
    }

    pub(super) fn take(wanted: &Wanted) -> Self {
        Self {
            verbs: rdma_sys_shim::has_verbs(),
            asked: asked(),
            attach: probe::cross_memory_attach(),
            mapping: super::super::try_soft(),
            launcher: launcher(),
            tcp: tcp(wanted),
            clock_resolution: clock_resolution(),
            processors: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
        }
    }
}

/// What an RDMA device reported when it was opened.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    pub(super) device: String,
    /// Set only for devices that were opened before the choice.
    pub(super) lacks_atomics: bool,
    pub(super) fails_to_open: bool,
    /// Whether an agent carries out its atomics.
    pub(super) atomics_by_agent: bool,
}

fn asked() -> Vec<Asked> {
    let asked = REGISTRY.list().into_iter().filter_map(|info| {
        let rdma = info.rdma?;
        Some(Asked {
            lacks_atomics: rdma.device.atomics == Some(false),
            fails_to_open: rdma.device.fails_to_open,
            atomics_by_agent: rdma.agent_atomics,
            device: rdma.device.name,
        })
    });
    asked.collect()
}

/// Starts this command as a job of one rank, which [`STARTED`](super::STARTED) tells to end.
fn launcher() -> Result<(), LaunchError> {
    let Ok(program) = env::current_exe() else {
        return Ok(());
    };
    let outcome = Launch::new(1, program)
        .args(["doctor", super::STARTED])
        .name("transom doctor")
        .run();
    match outcome {
        // This program cannot be run where its file is no longer there. Others can.
        Err(LaunchError::Program { .. }) => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Opens the device tcp. Returns the addresses that it would give to peers, or why that failed.
pub(super) fn tcp(wanted: &Wanted) -> Result<Vec<String>, String> {
    let spec = match wanted {
        Wanted::Tcp(spec) => spec,
        _ => "tcp",
    };
    let opened = REGISTRY.open(spec, &Surroundings::default());
    opened.map_err(|error| error.to_string())?;
    let found = REGISTRY.find(spec, &[], &Seat::here(&[]));
    let found = found.map_err(|error| error.to_string())?;
    Ok(found.addresses)
}

fn clock_resolution() -> Duration {
    let mut resolution = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes the timespec, which is live. It cannot fail: Linux has this clock.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC, &raw mut resolution) };
    Duration::new(resolution.tv_sec as u64, resolution.tv_nsec as u32)
}
