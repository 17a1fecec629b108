//! A message through a pipe: the pieces in which the sender writes it, and what the receiver says of how far it has read.

use std::collections::VecDeque;

use super::LinkCosts;
use crate::comm::{acknowledgement, piece};

/// The times of a message if sender and receiver begin at once, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Transfer {
    /// Until the receiver has the message.
    pub(super) time: f64,
    /// Until the sender has finished.
    pub(super) sender_time: f64,
    /// Until the sender can send the next one.
    pub(super) port_time: f64,
    /// Processor time of the receiver.
    pub(super) receiver_work: f64,
    /// Whether the sender cannot finish before the receiver has read a part.
    pub(super) needs_receiver: bool,
}

impl Transfer {
    /// For a message of `bytes` bytes. The pipe's ring is empty, and the pipe has sent nothing before.
    pub(super) fn new(bytes: u64, link: &LinkCosts) -> Self {
        let (mut sent, mut received, mut read, mut acknowledged) = (0, 0, 0, 0);
        let mut under_way = VecDeque::new();
        let mut told = VecDeque::new();
        let (mut sender, mut free, mut receiver) = (0.0_f64, 0.0_f64, 0.0_f64);
        let mut receiver_work = 0.0;
        let mut needs_receiver = false;
        while received < bytes {
            let len = piece(sent, read, bytes - sent).unwrap_or(0);
            if len > 0 {
                let on_link = link.gap_per_byte * len as f64;
                let start = sender.max(free);
                sender = start + link.overhead;
                free = start + link.gap.max(on_link);
                sent += len;
                under_way.push_back((sent, sender + on_link + link.latency));
                continue;
            }
            if sent < bytes
                && let Some((so_far, at)) = told.pop_front()
            {
                read = so_far;
                sender = sender.max(at);
                needs_receiver = true;
                continue;
            }
            let Some((so_far, at)) = under_way.pop_front() else {
                break;
            };
            receiver = receiver.max(at) + link.overhead;
            receiver_work += link.overhead;
            received = so_far;
            if let Some(read) = acknowledgement(received, acknowledged) {
                acknowledged = read;
                receiver += link.overhead;
                receiver_work += link.overhead;
                told.push_back((read, receiver + link.latency));
            }
        }
        Self {
            time: receiver,
            sender_time: sender,
            port_time: free,
            receiver_work,
            needs_receiver,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: LinkCosts = LinkCosts {
        latency: 1000.0,
        overhead: 100.0,
        gap: 150.0,
        gap_per_byte: 0.5,
    };

    #[test]
    fn a_short_message_is_one_piece_and_a_long_one_waits_for_its_receiver() {
        let short = Transfer::new(80, &LINK);
        assert_eq!(
            (short.time, short.sender_time),
            (100.0 + 40.0 + 1000.0 + 100.0, 100.0)
        );
        assert!(!short.needs_receiver && !Transfer::new(8192, &LINK).needs_receiver);
        let long = Transfer::new(8193, &LINK);
        assert!(long.needs_receiver);
        // Once the ring is full, half of it goes in the time of one way and back.
        let (once, twice) = (Transfer::new(1 << 20, &LINK), Transfer::new(2 << 20, &LINK));
        let per_half = (twice.time - once.time) / f64::from((1 << 20) / 4096);
        assert!(
            per_half > 1000.0 && per_half < 4096.0 * 0.5 + 2400.0,
            "{per_half}"
        );
    }
}
