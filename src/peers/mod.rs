//! This rank's number, the size of the job, and how to reach the other ranks.

mod abort_words;
mod absence;
mod context;
mod control_header;
mod distance;
mod fabric;
mod fork;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod gather;
mod hosts;
mod peer;
mod start;
mod texts;

#[cfg(test)]
pub(crate) use context::tests::in_process::{ranks as ranks_in_process, ranks_on_hosts};
pub(crate) use context::{Context, Membership, check_rank};
pub(crate) use control_header::{CALL, CALL_BYTES, STATE_LEFT};
pub(crate) use distance::{around, rounds};
pub(crate) use fabric::Fabric;
pub(crate) use fork::{is_forked, not_forked};
pub(crate) use gather::gather_parts_by;
pub(crate) use hosts::Hosts;
pub(crate) use peer::{Peer, refusal};
pub(crate) use start::{host_identity, job_secret, named_device};
pub(crate) use texts::{join_parts, padded, split_parts, unpadded};
