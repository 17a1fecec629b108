//! The operating system's or the device's fault.

use std::io::ErrorKind;

use transom_launch::AllgatherError;
use transom_launch::start::StartError;

use super::ErrorClass;

/// The operating system or the device refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SystemError {
    /// The device layer reported a failure.
    #[error(transparent)]
    Device(#[from] rdma_sys_shim::Error),
    /// The ranks that a launcher started did not become a job.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The allgather of the caller failed.
    #[error("the allgather failed: {source}")]
    Allgather {
        /// Its error.
        source: AllgatherError,
    },
    /// Another rank cannot be reached over this rank's device.
    #[error("rank {rank}, with device {theirs}, cannot be reached over {ours}: {source}")]
    Connect {
        /// Rank in the world communicator.
        rank: u32,
        /// This rank's device.
        ours: String,
        /// The other rank's device.
        theirs: String,
        /// The reason.
        source: rdma_sys_shim::Error,
    },
    /// The control region, from which windows and communicators take their control blocks, is full.
    #[error(
        "the control region of {capacity} bytes has no room for {wanted} more; free windows or \
         communicators, or raise TRANSOM_CONTROL_BYTES"
    )]
    ControlFull {
        /// Bytes asked for.
        wanted: usize,
        /// Total bytes.
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

impl SystemError {
    pub(super) fn class(&self) -> ErrorClass {
        match self {
            Self::ControlFull { .. } => ErrorClass::NoMem,
            Self::Io { source, .. } if source.kind() == ErrorKind::OutOfMemory => ErrorClass::NoMem,
            Self::Device(error) if error.is_out_of_memory() => ErrorClass::NoMem,
            Self::Device(error) if error.is_remote_access() => ErrorClass::RmaRange,
            Self::Device(rdma_sys_shim::Error::BadMemory { .. }) => ErrorClass::Base,
            _ => ErrorClass::Other,
        }
    }
}
