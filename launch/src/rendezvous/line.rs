//! Rank 0's connection to a rank that has proved who it is: a non-blocking socket, and the channel over it.

use std::io::Read as _;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd as _;

use super::channel::{Broken, Channel, Message};
use crate::sys::{self, Unsent};

/// The most bytes received at a time, so that no connection delays the others.
const PIECE: usize = 1 << 14;
/// A rank that sends more than this unasked is disconnected. Ranks of this library send one block of at most 1 MiB.
const MOST_UNASKED: usize = 8 << 20;

pub(super) struct Line {
    stream: TcpStream,
    channel: Channel,
    unsent: Unsent,
    is_open: bool,
}

impl Line {
    /// Takes a non-blocking socket. `answer` is sent before all messages.
    pub(super) fn new(stream: TcpStream, channel: Channel, answer: &[u8]) -> Self {
        let mut line = Self {
            stream,
            channel,
            unsent: Unsent::default(),
            is_open: true,
        };
        line.unsent.push(answer);
        line.send();
        line
    }

    /// Sends as much of a message as the socket has room for. [`Line::exchange`] sends the rest.
    pub(super) fn say(&mut self, message: &Message) {
        let sealed = self.channel.seal(message);
        self.unsent.push(&sealed);
        self.send();
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Whether the other end may still send something.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// What to watch the socket for.
    pub(super) fn interest(&self) -> libc::pollfd {
        let out = if self.has_unsent() { libc::POLLOUT } else { 0 };
        match self.is_open {
            true => sys::interest(self.stream.as_raw_fd(), libc::POLLIN | out),
            // The kernel ignores negative descriptors.
            false => sys::interest(-1, 0),
        }
    }

    /// Sends as much as there is room for. Drops what can no longer be sent: the receiving side finds that the other
    /// end is gone, after the data that it sent before.
    fn send(&mut self) {
        if let Err(error) = self.unsent.write_to(&mut self.stream) {
            tracing::debug!(%error, "a rank of the rendezvous takes nothing more");
            self.unsent.clear();
        }
    }

    /// Sends as much as there is room for, and receives at most one piece of what has arrived.
    pub(super) fn exchange(&mut self) {
        self.send();
        let mut piece = [0; PIECE];
        match self.stream.read(&mut piece) {
            Ok(0) => self.is_open = false,
            Ok(_) if self.channel.held() > MOST_UNASKED => self.is_open = false,
            Ok(len) => self.channel.push(&piece[..len]),
            Err(error) => self.is_open = sys::is_transient(&error),
        }
        if !self.is_open {
            self.unsent.clear();
        }
    }

    /// The next message, if all of it was received.
    pub(super) fn next(&mut self, longest: usize) -> Result<Option<Message>, Broken> {
        self.channel.next(longest)
    }

    /// Closes the sending direction.
    pub(super) fn end(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}
