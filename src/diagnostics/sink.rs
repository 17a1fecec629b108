//! The file of a trace, which all ranks of a job write to. It is a complete JSON array at any time: a rank
//! that writes holds the file's lock, overwrites the closing bracket with its events, and closes the array
//! again. If a rank was killed while it wrote, the next writer removes the incomplete events.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Events are kept in memory up to this many bytes, or this long.
const MOST_BUFFERED: usize = 32 << 10;
const LONGEST_BUFFERED: Duration = Duration::from_millis(10);
/// A rank that finds the file locked keeps its events, up to this many bytes.
const MOST_KEPT: usize = 16 << 20;
/// How long to wait for the lock: during the job, and at its beginning and end.
const BRIEF_LOCK_WAIT: Duration = Duration::from_millis(20);
const LONGEST_LOCK_WAIT: Duration = Duration::from_secs(5);

/// The beginning of every trace.
const HEAD: &str = "[\n{\"name\":\"job\",\"ph\":\"M\",\"pid\":0,\"args\":{\"id\":\"";
const END: &[u8] = b"]\n";
/// An unfinished end is not longer than one write.
const LONGEST_TAIL: u64 = MOST_KEPT as u64 + 4096;

pub(super) struct Sink {
    path: PathBuf,
    file: File,
    /// The beginning of this job's file.
    head: String,
    /// Lines; each begins with a comma.
    buffer: String,
    written: Instant,
}

