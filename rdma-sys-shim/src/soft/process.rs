//! Processes by their number in /proc.

use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::{Error, Result};

const OWN_PROC: &str = "mount the namespace's own: `unshare --pid --fork --mount-proc`";

/// A process. Its start time tells it apart from a later process with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessId {
    pub(crate) pid: u32,
    /// In clock ticks since boot.
    pub(crate) start_time: u64,
}

impl ProcessId {
    /// This process. Peers have to find it in /proc by the number that it knows itself.
    pub(crate) fn own() -> Result<Self> {
        let pid = std::process::id();
        let failed = |what: &str, error| Error::os(format!("reading /proc/{what}"), error);
        let shown = fs::read_link("/proc/self").map_err(|error| failed("self", error))?;
        if shown.as_os_str() != pid.to_string().as_str() {
            let error = io::Error::other(format!(
                "/proc is of another PID namespace: it shows this process, {pid}, as {}",
                shown.display()
            ));
            return Err(failed("self", error).with_remedy(OWN_PROC));
        }
        let found = stat(pid).map_err(|error| failed("self/stat", error))?;
        let start_time = found.start_time;
        Ok(Self { pid, start_time })
    }

    /// `None` if no such process is visible.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let start_time = stat(pid).ok()?.start_time;
        Some(Self { pid, start_time })
    }

    /// Whether a thread of the process runs, even if the process has started another program (exec).
    pub(crate) fn exists(&self) -> bool {
        match stat(self.pid) {
            Ok(found) if found.start_time != self.start_time => false,
            // This is the state of the first thread, which may end before the others.
            Ok(found) => {
                !found.has_ended || threads(self.pid).map_or(true, |threads| !threads.is_empty())
            }
            // The process is gone, or belongs to another user and /proc hides it (hidepid), or no descriptor is free.
            // In the last two cases, a zombie counts as running.
            Err(_) => !is_unknown(self.pid),
        }
    }

    /// As one word; 0 stands for no process.
    pub(crate) fn to_word(self) -> u64 {
        self.start_time << u32::BITS | u64::from(self.pid)
    }

    /// Whether /proc shows the process.
    pub(crate) fn is_visible(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }

    /// Whether the process with this word exists.
    pub(crate) fn word_exists(word: u64) -> bool {
        let pid = word as u32;
        let half = word >> u32::BITS;
        let found = Self::of(pid);
        match found {
            Some(found) => found.start_time << u32::BITS >> u32::BITS == half && found.exists(),
            None => !is_unknown(pid),
        }
    }
}

/// The running threads of a process; empty if the process is gone.
///
/// # Errors
/// The system refuses the list.
pub(crate) fn threads(pid: u32) -> io::Result<Vec<u32>> {
    // A thread may start another one and end while the list is being read.
    let is_over = |error: &io::Error| {
        let code = error.raw_os_error();
        matches!(code, Some(libc::ENOENT | libc::ESRCH))
    };
    let listed = match fs::read_dir(format!("/proc/{pid}/task")) {
        Err(error) if is_over(&error) => return Ok(Vec::new()),
        listed => listed?,
    };
    let mut running = Vec::new();
    for thread in listed {
        let thread = thread?;
        let number: Option<u32> = thread
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        match read_stat(&thread.path().join("stat")) {
            Ok(found) if !found.has_ended => running.extend(number),
            Err(error) if !is_over(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(running)
}

/// Whether the kernel knows no process with this number.
fn is_unknown(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_none_or(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

/// The status of a process or thread in /proc.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    /// It is a zombie, or is about to become one.
    has_ended: bool,
    start_time: u64,
}

fn stat(pid: u32) -> io::Result<Stat> {
    read_stat(format!("/proc/{pid}/stat").as_ref())
}

fn read_stat(path: &Path) -> io::Result<Stat> {
    let text = fs::read(path)?;
    parse_stat(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Reads fields 3, 9 and 22, counted from the command's last closing parenthesis: the command may contain any
/// character.
fn parse_stat(text: &[u8]) -> Option<Stat> {
    /// Kernel flag `PF_EXITING`: it has begun to end.
    const EXITING: u64 = 4;
    let end = text.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(text.get(end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let flags: u64 = fields.nth(5)?.parse().ok()?;
    let start_time = fields.nth(12)?.parse().ok()?;
    Some(Stat {
        has_ended: matches!(state, "Z" | "X" | "x") || flags & EXITING != 0,
        start_time,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_parentheses_and_spaces_does_not_confuse_the_parser() {
        let parse = |state, flags| {
            let rest = "7 8 9 10 11 12 13 14 15 16 17 18 777 20";
            let line = format!("42 (a) R (b c) {state} 1 2 3 4 5 {flags} {rest}");
            parse_stat(line.as_bytes())
        };
        let start_time = 777;
        for (state, flags, has_ended) in [
            ("S", 0x40_0000, false),
            ("S", 0x40_0004, true),
            ("Z", 0, true),
        ] {
            assert_eq!(
                parse(state, flags),
                Some(Stat {
                    has_ended,
                    start_time
                })
            );
        }
        assert_eq!(parse_stat(b"42 (cut off"), None);
        assert_eq!(parse_stat(b"42 (x) S 1 2"), None);
    }

    #[test]
    fn a_zombie_does_not_exist() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        let start_time = stat(pid).unwrap().start_time;
        let id = ProcessId { pid, start_time };
        // SAFETY: an all-zero siginfo_t is a valid out-parameter; WNOWAIT leaves the zombie there.
        let waited = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(
                libc::P_PID,
                pid,
                &raw mut info,
                libc::WEXITED | libc::WNOWAIT,
            )
        };
        assert_eq!(waited, 0);
        assert!(!id.exists(), "a zombie counts as gone");
        assert!(!ProcessId::word_exists(id.to_word()));
        assert_eq!(threads(pid).unwrap(), []);
        child.wait().unwrap();
        assert!(!id.exists());
        assert!(!ProcessId::word_exists(id.to_word()));
        let own = ProcessId::own().unwrap();
        assert!(own.exists() && ProcessId::word_exists(own.to_word()));
        assert!(
            threads(own.pid)
                .unwrap()
                .iter()
                .any(|&thread| thread != own.pid)
        );
    }

    #[test]
    fn a_reused_process_number_is_not_the_same_process() {
        let mut id = ProcessId::own().unwrap();
        id.start_time += 1;
        assert!(!id.exists());
        assert!(!ProcessId::word_exists(id.to_word()));
    }
}
