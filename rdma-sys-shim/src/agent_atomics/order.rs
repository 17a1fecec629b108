//! How the tickets of two devices form the tickets of one endpoint.
//!
//! At any time, operations are under way on only one of the two devices: before the first one is posted to the other,
//! all are complete. So a ticket is the current device's ticket plus the number of tickets that were issued before.
//! Nothing here posts or waits.

use crate::Ticket;

/// One of the two devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Which {
    /// The device that writes and reads.
    #[default]
    Data,
    /// The device with the agent.
    Atomics,
}

impl Which {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Data => Self::Atomics,
            Self::Atomics => Self::Data,
        }
    }
}

/// A read behind writes; when it is complete, the writes are in the target's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrailingRead {
    /// The device's ticket of the read.
    pub(super) ticket: Ticket,
    /// The last of our tickets before the read.
    behind: u64,
}

#[derive(Debug, Default)]
pub(super) struct Order {
    which: Which,
    /// The last ticket that was given out. `complete`: the last one up to which all are known to be complete.
    last: u64,
    complete: u64,
    /// The newest ticket of each device.
    newest: [u64; 2],
    /// The difference between our tickets and those of the present device.
    ahead: u64,
    /// The first write that was posted after the last trailing read.
    unread: Option<u64>,
    /// The trailing read that is under way.
    trailing: Option<TrailingRead>,
}

impl Order {
    pub(super) fn which(&self) -> Which {
        self.which
    }

    pub(super) fn last(&self) -> Ticket {
        Ticket(self.last)
    }

    pub(super) fn is_complete(&self, ticket: Ticket) -> bool {
        ticket.0 <= self.complete
    }

    pub(super) fn becomes_complete(&mut self, ticket: Ticket) {
        self.complete = self.complete.max(ticket.0);
    }

    /// The present device's ticket for an incomplete ticket of ours.
    pub(super) fn of_device(&self, ticket: Ticket) -> Ticket {
        Ticket(ticket.0.wrapping_sub(self.ahead))
    }

    /// Directs later operations to this device. Earlier ones are complete.
    pub(super) fn turn_to(&mut self, which: Which) {
        debug_assert_eq!(self.complete, self.last);
        self.which = which;
        self.ahead = self.last.wrapping_sub(self.newest[which as usize]);
        self.unread = None;
    }

    /// Notes a ticket of the present device, and returns ours.
    pub(super) fn has_posted(&mut self, ticket: Ticket, writes: bool) -> Ticket {
        // The operation is already complete.
        if ticket == Ticket::DONE {
            return ticket;
        }
        let newest = &mut self.newest[self.which as usize];
        *newest = ticket.0.max(*newest);
        let ours = ticket.0.wrapping_add(self.ahead);
        if writes && self.unread.is_none() {
            self.unread = Some(ours);
        }
        self.last = self.last.max(ours);
        Ticket(ours)
    }

    /// Whether this operation, or one before it, is a write that still needs a trailing read.
    pub(super) fn needs_trailing_read(&self, ticket: Ticket) -> bool {
        self.unread.is_some_and(|first| first <= ticket.0)
    }

    /// Notes that a trailing read was posted.
    pub(super) fn has_posted_trailing_read(&mut self, ticket: Ticket) {
        let newest = &mut self.newest[Which::Data as usize];
        *newest = ticket.0.max(*newest);
        self.unread = None;
        self.trailing = Some(TrailingRead {
            ticket,
            behind: self.last,
        });
    }

    pub(super) fn trailing_read(&self) -> Option<TrailingRead> {
        self.trailing
    }

    pub(super) fn trailing_read_is_complete(&mut self) {
        if let Some(read) = self.trailing.take() {
            self.becomes_complete(Ticket(read.behind));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(order: &mut Order) {
        let last = order.last();
        order.becomes_complete(last);
    }

    #[test]
    fn tickets_count_on_from_one_device_to_the_other() {
        let mut order = Order::default();
        let post = |order: &mut Order, ticket| order.has_posted(Ticket(ticket), false);
        assert_eq!(post(&mut order, 3), Ticket(3));
        complete(&mut order);
        order.turn_to(Which::Atomics);
        assert_eq!(post(&mut order, 1), Ticket(4));
        assert_eq!(post(&mut order, 2), Ticket(5));
        assert_eq!(order.of_device(Ticket(5)), Ticket(2));
        complete(&mut order);
        // Between the two, the device has numbered something of its own.
        order.turn_to(Which::Data);
        assert_eq!(post(&mut order, 6), Ticket(8));
        assert!(order.is_complete(Ticket(5)) && !order.is_complete(Ticket(8)));
        assert_eq!(order.of_device(Ticket(8)), Ticket(6));
        complete(&mut order);
        order.turn_to(Which::Atomics);
        assert_eq!(post(&mut order, 3), Ticket(9));
        assert_eq!(order.of_device(Ticket(9)), Ticket(3));
    }

    #[test]
    fn what_was_complete_at_once_needs_no_ticket() {
        let mut order = Order::default();
        assert_eq!(order.has_posted(Ticket::DONE, true), Ticket::DONE);
        assert!(order.is_complete(order.last()) && !order.needs_trailing_read(Ticket(1)));
    }

    #[test]
    fn writes_are_complete_once_the_read_behind_them_is() {
        let mut order = Order::default();
        let read = order.has_posted(Ticket(1), false);
        let write = order.has_posted(Ticket(2), true);
        let later = order.has_posted(Ticket(3), false);
        let needs = [read, write, later].map(|ticket| order.needs_trailing_read(ticket));
        assert_eq!(needs, [false, true, true]);
        order.has_posted_trailing_read(Ticket(4));
        // It says nothing of what was posted after it.
        let after = order.has_posted(Ticket(5), true);
        assert!(!order.needs_trailing_read(later) && order.needs_trailing_read(after));
        order.trailing_read_is_complete();
        assert!(order.is_complete(later) && !order.is_complete(after));
        assert_eq!(order.trailing_read(), None);
    }
}
