//! What can be wrong with a rendezvous.

use std::io;
use std::time::Duration;

use super::address::Address;
use super::fault::Fault;

/// Ranks could not meet.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RendezvousError {
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// What the rank was doing.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
    /// Another process listens at rank 0's address.
    #[error(
        "rank 0 cannot listen at {address}, since another process does: another job, or a rank 0 of \
         this one; choose another port for TRANSOM_RENDEZVOUS"
    )]
    PortTaken {
        /// What the environment says.
        address: Address,
    },
    /// Rank 0 runs on a different host from the one where the others look for it.
    #[error(
        "rank 0 cannot listen at {address}, which is no address of its host; start rank 0 on the host \
         that TRANSOM_RENDEZVOUS names, or name the one that it runs on"
    )]
    NotHere {
        /// What the environment says.
        address: Address,
    },
    /// No process listens at rank 0's address.
    #[error(
        "rank 0 was not met at {address} for {waited:.0?} ({limited_by}): {last}; it has not \
         started there, or its job began without this process, or the network keeps it away"
    )]
    NoAnswer {
        /// What the environment says.
        address: Address,
        /// How long this rank tried.
        waited: Duration,
        /// The environment variable that sets the limit.
        limited_by: &'static str,
        /// How the last attempt ended.
        last: String,
    },
    /// Another process listens there, and speaks another protocol.
    #[error(
        "what listens at {address} is no rank 0 of a transom job: it answers {begins:?}; \
         TRANSOM_RENDEZVOUS names a port that another program has"
    )]
    Stranger {
        /// The address that answered.
        address: String,
        /// How its answer begins.
        begins: String,
    },
    /// Rank 0 was built with another version of the protocol.
    #[error(
        "rank 0 at {address} speaks version {theirs} of the rendezvous, this rank version {ours}; \
         build all ranks with one version of transom"
    )]
    Version {
        /// The address that answered.
        address: String,
        /// This rank's.
        ours: u8,
        /// Rank 0's.
        theirs: u8,
    },
    /// The secrets differ.
    #[error(
        "rank 0 at {address} has another TRANSOM_JOB_SECRET than this rank; give all ranks of a job \
         the same"
    )]
    WrongSecret {
        /// The address that answered.
        address: String,
    },
    /// Rank 0 closed its connection.
    #[error("rank 0 ended while the job started, or gave up ({during})")]
    HostLeft {
        /// What this rank waited for.
        during: &'static str,
    },
    /// A message in rank 0's name was changed on the way, or is meaningless.
    #[error("what came from rank 0 was changed on the way, or is of another version of transom")]
    HostGarbled,
    /// Rank 0 is connected, but sends nothing.
    #[error("rank 0 said nothing for {limit:.0?} ({during}); {limited_by} sets the limit")]
    HostSilent {
        /// What this rank waited for.
        during: &'static str,
        /// How long this rank waited.
        limit: Duration,
        /// The environment variable that sets it.
        limited_by: &'static str,
    },
    /// The blocks of an allgather do not fit a message.
    #[error("an allgather of {len} bytes of each of {size} ranks does not fit a message of 4 GiB")]
    TooLong {
        /// The length of a block.
        len: usize,
        /// The number of ranks.
        size: u32,
    },
    /// The ranks that met cannot become a job.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl RendezvousError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
