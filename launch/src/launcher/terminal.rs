//! Rank 0's standard input, if the launcher's is a terminal.
//!
//! The ranks have a process group of their own, so Ctrl-C reaches only the launcher. For the terminal they are a
//! background job: a read would stop rank 0 with SIGTTIN. So the launcher reads the terminal while it is in the
//! foreground, and forwards the lines to rank 0 through a pipe. Rank 0 inherits any other standard input (a file, a
//! pipe, `/dev/null`), and the launcher never reads from it.

use std::fs::File;
use std::io::{self, IsTerminal as _, PipeReader, Read as _};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::sys::{Unsent, interest, is_ready, set_nonblocking};

/// How often a launcher in the background checks whether it has come to the foreground.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Passes lines from the terminal to rank 0.
pub(super) struct Relay {
    terminal: File,
    pipe: File,
    unsent: Unsent,
}

impl Relay {
    /// A relay and rank 0's end of it, if standard input is a terminal.
    pub(super) fn new() -> io::Result<Option<(Self, PipeReader)>> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Ok(None);
        }
        let (reader, writer) = io::pipe()?;
        set_nonblocking(writer.as_fd())?;
        let relay = Self {
            terminal: stdin.as_fd().try_clone_to_owned()?.into(),
            pipe: OwnedFd::from(writer).into(),
            unsent: Unsent::default(),
        };
        Ok(Some((relay, reader)))
    }

    pub(super) fn interest(&self, fds: &mut Vec<libc::pollfd>) {
        if !self.unsent.is_empty() {
            fds.push(interest(self.pipe.as_raw_fd(), libc::POLLOUT));
        } else if self.is_foreground() {
            fds.push(interest(self.terminal.as_raw_fd(), libc::POLLIN));
        }
    }

    /// When to check again, even if no descriptor is ready.
    pub(super) fn deadline(&self) -> Option<Instant> {
        (!self.is_foreground()).then(|| Instant::now() + LOOK_AGAIN)
    }

    /// Forwards what can be forwarded now. `false` at the end of input, or after rank 0 has closed its end.
    pub(super) fn turn(&mut self) -> bool {
        if self.unsent.is_empty() && !self.read() {
            return false;
        }
        self.unsent.write_to(&mut self.pipe).is_ok()
    }

    fn read(&mut self) -> bool {
        if !self.is_foreground() || !is_ready(self.terminal.as_fd(), libc::POLLIN) {
            return true;
        }
        let mut line = [0; 4096];
        match self.terminal.read(&mut line) {
            Ok(0) => false,
            Ok(len) => {
                self.unsent.push(&line[..len]);
                true
            }
            Err(error) => error.kind() == io::ErrorKind::Interrupted,
        }
    }

    fn is_foreground(&self) -> bool {
        // SAFETY: both calls take at most a descriptor number.
        unsafe { libc::tcgetpgrp(self.terminal.as_raw_fd()) == libc::getpgrp() }
    }
}
