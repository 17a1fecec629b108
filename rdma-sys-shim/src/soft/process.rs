//! Processes as peers: which one is meant, and whether it still runs.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::{Error, Result};

const OWN_PROC: &str = "mount the namespace's own: `unshare --pid --fork --mount-proc`";

/// A process, told apart from a later one that was given the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessId {
    pub(crate) pid: u32,
    /// In clock ticks since boot.
    pub(crate) start_time: u64,
}

impl ProcessId {
    /// This process, which peers have to find in /proc by the number that it knows itself by.
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
        let (_, start_time) = stat(pid).map_err(|error| failed("self/stat", error))?;
        Ok(Self { pid, start_time })
    }

    /// `None` if no such process is to be seen.
    #[cfg(feature = "adversarial")]
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let (_, start_time) = stat(pid).ok()?;
        Some(Self { pid, start_time })
    }

    /// False once the process has exited, even while nobody has waited for it yet.
    pub(crate) fn runs(&self) -> bool {
        match stat(self.pid) {
            Ok((state, start_time)) => start_time == self.start_time && !has_ended(state),
            // It is gone, or another user's where /proc shows only one's own (hidepid), or no descriptor is free. A
            // process that nobody has waited for counts as running then.
            Err(_) => !is_unknown(self.pid),
        }
    }

    /// Waits until no thread of a process that is gone is left, which may be in the kernel still after the first one has
    /// ended; no longer than `limit`.
    pub(crate) fn wait_for_threads(&self, limit: Duration) {
        let begun = Instant::now();
        while self.has_threads() && begun.elapsed() < limit {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn has_threads(&self) -> bool {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.pid)) else {
            return false;
        };
        threads.flatten().any(|thread| {
            let known = read_stat(&thread.path().join("stat"));
            known.is_ok_and(|(state, _)| !has_ended(state))
        })
    }
}

/// Whether the kernel knows no process of this number.
fn is_unknown(pid: u32) -> bool {
    // SAFETY: signal 0 only looks.
    let looked = unsafe { libc::kill(pid.cast_signed(), 0) };
    looked == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

fn stat(pid: u32) -> io::Result<(u8, u64)> {
    read_stat(format!("/proc/{pid}/stat").as_ref())
}

fn read_stat(path: &Path) -> io::Result<(u8, u64)> {
    let text = fs::read(path)?;
    parse_stat(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Whether a state is that of what nobody has waited for yet, or is about to be gone.
fn has_ended(state: u8) -> bool {
    matches!(state, b'Z' | b'X' | b'x')
}

/// State and start time: fields 3 and 22, counted from behind the command's closing parenthesis,
/// since the command may contain anything.
fn parse_stat(text: &[u8]) -> Option<(u8, u64)> {
    let end = text.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(text.get(end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let start_time = fields.nth(18)?.parse().ok()?;
    Some((state, start_time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_parentheses_and_spaces_does_not_confuse_the_parser() {
        let line = b"42 (a) R (b c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20";
        assert_eq!(parse_stat(line), Some((b'S', 777)));
        assert_eq!(parse_stat(b"42 (cut off"), None);
        assert_eq!(parse_stat(b"42 (x) S 1 2"), None);
    }

    #[test]
    fn a_zombie_does_not_run() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        let (_, start_time) = stat(pid).unwrap();
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
        assert!(!id.runs(), "a zombie counts as gone");
        assert!(!id.has_threads());
        child.wait().unwrap();
        assert!(!id.runs());
        assert!(!id.has_threads());
        let own = ProcessId::own().unwrap();
        assert!(own.runs() && own.has_threads());
    }

    #[test]
    fn a_reused_process_number_is_not_the_same_process() {
        let mut id = ProcessId::own().unwrap();
        id.start_time += 1;
        assert!(!id.runs());
    }
}
