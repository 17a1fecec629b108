//! Who the ranks that meet say that they are, and the keys that they have once they have proved that they know the job's
//! secret. The guest is any rank but 0, and the host is rank 0.

use std::io::{Read, Write};

use rdma_sys_shim::proof::{Guest, Magic, Refused, Secret, Who};

use super::channel::Channel;

pub(super) const MAGIC: Magic = *b"transom meeting\x03";
pub(super) const VERSION: u8 = MAGIC[MAGIC.len() - 1];

/// A process's claim of who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) rank: u32,
    pub(super) size: u32,
}

impl From<Who> for Claim {
    fn from([rank, size]: Who) -> Self {
        let number = |claimed: u64| u32::try_from(claimed).unwrap_or(u32::MAX);
        Self {
            rank: number(rank),
            size: number(size),
        }
    }
}

/// The key for messages to rank 0 and the key for messages from it, made from all that both sides sent before any
/// proof.
pub(super) fn keys(secret: &Secret, said: &[u8]) -> [Secret; 2] {
    ["to rank 0", "from rank 0"].map(|purpose| Secret::new(secret.tag(purpose, &[said])))
}

/// The guest's side.
pub(super) fn greet(
    stream: &mut (impl Read + Write),
    claim: Claim,
    secret: &Secret,
    nonce: &[u8; 32],
) -> Result<Channel, Refused> {
    let guest = Guest::new(&MAGIC, [claim.rank.into(), claim.size.into()], nonce);
    stream.write_all(guest.hello())?;
    let [up, down] = keys(secret, &guest.prove(secret, stream)?);
    Ok(Channel::new(up, down))
}
