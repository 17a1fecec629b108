//! `/proc/self/maps` and `/proc/self/smaps`, read line by line through a buffer on the stack:
//! without allocating, so that a forked child may do it.

use std::ffi::CStr;
use std::ops::Range;
use std::os::fd::RawFd;

use super::memfd::FileId;
use super::sys::{self, Refusal};

/// One mapping of this process.
#[derive(Clone, Debug)]
pub(super) struct Vma {
    pub(super) range: Range<usize>,
    pub(super) readable: bool,
    pub(super) writable: bool,
    pub(super) executable: bool,
    pub(super) private: bool,
    pub(super) offset: u64,
    pub(super) file: FileId,
    pub(super) name: Name,
}

/// What a mapping is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// Nothing, `[heap]`, or a name given to anonymous memory.
    Anonymous,
    /// The initial thread's stack.
    Stack,
    /// The ring of an asynchronous I/O context, of io_uring, or of a device that reads and
    /// writes memory by itself.
    KernelWriter,
    /// A file or something special.
    Other,
}

/// A line of `smaps`.
pub(super) enum Line<'a> {
    /// The header of the next mapping: all that `maps` has.
    Mapping(Vma),
    /// What `smaps` says about the latest mapping: a key and a value.
    Detail(&'a [u8], &'a [u8]),
}

/// An open `maps` or `smaps`.
pub(super) struct Reader {
    fd: RawFd,
    buffer: [u8; 4096],
    start: usize,
    end: usize,
}

impl Reader {
    pub(super) fn maps() -> Result<Self, Refusal> {
        Self::open(c"/proc/self/maps")
    }

    pub(super) fn smaps() -> Result<Self, Refusal> {
        Self::open(c"/proc/self/smaps")
    }

    fn open(path: &'static CStr) -> Result<Self, Refusal> {
        Ok(Self {
            fd: sys::open(path)?,
            buffer: [0; 4096],
            start: 0,
            end: 0,
        })
    }

    /// The next line; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>, Refusal> {
        let Some(line) = self.next_line()? else {
            return Ok(None);
        };
        let line = &self.buffer[line];
        let malformed = Refusal {
            call: "read of /proc/self/smaps",
            errno: libc::EPROTO,
        };
        // Only headers start with a (lower-case) hexadecimal digit.
        if line.first().is_some_and(|&c| !c.is_ascii_uppercase()) {
            return parse_header(line)
                .map(|vma| Some(Line::Mapping(vma)))
                .ok_or(malformed);
        }
        let colon = line.iter().position(|&c| c == b':').ok_or(malformed)?;
        Ok(Some(Line::Detail(
            &line[..colon],
            line[colon + 1..].trim_ascii(),
        )))
    }

    /// The next mapping of `maps`; `None` at the end.
    pub(super) fn next_mapping(&mut self) -> Result<Option<Vma>, Refusal> {
        while let Some(line) = self.next()? {
            if let Line::Mapping(vma) = line {
                return Ok(Some(vma));
            }
        }
        Ok(None)
    }

    /// Where the next line lies in the buffer, without its newline. Of a line longer than the
    /// buffer (a path may be) only the beginning is kept.
    fn next_line(&mut self) -> Result<Option<Range<usize>>, Refusal> {
        loop {
            if let Some(len) = newline(&self.buffer[self.start..self.end]) {
                let line = self.start..self.start + len;
                self.start += len + 1;
                return Ok(Some(line));
            }
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.end == self.buffer.len() {
                return self.cut_line().map(Some);
            }
            let read = sys::read(self.fd, &mut self.buffer[self.end..])?;
            if read == 0 {
                return Ok(None);
            }
            self.end += read;
        }
    }

    /// Keeps the first half of the buffer as the line, and skips to the next newline through the
    /// second half.
    fn cut_line(&mut self) -> Result<Range<usize>, Refusal> {
        let half = self.buffer.len() / 2;
        loop {
            let read = sys::read(self.fd, &mut self.buffer[half..])?;
            self.start = half;
            self.end = half + read;
            match newline(&self.buffer[self.start..self.end]) {
                Some(len) => self.start += len + 1,
                None if read > 0 => continue,
                None => self.start = self.end,
            }
            return Ok(0..half);
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        sys::close(self.fd);
    }
}

