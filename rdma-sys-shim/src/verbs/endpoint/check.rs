//! What is refused here because the target's device would refuse it, and break the connection.

use super::super::memory;
use super::super::peer::Peer;
use super::failure::Operation;
use crate::{Error, RemoteAddress, Result, Width};

/// Checks that the key of `at` grants the right that the operation needs.
#[inline]
pub(super) fn check_key(
    peer: &Peer,
    operation: Operation,
    at: RemoteAddress,
    len: u64,
) -> Result<()> {
    let reason = match memory::rights(at.rkey) {
        Some(rights) if rights.allows(operation.right()) => return Ok(()),
        Some(_) => "the region does not grant it",
        None => "not a key of a verbs device",
    };
    Err(refused(peer, operation, at, len, reason))
}

/// Checks that a word at `at` can be the target of an atomic or a store.
#[inline]
pub(super) fn check_word(
    peer: &Peer,
    operation: Operation,
    at: RemoteAddress,
    width: Width,
) -> Result<()> {
    let len = width.bytes() as u64;
    check_key(peer, operation, at, len)?;
    let reason = match width {
        Width::W8 if at.address.is_multiple_of(8) => return Ok(()),
        Width::W8 => "the word is not aligned to its size",
        _ => "verbs devices have atomics of eight bytes only",
    };
    Err(refused(peer, operation, at, len, reason))
}

#[cold]
fn refused(
    peer: &Peer,
    operation: Operation,
    at: RemoteAddress,
    len: u64,
    reason: &'static str,
) -> Error {
    Error::RemoteAccess {
        need: operation.name(),
        address: at.address,
        len,
        pid: peer.pid,
        host: Some(peer.host.clone()),
        rkey: at.rkey,
        reason,
    }
}
