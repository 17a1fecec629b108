//! Forwards the ranks' output from their pipes to the launcher's standard output and standard error, in whole lines.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::event::epoll::EventFlags;

use super::LaunchError;
use super::sink::Sink;
use crate::sys::{is_transient, set_nonblocking};

/// A longer line is forwarded in pieces, to limit the memory that it takes.
const LONGEST_LINE: usize = 1 << 20;

/// The most bytes that a pipe holds, unless the system's limit was raised.
const LARGEST_PIPE: usize = 1 << 20;

/// Sources are numbered `2 × rank` for standard output and `2 × rank + 1` for standard error.
const LAUNCHER: usize = usize::MAX;

/// Clears the line that a rank has drawn on, and makes the cursor visible.
const CLEAR: &[u8] = b"\r\x1b[2K\x1b[?25h";

/// All output of the job.
pub(super) struct Output {
    /// One sink for both streams if they lead to the same file, so that lines stay whole there too.
    sinks: Vec<Sink>,
    sources: Vec<Source>,
    label: bool,
    /// Whether standard error is a terminal that ranks draw on.
    drawn_on: bool,
    buffer: Vec<u8>,
}

struct Source {
    pipe: Option<File>,
    /// The beginning of a line whose end has not arrived.
    partial: Vec<u8>,
    /// How many bytes will still be read.
    allowance: usize,
}

impl Output {
    /// `direct`: the ranks write to the launcher's streams themselves.
    pub(super) fn new(label: bool, direct: bool) -> io::Result<Self> {
        let mut sinks = vec![
            Sink::new("standard output", &io::stdout())?,
            Sink::new("standard error", &io::stderr())?,
        ];
        if sinks[0].is_same_as(&sinks[1])? {
            sinks.truncate(1);
        }
        Ok(Self {
            sinks,
            sources: Vec::new(),
            label,
            drawn_on: direct && io::stderr().is_terminal(),
            buffer: vec![0; 1 << 16],
        })
    }

    /// Adds the pipes of the next rank.
    pub(super) fn add(&mut self, stdout: OwnedFd, stderr: OwnedFd) -> io::Result<()> {
        for pipe in [stdout, stderr] {
            set_nonblocking(pipe.as_fd())?;
            let number = self.sources.len();
            let sink = self.sink_of(number);
            self.sinks[sink]
                .sources
                .add(pipe.as_fd(), EventFlags::IN, number as u64)?;
            self.sources.push(Source {
                pipe: Some(pipe.into()),
                partial: Vec::new(),
                allowance: usize::MAX,
            });
        }
        Ok(())
    }

    pub(super) fn interest(&self, fds: &mut Vec<libc::pollfd>) {
        self.sinks.iter().for_each(|sink| sink.interest(fds));
    }

    /// Forwards what can be forwarded now. Fails once for a stream that cannot be written to; the remaining output for
    /// that stream is then read and dropped.
    pub(super) fn turn(&mut self) -> Result<(), LaunchError> {
        for sink in 0..self.sinks.len() {
            let ready = match self.sinks[sink].is_full() {
                true => Vec::new(),
                false => (self.sinks[sink].sources.ready())
                    .map_err(LaunchError::system("waiting for output"))?,
            };
            for source in ready {
                self.read(source as usize);
            }
            let sink = &mut self.sinks[sink];
            sink.flush().map_err(|source| LaunchError::Output {
                stream: sink.name,
                source,
            })?;
        }
        Ok(())
    }

    /// Reads what a rank wrote before it failed, so that the message about the failure comes after it.
    pub(super) fn catch_up(&mut self, rank: u32) {
        for source in [2 * rank as usize, 2 * rank as usize + 1] {
            let mut left = LARGEST_PIPE;
            while left > 0 {
                match self.read(source) {
                    0 => break,
                    read => left = left.saturating_sub(read),
                }
            }
        }
    }

    /// Writes a line of the launcher's own to standard error.
    pub(super) fn say(&mut self, line: &str) {
        self.clear_line();
        let sink = self.sinks.last_mut().expect("there is at least one");
        sink.push(LAUNCHER, "", line.as_bytes());
        sink.push(LAUNCHER, "", b"\n");
    }

    /// Removes what a rank has drawn, such as a progress bar, after the launcher has ended it.
    pub(super) fn clear_line(&mut self) {
        if self.drawn_on {
            let sink = self.sinks.last_mut().expect("there is at least one");
            sink.push(LAUNCHER, "", CLEAR);
        }
    }

    pub(super) fn has_pipes(&self) -> bool {
        self.sources.iter().any(|source| source.pipe.is_some())
    }

    pub(super) fn is_full(&self) -> bool {
        self.sinks.iter().any(Sink::is_full)
    }

    pub(super) fn is_flushed(&self) -> bool {
        self.sinks.iter().all(Sink::is_empty)
    }

    /// Call it when the writers are dead. From then on at most one pipe's capacity is read from each pipe, even if a
    /// process that escaped continues to write.
    pub(super) fn last_call(&mut self) {
        for source in &mut self.sources {
            source.allowance = LARGEST_PIPE;
        }
    }

    /// Closes all pipes and forwards the unfinished lines.
    pub(super) fn close(&mut self) {
        for source in 0..self.sources.len() {
            self.end(source);
        }
    }

    /// Reads once. Returns the number of bytes, or 0 if none are available now.
    fn read(&mut self, number: usize) -> usize {
        let Some(source) = self.sources.get_mut(number) else {
            return 0;
        };
        let Some(pipe) = &mut source.pipe else {
            return 0;
        };
        let most = source.allowance.min(self.buffer.len());
        match pipe.read(&mut self.buffer[..most]) {
            Ok(0) => {
                self.end(number);
                0
            }
            Ok(read) => {
                source.allowance = source.allowance.saturating_sub(read);
                self.accept(number, read);
                read
            }
            Err(error) if is_transient(&error) => 0,
            Err(_) => {
                self.end(number);
                0
            }
        }
    }

    /// Cuts the first `len` bytes of the buffer into lines.
    fn accept(&mut self, number: usize, len: usize) {
        let label = self.label_of(number);
        let sink = self.sink_of(number);
        let sink = &mut self.sinks[sink];
        let partial = &mut self.sources[number].partial;
        let bytes = &self.buffer[..len];
        let end = bytes
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |at| at + 1);
        let (lines, rest) = bytes.split_at(end);
        if !lines.is_empty() || partial.len() + rest.len() > LONGEST_LINE {
            sink.push(number, &label, partial);
            partial.clear();
            sink.push(number, &label, lines);
        }
        partial.extend_from_slice(rest);
    }

    fn end(&mut self, number: usize) {
        let label = self.label_of(number);
        let sink = self.sink_of(number);
        let source = &mut self.sources[number];
        if let Some(pipe) = source.pipe.take() {
            self.sinks[sink].sources.remove(pipe.as_fd());
            let partial = std::mem::take(&mut source.partial);
            self.sinks[sink].push(number, &label, &partial);
            if self.label {
                self.sinks[sink].end_line(number);
            }
        }
    }

    fn sink_of(&self, source: usize) -> usize {
        (source % 2).min(self.sinks.len() - 1)
    }

    fn label_of(&self, source: usize) -> String {
        match self.label {
            true => format!("[{}] ", source / 2),
            false => String::new(),
        }
    }
}
