//! Which requests report their completion: as few as will do.

use super::request::Request;

/// At least one of this many consecutive requests is signalled, or one of as many as fit into the queue. So a full
/// queue always has a report pending.
pub(super) const EVERY: u64 = 16;
/// The most bytes between two signalled requests.
const BYTES: u64 = 64 << 10;

/// Decides which requests are signalled.
#[derive(Clone, Copy)]
pub(super) struct Signals {
    /// At least one of this many requests is signalled.
    every: u64,
    /// The newest signalled request, and the bytes since.
    newest: u64,
    bytes: u64,
}

impl Signals {
    /// For a queue of `limit` requests.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            every: EVERY.min(limit as u64),
            newest: 0,
            bytes: 0,
        }
    }

    /// The ticket of the newest signalled request.
    #[inline]
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// Whether to signal the next request. `first`: no request is before it, or only stored words.
    #[inline]
    pub(super) fn reports(&mut self, request: &Request, ticket: u64, first: bool) -> bool {
        self.bytes += u64::from(request.local.len);
        let report =
            request.signal || first || ticket - self.newest >= self.every || self.bytes >= BYTES;
        if report {
            self.note(ticket);
        }
        report
    }

    /// Notes that the newest request is signalled.
    #[inline]
    pub(super) fn note(&mut self, ticket: u64) {
        (self.newest, self.bytes) = (ticket, 0);
    }
}
