//! A connection between two ranks that have met: a socket that never waits, and the channel over it.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::time::Instant;

use super::channel::{Broken, Channel, Message};
use crate::sys;

/// Of what is received at a time, so that no connection keeps the others waiting.
const PIECE: usize = 1 << 14;

pub(super) struct Line {
    stream: TcpStream,
    channel: Channel,
    unsent: Vec<u8>,
    sent: usize,
}

/// Why no message comes.
pub(super) enum Silence {
    /// The other end hung up, or cannot be reached.
    Ended,
    Broken,
    /// The deadline has come.
    Late,
}

impl From<Broken> for Silence {
    fn from(Broken: Broken) -> Self {
        Self::Broken
    }
}

impl Line {
    /// Over a socket that never waits.
    pub(super) fn new(stream: TcpStream, channel: Channel) -> Self {
        Self {
            stream,
            channel,
            unsent: Vec::new(),
            sent: 0,
        }
    }

    /// Takes bytes that came before there was a channel.
    pub(super) fn queue_raw(&mut self, bytes: &[u8]) {
        self.unsent.extend_from_slice(bytes);
    }

    /// To be sent by [`Line::send`].
    pub(super) fn queue(&mut self, message: &Message) {
        let sealed = self.channel.seal(message);
        self.unsent.extend(sealed);
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.sent < self.unsent.len()
    }

    /// What to watch the socket for.
    pub(super) fn interest(&self) -> libc::pollfd {
        let out = if self.has_unsent() { libc::POLLOUT } else { 0 };
        sys::interest(self.stream.as_raw_fd(), libc::POLLIN | out)
    }

    /// Sends what there is room for. What cannot be sent any more is dropped: that the other end is gone
    /// is seen where it is received from, behind what it said before.
    pub(super) fn send(&mut self) {
        while self.has_unsent() {
            match self.stream.write(&self.unsent[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    tracing::debug!(%error, "a rank of the rendezvous takes nothing more");
                    break;
                }
            }
        }
        self.unsent.clear();
        self.sent = 0;
    }

    /// Receives what is there, a piece of it at most. Says whether there may be more later.
    pub(super) fn receive(&mut self) -> bool {
        let mut piece = [0; PIECE];
        loop {
            return match self.stream.read(&mut piece) {
                Ok(0) => false,
                Ok(len) => {
                    self.channel.push(&piece[..len]);
                    true
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            };
        }
    }

    /// The next message, if all of it was received.
    pub(super) fn next(&mut self, longest: usize) -> Result<Option<Message>, Broken> {
        self.channel.next(longest)
    }

    /// Sends what is unsent, and waits for the next message.
    pub(super) fn wait(
        &mut self,
        longest: usize,
        deadline: Option<Instant>,
    ) -> io::Result<Result<Message, Silence>> {
        let mut is_open = true;
        loop {
            self.send();
            match self.next(longest) {
                Ok(Some(message)) => return Ok(Ok(message)),
                Ok(None) if !is_open => return Ok(Err(Silence::Ended)),
                Ok(None) => {}
                Err(broken) => return Ok(Err(broken.into())),
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(Err(Silence::Late));
            }
            sys::poll(&mut [self.interest()], deadline)?;
            is_open = self.receive();
        }
    }

    /// Says that nothing more will be said.
    pub(super) fn end(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// Forgets what is there. Says whether there may be more later.
    pub(super) fn drain(&mut self) -> bool {
        let mut piece = [0; PIECE];
        match self.stream.read(&mut piece) {
            Ok(len) => len > 0,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
}
