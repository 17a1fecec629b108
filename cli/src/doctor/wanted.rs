//! For which device the machine is checked.

use rdma_sys_shim::rdma::RdmaDevice;

use super::finding::Level;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Any device that a job would choose.
    Any,
    /// The device soft.
    Soft,
    /// The device tcp, with its name as given.
    Tcp(String),
    /// The RDMA device of this name.
    Rdma(String),
}

impl Wanted {
    pub(super) fn parse(spec: &str) -> Self {
        match spec.split(':').next() {
            Some("" | "auto") if !spec.contains(':') => Self::Any,
            Some("soft") => Self::Soft,
            Some("tcp") => Self::Tcp(spec.to_owned()),
            _ => Self::Rdma(spec.to_owned()),
        }
    }

    pub(super) fn may_use_soft(&self) -> bool {
        matches!(self, Self::Any | Self::Soft)
    }

    /// The level if something that RDMA needs is missing, on a machine with these devices; `Ok` if RDMA is not used.
    /// Jobs on this machine use soft, and jobs on several hosts use the RDMA device if there is one.
    pub(super) fn missing(&self, devices: &[RdmaDevice]) -> Level {
        match self {
            Self::Soft | Self::Tcp(_) => Level::Ok,
            Self::Rdma(_) => Level::Failure,
            Self::Any if devices.is_empty() => Level::Ok,
            Self::Any => Level::Warning,
        }
    }
}
