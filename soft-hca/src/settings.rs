//! What the environment of a process says of its adapters. The launcher sets it.

use std::env;
use std::path::{Path, PathBuf};

use crate::fabric::{ADAPTERS, PER_HOST};
use crate::failure::Failures;
use crate::identity::Identity;
use crate::personality::Personality;

/// The folder of the job: the fabric's file, and devices as the kernel shows them.
pub const ROOT: &str = "SOFT_HCA_ROOT";
/// The number of the simulated host.
pub const HOST: &str = "SOFT_HCA_HOST";
/// The adapters of a host, separated by semicolons.
pub const ADAPTER: &str = "SOFT_HCA_ADAPTER";
/// What fails, and when.
pub const FAIL: &str = "SOFT_HCA_FAIL";
/// Ends a process at its first misuse, with a core if the system makes them.
pub const ABORT: &str = "SOFT_HCA_ABORT";
/// Has the calls that led to a misuse told, too.
pub const BACKTRACE: &str = "SOFT_HCA_BACKTRACE";
/// The number on which all choices depend that an adapter makes.
pub const SEED: &str = "SOFT_HCA_SEED";
/// The adapter if the environment names none.
pub const DEFAULT: &str = "mlx5";

/// The adapters of this process's host.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder of the job.
    pub root: PathBuf,
    /// The number of the host.
    pub host: usize,
    /// What its adapters are.
    pub adapters: Vec<Personality>,
    pub(crate) failures: Failures,
    pub(crate) seed: u64,
}

impl Settings {
    /// Reads the environment; `None` if it names no job.
    ///
    /// # Errors
    /// A value is none, in words.
    pub fn from_env() -> Result<Option<Self>, String> {
        let text = |name: &str| {
            let value = env::var_os(name).filter(|value| !value.is_empty());
            value.map(|value| value.to_string_lossy().into_owned())
        };
        let number = |name: &str| match text(name) {
            None => Ok(0),
            Some(text) => text
                .parse()
                .map_err(|_| format!("{name}={text}: not a number")),
        };
        let Some(root) = env::var_os(ROOT) else {
            return Ok(None);
        };
        let mut settings = Self::new(
            Path::new(&root),
            number(HOST)? as usize,
            text(ADAPTER).as_deref().unwrap_or(DEFAULT),
        )?;
        let failures = text(FAIL).unwrap_or_default();
        settings.failures = Failures::parse(&failures)?;
        settings.seed = number(SEED)?;
        Ok(Some(settings))
    }

    /// Adapters of this host without failures.
    ///
    /// # Errors
    /// A value is none, in words.
    pub fn new(root: &Path, host: usize, adapters: &str) -> Result<Self, String> {
        let adapters: Vec<_> = adapters
            .split(';')
            .map(Personality::parse)
            .collect::<Result<_, _>>()?;
        if adapters.len() > PER_HOST || host >= ADAPTERS / PER_HOST {
            let hosts = ADAPTERS / PER_HOST;
            return Err(format!(
                "host {host} with {} adapters: there are up to {hosts} hosts of up to {PER_HOST} adapters",
                adapters.len()
            ));
        }
        Ok(Self {
            root: root.to_owned(),
            host,
            adapters,
            failures: Failures::default(),
            seed: 0,
        })
    }

    /// The names of the devices, as drivers give them.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let name = |at: usize| {
            let driver = self.adapters[at].driver;
            let before = self.adapters[..at].iter();
            let number = before.filter(|other| other.driver == driver).count();
            let separator = if matches!(driver, "mlx5" | "hns" | "mana" | "erdma") {
                "_"
            } else {
                ""
            };
            format!("{driver}{separator}{number}")
        };
        (0..self.adapters.len()).map(name).collect()
    }

    pub(crate) fn identity(&self, at: usize) -> Identity {
        Identity::new(self.host * PER_HOST + at, &self.adapters[at])
    }

    /// What an adapter of any host is. All hosts have the same.
    pub(crate) fn personality(&self, adapter: usize) -> &Personality {
        &self.adapters[(adapter % PER_HOST).min(self.adapters.len() - 1)]
    }
}