impl Sink {
    /// Opens the file of this job; the first rank creates it. It replaces another job's trace, but no other file. Also
    /// returns the start of the trace's time: `now`, or the value of the first rank.
    pub(super) fn open(path: &Path, job: u64, now: u64) -> io::Result<(Self, u64)> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let sink = Self {
            path: path.to_owned(),
            file,
            head: format!("{HEAD}{job:016x}\",\"begun\":\""),
            buffer: String::new(),
            written: Instant::now(),
        };
        if !sink.lock(LONGEST_LOCK_WAIT)? {
            return Err(io::Error::other("another process has locked it"));
        }
        let begun = sink.join(now);
        let unlocked = sink.file.unlock();
        let begun = begun?;
        unlocked?;
        Ok((sink, begun))
    }

    /// Needs the lock.
    fn join(&self, now: u64) -> io::Result<u64> {
        const DIGITS: usize = 19;
        let mut found = vec![0; self.head.len() + DIGITS];
        let len = read_up_to(&self.file, &mut found, 0)?;
        let found = &found[..len];
        let text = str::from_utf8(found).ok();
        let begun = text.and_then(|found| found.strip_prefix(&self.head)?.parse().ok());
        if let Some(begun) = begun {
            return Ok(begun);
        }
        // If a rank was killed while it created the file, there may be less.
        let known = found.len().min(HEAD.len());
        if found[..known] != HEAD.as_bytes()[..known] {
            return Err(io::Error::other(
                "it holds something else than a trace of a job, which would be lost",
            ));
        }
        let text = format!("{}{now:0DIGITS$}\"}}}}\n]\n", self.head);
        self.file.set_len(0)?;
        write_within_limits(&self.file, text.as_bytes(), 0)?;
        Ok(now)
    }

    /// Checks that no other job has taken the file meanwhile. Needs the lock.
    fn is_ours(&self) -> io::Result<()> {
        let mut found = vec![0; self.head.len()];
        let len = read_up_to(&self.file, &mut found, 0)?;
        match found[..len] == *self.head.as_bytes() {
            true => Ok(()),
            false => Err(io::Error::other("somebody else writes to it")),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds an event, one line of JSON.
    pub(super) fn push(&mut self, event: &str) {
        self.buffer.push(',');
        self.buffer.push_str(event);
        self.buffer.push('\n');
    }

    pub(super) fn write_out_if_due(&mut self) -> io::Result<()> {
        match self.buffer.len() >= MOST_BUFFERED || self.written.elapsed() >= LONGEST_BUFFERED {
            true => self.write_out(),
            false => Ok(()),
        }
    }

    /// Writes the events, unless the file is locked: then later.
    pub(super) fn write_out(&mut self) -> io::Result<()> {
        self.write_out_within(BRIEF_LOCK_WAIT).map(drop)
    }

    /// Writes the rest.
    pub(super) fn close(&mut self) -> io::Result<()> {
        match self.write_out_within(LONGEST_LOCK_WAIT)? {
            true => Ok(()),
            false => Err(io::Error::other("another process has locked it")),
        }
    }

    fn write_out_within(&mut self, limit: Duration) -> io::Result<bool> {
        if self.buffer.is_empty() {
            return Ok(true);
        }
        self.written = Instant::now();
        if !self.lock(limit)? {
            return match self.buffer.len() < MOST_KEPT {
                true => Ok(false),
                false => Err(io::Error::other("another process keeps it locked")),
            };
        }
        let written = self
            .is_ours()
            .and_then(|()| append(&self.file, &self.buffer));
        let unlocked = self.file.unlock();
        self.buffer.clear();
        written.and(unlocked).map(|()| true)
    }

    /// False if others hold the lock for longer than `limit`.
    fn lock(&self, limit: Duration) -> io::Result<bool> {
        let begun = Instant::now();
        loop {
            match self.file.try_lock() {
                Ok(()) => return Ok(true),
                Err(TryLockError::WouldBlock) if begun.elapsed() < limit => {
                    std::thread::sleep(Duration::from_micros(200));
                }
                Err(TryLockError::WouldBlock) => return Ok(false),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}

/// Replaces the closing bracket by lines, and closes it again. On failure, the file is unchanged. Needs the lock.
fn append(file: &File, lines: &str) -> io::Result<()> {
    let len = file.metadata()?.len();
    let at = end_of_lines(file, len)?;
    let text = [lines.as_bytes(), END].concat();
    let written = write_within_limits(file, &text, at);
    if written.is_err() {
        // The space for the bracket already existed.
        let _ = file.set_len(at);
        let _ = file.write_all_at(END, at);
    } else if at + (text.len() as u64) < len {
        file.set_len(at + text.len() as u64)?;
    }
    written
}

/// The position of the bracket, or of the unfinished end.
fn end_of_lines(file: &File, len: u64) -> io::Result<u64> {
    let lost = || io::Error::new(ErrorKind::InvalidData, "it has lost its events");
    let mut tail = [0; 3];
    if len > 3 && read_up_to(file, &mut tail, len - 3)? == 3 && &tail == b"\n]\n" {
        return Ok(len - END.len() as u64);
    }
    let start = len.saturating_sub(LONGEST_TAIL);
    let mut tail = vec![0; (len - start) as usize];
    let read = read_up_to(file, &mut tail, start)?;
    let last = tail[..read].iter().rposition(|&byte| byte == b'\n');
    // The job's line is always finished.
    match last {
        Some(last) if start + last as u64 > 1 => Ok(start + last as u64 + 1),
        _ => Err(lost()),
    }
}

fn read_up_to(file: &File, to: &mut [u8], from: u64) -> io::Result<usize> {
    let mut len = 0;
    while len < to.len() {
        match file.read_at(&mut to[len..], from + len as u64) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// If a write exceeded the limit of file sizes, the kernel would end the process.
fn write_within_limits(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    if at + bytes.len() as u64 > rdma_sys_shim::longest_file() {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    file.write_all_at(bytes, at)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::Value;

    use super::*;

    fn events(path: &Path) -> Vec<Value> {
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    fn event(rank: u32, index: usize) -> String {
        let filler = "x".repeat((index * 37 + rank as usize) % 400);
        format!("{{\"pid\":{rank},\"index\":{index},\"filler\":\"{filler}\"}}")
    }

    #[test]
    fn ranks_that_write_at_once_tear_nothing() {
        const EACH: usize = 500;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        std::fs::write(&path, &HEAD[..20]).unwrap();
        let begun: Vec<u64> = std::thread::scope(|scope| {
            let ranks: Vec<_> = (0..4)
                .map(|rank| {
                    let path = &path;
                    scope.spawn(move || {
                        let (mut sink, begun) = Sink::open(path, 7, 100 + u64::from(rank)).unwrap();
                        for index in 0..EACH {
                            sink.push(&event(rank, index));
                            if index % 7 == 0 {
                                sink.write_out().unwrap();
                            }
                            if index % 100 == 0 {
                                let whole = File::open(path).unwrap();
                                whole.lock_shared().unwrap();
                                assert!(!events(path).is_empty());
                            }
                        }
                        sink.close().unwrap();
                        begun
                    })
                })
                .collect();
            let ended = ranks.into_iter().map(|rank| rank.join().unwrap());
            ended.collect()
        });
        assert!(begun.iter().all(|&one| one == begun[0]), "{begun:?}");
        let events = events(&path);
        assert_eq!(events.len(), 1 + 4 * EACH);
        for rank in 0..4 {
            let of_rank = events[1..].iter().filter(|event| event["pid"] == rank);
            assert!(
                of_rank
                    .enumerate()
                    .all(|(index, event)| event["index"] == index)
            );
        }
    }

    #[test]
    fn what_a_killed_rank_left_unfinished_is_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        let (mut sink, _) = Sink::open(&path, 7, 1).unwrap();
        sink.push(&event(0, 0));
        sink.close().unwrap();
        let whole = std::fs::read(&path).unwrap();
        // Wherever the write of the next two events ended.
        let more = [",", &event(1, 9), "\n,", &event(1, 350), "\n]\n"].concat();
        let before = whole.len() - END.len();
        for cut in 0..more.len() {
            let mut torn = whole[..before].to_vec();
            torn.extend_from_slice(&more.as_bytes()[..cut]);
            std::fs::write(&path, torn).unwrap();
            let (mut sink, begun) = Sink::open(&path, 7, 2).unwrap();
            assert_eq!(begun, 1, "the job's, still");
            sink.push(&event(0, 1));
            sink.close().unwrap();
            let events = events(&path);
            assert_eq!(events[1]["index"], 0);
            assert_eq!(events.last().unwrap()["index"], 1, "cut at {cut}");
        }
    }

    #[test]
    fn another_jobs_file_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        for job in [1, 2] {
            let (mut sink, begun) = Sink::open(&path, job, job * 10).unwrap();
            assert_eq!(begun, job * 10);
            sink.push(&event(0, 0));
            sink.close().unwrap();
            assert_eq!(events(&path).len(), 2);
        }
    }

    #[test]
    fn what_cannot_be_written_is_an_error_that_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |path: &Path| Sink::open(path, 1, 1).err().unwrap().to_string();
        assert!(refused(&folder.path().join("no/such/trace")).contains("No such file"));
        assert!(refused(folder.path()).contains("directory"));
        assert!(refused(Path::new("/dev/null")).contains("not a regular file"));
        let precious = folder.path().join("results.json");
        for content in ["{\"format\":1}\n", "x", "[{\"name\":\"other\"}]"] {
            std::fs::write(&precious, content).unwrap();
            assert!(refused(&precious).contains("something else than a trace"));
            assert_eq!(std::fs::read_to_string(&precious).unwrap(), content);
        }
    }

    #[test]
    fn a_file_that_is_locked_by_others_keeps_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        let (mut sink, _) = Sink::open(&path, 7, 1).unwrap();
        let other = File::open(&path).unwrap();
        other.lock().unwrap();
        sink.push(&event(0, 0));
        let begun = Instant::now();
        sink.write_out().unwrap();
        assert!(begun.elapsed() < LONGEST_LOCK_WAIT);
        other.unlock().unwrap();
        sink.close().unwrap();
        assert_eq!(events(&path).len(), 2);
    }

    #[test]
    fn a_file_that_somebody_else_took_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        let (mut sink, _) = Sink::open(&path, 7, 1).unwrap();
        File::create(&path).unwrap().write_all(b"mine").unwrap();
        sink.push(&event(0, 0));
        assert!(sink.close().is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        std::fs::write(&path, "").unwrap();
        let (mut other, _) = Sink::open(&path, 8, 1).unwrap();
        sink.push(&event(0, 1));
        assert!(sink.close().is_err());
        other.push(&event(1, 0));
        other.close().unwrap();
        assert_eq!(events(&path).len(), 2);
    }
}
