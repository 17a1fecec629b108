//! Which requests report their completion: as few as will do.

use super::request::Request;

/// At least one of so many requests in a row is signalled, or of as many as fit in the queue: a full
/// one always has a report to come.
pub(super) const EVERY: u64 = 16;
/// And at least one in so many bytes.
const BYTES: u64 = 64 << 10;

/// Which requests are signalled.
#[derive(Clone, Copy)]
pub(super) struct Signals {
    /// At least one in so many.
    every: u64,
    /// The newest that is, and the bytes since.
    newest: u64,
    bytes: u64,
}

impl Signals {
    /// For a queue of so many requests.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            every: EVERY.min(limit as u64),
            newest: 0,
            bytes: 0,
        }
    }

    /// Ticket of the newest request that is signalled.
    #[inline]
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// Whether the next request is. `idle`: there is nothing before it.
    #[inline]
    pub(super) fn reports(&mut self, request: &Request, ticket: u64, idle: bool) -> bool {
        self.bytes += u64::from(request.local.len);
        let report =
            request.signal || idle || ticket - self.newest >= self.every || self.bytes >= BYTES;
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
