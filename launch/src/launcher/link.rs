//! The launcher's end of a rank's PMI connection.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::event::epoll::EventFlags;

use crate::sys::{Epoll, Unsent, is_ready, is_transient};

/// Receives requests and sends replies. No request is received while replies are waiting to be sent, so that a rank
/// that does not read cannot fill the launcher's memory.
pub(super) struct Link {
    socket: Option<UnixStream>,
    waiting: Unsent,
    token: u64,
    closed: Option<Instant>,
}

impl Link {
    /// Watches the socket under this token.
    pub(super) fn new(socket: UnixStream, events: &Epoll, token: u64) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        events.add(socket.as_fd(), EventFlags::IN, token)?;
        Ok(Self {
            socket: Some(socket),
            waiting: Unsent::default(),
            token,
            closed: None,
        })
    }

    /// Whether [`Link::receive`] would find something.
    pub(super) fn is_ready(&self) -> bool {
        let socket = self.socket.as_ref();
        socket.is_some_and(|socket| is_ready(socket.as_fd(), libc::POLLIN))
    }

    /// Receives what has come. If replies are waiting, sends those instead.
    pub(super) fn receive<'b>(&mut self, events: &Epoll, buffer: &'b mut [u8]) -> &'b [u8] {
        if !self.waiting.is_empty() {
            self.flush(events);
            return &[];
        }
        let Some(socket) = &mut self.socket else {
            return &[];
        };
        match socket.read(buffer) {
            Ok(read) if read > 0 => &buffer[..read],
            Err(error) if is_transient(&error) => &[],
            // End of file, or a reset because the rank has ended with unread replies.
            _ => {
                self.hang_up(events);
                &[]
            }
        }
    }

    pub(super) fn send(&mut self, events: &Epoll, line: &str) {
        if self.socket.is_some() {
            self.waiting.push(line.as_bytes());
            self.flush(events);
        }
    }

    /// When the connection was closed, if it is closed.
    pub(super) fn closed(&self) -> Option<Instant> {
        self.closed
    }

    pub(super) fn hang_up(&mut self, events: &Epoll) {
        if let Some(socket) = self.socket.take() {
            events.remove(socket.as_fd());
            self.closed = Some(Instant::now());
        }
        self.waiting.clear();
    }

    fn flush(&mut self, events: &Epoll) {
        let Some(socket) = &mut self.socket else {
            return;
        };
        let sent = self.waiting.write_to(socket);
        let next = match self.waiting.is_empty() {
            true => EventFlags::IN,
            false => EventFlags::OUT,
        };
        if sent.is_err() || events.modify(socket.as_fd(), next, self.token).is_err() {
            self.hang_up(events);
        }
    }
}
