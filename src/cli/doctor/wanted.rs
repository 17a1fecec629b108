//! What the machine is to be used for, and so what it must have.

use rdma_sys_shim::rdma::RdmaDevice;

use super::finding::Level;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Whatever a job would choose.
    Any,
    /// The device soft.
    Soft,
    /// The device tcp, as it is named.
    Tcp(String),
    /// The RDMA device that this names.
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

    /// How bad it is if something that RDMA needs is missing, on a machine with these devices; `Ok` where RDMA is
    /// not used. Jobs on this machine take soft, and those on several hosts the RDMA device that is there.
    pub(super) fn missing(&self, devices: &[RdmaDevice]) -> Level {
        match self {
            Self::Soft | Self::Tcp(_) => Level::Ok,
            Self::Rdma(_) => Level::Failure,
            Self::Any if devices.is_empty() => Level::Ok,
            Self::Any => Level::Warning,
        }
    }
}
