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
        /// What was being done.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
    /// Somebody else listens where rank 0 should.
    #[error(
        "rank 0 cannot listen at {address}, since another process does: another job, or a rank 0 of \
         this one; choose another port for TRANSOM_RENDEZVOUS"
    )]
    PortTaken {
        /// What the environment says.
        address: Address,
    },
    /// Rank 0 runs on another host than the others look for it on.
    #[error(
        "rank 0 cannot listen at {address}, which is no address of its host; start rank 0 on the host \
         that TRANSOM_RENDEZVOUS names, or name the one that it runs on"
    )]
    NotHere {
        /// What the environment says.
        address: Address,
    },
    /// Rank 0 is not there.
    #[error(
        "rank 0 was not met at {address} for {waited:.0?} (TRANSOM_START_TIMEOUT): {last}; it has not \
         started there, or its job began without this process, or the network keeps it away"
    )]
    NoAnswer {
        /// What the environment says.
        address: Address,
        /// How long it was looked for.
        waited: Duration,
        /// How the last try ended.
        last: String,
    },
    /// Somebody else listens there, and speaks something else.
    #[error(
        "what listens at {address} is no rank 0 of a transom job: it answers {begins:?}; \
         TRANSOM_RENDEZVOUS names a port that another program has"
    )]
    Stranger {
        /// Where exactly.
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
        /// Where exactly.
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
        /// Where exactly.
        address: String,
    },
    /// Rank 0 closed its connection.
    #[error("rank 0 ended while the job started, or gave up ({during})")]
    HostLeft {
        /// What this rank waited for.
        during: &'static str,
    },
    /// What came in rank 0's name is not what it sent, or makes no sense.
    #[error("what came from rank 0 was changed on the way, or is of another version of transom")]
    HostGarbled,
    /// Rank 0 is connected, and says nothing.
    #[error("rank 0 said nothing for {limit:.0?} ({during}); TRANSOM_START_TIMEOUT sets the limit")]
    HostSilent {
        /// What this rank waited for.
        during: &'static str,
        /// How long.
        limit: Duration,
    },
    /// More than fits a message.
    #[error("an allgather of {len} bytes of each of {size} ranks does not fit a message of 4 GiB")]
    TooLong {
        /// Of each rank.
        len: usize,
        /// How many ranks.
        size: u32,
    },
    /// Ranks that met do not become a job.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl RendezvousError {
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
