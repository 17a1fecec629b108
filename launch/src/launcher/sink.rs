//! Where the ranks' output goes: the launcher's own standard output or standard error.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt as _;

use crate::sys::{Epoll, Unsent, interest, is_ready};

/// If more bytes than this wait to be written, the launcher stops reading from the ranks, which then wait too.
const FULL: usize = 1 << 20;

/// Whole lines that wait to be written.
///
/// The file belongs to the process that started the launcher, and others may share it, so its flags are not changed. To
/// never block the loop, a write follows a `poll`. If the file is not a regular file, a write has at most `PIPE_BUF`
/// bytes. It is cut at the end of a line if possible: then other processes' output cannot split the line.
pub(super) struct Sink {
    pub(super) name: &'static str,
    /// The pipes that lead here. They are watched together, so that all can be ignored while this sink is full.
    pub(super) sources: Epoll,
    file: File,
    piece: usize,
    waiting: Unsent,
    /// The source of the unfinished line, if there is one.
    open: Option<usize>,
    broken: bool,
}

impl Sink {
    pub(super) fn new(name: &'static str, stream: &impl AsFd) -> io::Result<Self> {
        let file = File::from(stream.as_fd().try_clone_to_owned()?);
        let piece = match file.metadata()?.is_file() {
            true => usize::MAX,
            false => libc::PIPE_BUF,
        };
        Ok(Self {
            name,
            sources: Epoll::new()?,
            file,
            piece,
            waiting: Unsent::default(),
            open: None,
            broken: false,
        })
    }

    /// Whether both lead to the same file, for example after `2>&1`.
    pub(super) fn is_same_as(&self, other: &Self) -> io::Result<bool> {
        let (one, two) = (self.file.metadata()?, other.file.metadata()?);
        Ok((one.dev(), one.ino()) == (two.dev(), two.ino()))
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.rest().len() >= FULL
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn interest(&self, fds: &mut Vec<libc::pollfd>) {
        if !self.is_full() {
            fds.push(interest(self.sources.as_raw_fd(), libc::POLLIN));
        }
        if !self.is_empty() {
            fds.push(interest(self.file.as_raw_fd(), libc::POLLOUT));
        }
    }

    /// Appends text of one source, with its label before each line. First ends a line that another source left
    /// unfinished.
    pub(super) fn push(&mut self, source: usize, label: &str, text: &[u8]) {
        if self.broken || text.is_empty() {
            return;
        }
        if self.open.is_some_and(|open| open != source) {
            self.waiting.push(b"\n");
            self.open = None;
        }
        if label.is_empty() {
            self.waiting.push(text);
        } else {
            for line in text.split_inclusive(|&byte| byte == b'\n') {
                if self.open.take().is_none() {
                    self.waiting.push(label.as_bytes());
                }
                self.waiting.push(line);
            }
        }
        self.open = (!text.ends_with(b"\n")).then_some(source);
    }

    /// Ends the unfinished line, if it is `source`'s.
    pub(super) fn end_line(&mut self, source: usize) {
        if self.open == Some(source) {
            self.push(source, "", b"\n");
        }
    }

    /// Writes as much as can be written now. Reports a failure once, and drops everything after it.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while !self.waiting.is_empty() && is_ready(self.file.as_fd(), libc::POLLOUT) {
            match self.file.write(cut(self.waiting.rest(), self.piece)) {
                Ok(written) => self.waiting.advance(written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Another process made the file non-blocking.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.broken = true;
                    self.waiting.clear();
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

/// The first bytes to write: at most `most`, cut at the end of the last line if there is one.
fn cut(bytes: &[u8], most: usize) -> &[u8] {
    if bytes.len() <= most {
        return bytes;
    }
    let line_end = bytes[..most].iter().rposition(|&byte| byte == b'\n');
    &bytes[..line_end.map_or(most, |at| at + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed(steps: &[(usize, &str, &str)]) -> String {
        let mut sink = Sink::new("a file", &tempfile::tempfile().unwrap()).unwrap();
        for (source, label, text) in steps {
            sink.push(*source, label, text.as_bytes());
        }
        String::from_utf8(sink.waiting.rest().to_vec()).unwrap()
    }

    #[test]
    fn a_line_left_open_is_ended_before_another_source_writes() {
        assert_eq!(
            pushed(&[(0, "", "a"), (0, "", "b\nc"), (0, "", "d")]),
            "ab\ncd"
        );
        assert_eq!(
            pushed(&[(0, "", "a"), (1, "", "b\n"), (0, "", "c")]),
            "a\nb\nc"
        );
    }

    #[test]
    fn every_line_gets_its_label_once() {
        assert_eq!(pushed(&[(0, "[0] ", "a\n\nb\n")]), "[0] a\n[0] \n[0] b\n");
        assert_eq!(
            pushed(&[
                (0, "[0] ", "a"),
                (0, "[0] ", "b\nc"),
                (1, "[1] ", "d\n"),
                (0, "[0] ", "e\n")
            ]),
            "[0] ab\n[0] c\n[1] d\n[0] e\n"
        );
    }

    #[test]
    fn pieces_end_with_a_line_where_one_ends() {
        assert_eq!(cut(b"ab\ncd\nef", 100), b"ab\ncd\nef");
        assert_eq!(cut(b"ab\ncd\nef", 7), b"ab\ncd\n");
        assert_eq!(cut(b"abcdef", 4), b"abcd");
    }

    #[test]
    fn a_broken_file_is_reported_once() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut sink = Sink::new("a pipe", &writer).unwrap();
        sink.push(0, "", b"text\n");
        assert_eq!(sink.flush().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        sink.push(0, "", b"text\n");
        assert!(sink.is_empty());
        sink.flush().unwrap();
    }
}