fn newline(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&c| c == b'\n')
}

/// `start-end rwxp offset major:minor inode   name`
fn parse_header(line: &[u8]) -> Option<Vma> {
    let mut rest = line;
    let mut field = || {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(|&c| c == b' ').unwrap_or(rest.len());
        let (field, tail) = rest.split_at(end);
        rest = tail;
        field
    };
    let (start, end) = split(field(), b'-')?;
    let permissions = field();
    let offset = hexadecimal(field())?;
    let (major, minor) = split(field(), b':')?;
    let inode = decimal(field())?;
    let &[read, write, execute, share] = permissions else {
        return None;
    };
    Some(Vma {
        range: start as usize..end as usize,
        readable: read == b'r',
        writable: write == b'w',
        executable: execute == b'x',
        private: share == b'p',
        offset,
        file: FileId {
            major: major as u32,
            minor: minor as u32,
            inode,
        },
        name: classify(rest.trim_ascii_start()),
    })
}

fn classify(name: &[u8]) -> Name {
    let contains = |part: &[u8]| name.windows(part.len()).any(|window| window == part);
    if name.is_empty() || name == b"[heap]" || name.starts_with(b"[anon:") {
        Name::Anonymous
    } else if name.starts_with(b"[stack") {
        Name::Stack
    } else if contains(b"[aio]") || contains(b"[io_uring]") || contains(b"/infiniband/") {
        Name::KernelWriter
    } else {
        Name::Other
    }
}

fn split(pair: &[u8], at: u8) -> Option<(u64, u64)> {
    let middle = pair.iter().position(|&c| c == at)?;
    Some((
        hexadecimal(&pair[..middle])?,
        hexadecimal(&pair[middle + 1..])?,
    ))
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_parsed() {
        let vma = parse_header(b"7f00-8f00 rw-p 00001000 fe:0a 247282     /usr/bin/head").unwrap();
        assert_eq!(vma.range, 0x7f00..0x8f00);
        assert!(vma.readable && vma.writable && vma.private && !vma.executable);
        assert_eq!(
            (vma.offset, vma.file.major, vma.file.minor),
            (0x1000, 0xfe, 0x0a)
        );
        assert_eq!((vma.file.inode, vma.name), (247_282, Name::Other));
        let vma = parse_header(b"7f00-8f00 rw-p 00000000 00:00 0 ").unwrap();
        assert_eq!(vma.name, Name::Anonymous);
        let vma = parse_header(b"0-1 rw-s 0 00:0f 77   /[aio] (deleted)").unwrap();
        assert_eq!((vma.name, vma.private), (Name::KernelWriter, false));
        assert!(parse_header(b"7f00 rw-p").is_none());
        assert!(parse_header(b"").is_none());
    }

    #[test]
    fn the_whole_of_smaps_is_read() {
        let mut reader = Reader::smaps().unwrap();
        let (mut mappings, mut flags) = (0, 0);
        while let Some(line) = reader.next().unwrap() {
            match line {
                Line::Mapping(_) => mappings += 1,
                Line::Detail(b"VmFlags", _) => flags += 1,
                Line::Detail(..) => {}
            }
        }
        assert!(mappings > 5);
        assert_eq!(mappings, flags);
    }

    #[test]
    fn lines_longer_than_the_buffer_are_cut() {
        let mut ends = [0; 2];
        // SAFETY: the array has room for the two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        let long = format!(
            "10-20 rw-p 0 00:00 0 /{}\n30-40 rw-p 0 00:00 0\n",
            "x".repeat(9000)
        );
        // SAFETY: the bytes are there, and the pipe is this test's.
        let written = unsafe { libc::write(ends[1], long.as_ptr().cast(), long.len()) };
        assert_eq!(written, long.len() as isize);
        sys::close(ends[1]);
        let mut reader = Reader {
            fd: ends[0],
            buffer: [0; 4096],
            start: 0,
            end: 0,
        };
        assert_eq!(reader.next_mapping().unwrap().unwrap().range, 0x10..0x20);
        assert_eq!(reader.next_mapping().unwrap().unwrap().range, 0x30..0x40);
        assert!(reader.next_mapping().unwrap().is_none());
    }
}
