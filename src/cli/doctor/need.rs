//! What the machine is wanted for, and so what has to be there.

use rdma_sys_shim::rdma::RdmaDevice;

use super::finding::Level;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Whatever a job would choose.
    Any,
    /// The device soft.
    Soft,
    /// The RDMA device that this names.
    Rdma(String),
}

impl Wanted {
    pub(super) fn parse(spec: &str) -> Self {
        match spec.split(':').next() {
            Some("" | "auto") if !spec.contains(':') => Self::Any,
            Some("soft") => Self::Soft,
            _ => Self::Rdma(spec.to_owned()),
        }
    }

    pub(super) fn may_use_soft(&self) -> bool {
        !matches!(self, Self::Rdma(_))
    }

    /// How much depends on what RDMA needs, on a machine with these devices.
    pub(super) fn need(&self, devices: &[RdmaDevice]) -> Need {
        match self {
            Self::Soft => Need::None,
            Self::Rdma(_) => Need::Required,
            Self::Any if devices.is_empty() => Need::None,
            Self::Any => Need::Wished,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// RDMA is not used.
    None,
    /// Jobs on this machine take soft; those on several hosts take the RDMA device that is there.
    Wished,
    Required,
}

impl Need {
    /// How bad it is if something that RDMA needs is missing.
    pub(super) fn missing(self) -> Level {
        match self {
            Self::None => Level::Ok,
            Self::Wished => Level::Warning,
            Self::Required => Level::Failure,
        }
    }
}
