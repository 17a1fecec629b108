//! Which way bytes take to and from memory of a peer that is not mapped here, and in which parts. The table in
//! `docs/protocols.md` is what a test below prints.

use std::time::Duration;

use super::iovec;
use super::segment::SLOT_BYTES;
use crate::memory::{self, Direction};

/// How unmapped memory of a peer is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    /// The memory is our own.
    Direct,
    CrossMemory,
    Agent,
}

/// Who moves the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// This process, by its own loads and stores.
    Own,
    /// A waiting thread of the target.
    Assist,
    Kernel,
    /// The target's agent.
    Agent,
}

/// After this many parts by the kernel, a sleeping thread of the target is called. Waking it takes as long as two or
/// three parts.
pub(super) const WORTH_A_CALL: usize = 16;

/// How long a request waits for a thread that promised to serve: alone or the first of several, and one behind others
/// that were served. The kernel would take a microsecond instead of the first.
pub(super) const PATIENCE_ALONE: Duration = Duration::from_micros(3);
pub(super) const PATIENCE_BEHIND: Duration = Duration::from_micros(24);

/// The way along a path. `polls`: whether a thread of the target polls for requests. Such a thread is faster than the
/// kernel at any length, although the bytes move between the processors twice: both processors copy, and the kernel
/// takes a system call, and has to find each page.
pub(super) fn way(path: Path, polls: impl FnOnce() -> bool) -> Way {
    match path {
        Path::Direct => Way::Own,
        Path::Agent => Way::Agent,
        Path::CrossMemory if polls() => Way::Assist,
        Path::CrossMemory => Way::Kernel,
    }
}

/// The bytes in one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestSize {
    /// The most bytes of a run.
    pub(super) run: usize,
    /// The most bytes of a list.
    pub(super) list: usize,
}

/// Small, so that the target serves one request while the origin fills the next.
pub(super) const OF_ASSIST: RequestSize = RequestSize {
    run: 16 << 10,
    list: 1 << 10,
};
/// After so many bytes of a long run, the origin looks again whether a thread polls. By the kernel, the whole may take
/// so long that the thread that was called sleeps again at its end.
pub(super) const ASKED_ANEW: usize = 1 << 20;
/// Large, since each request may have to wake the agent.
pub(super) const OF_AGENT: RequestSize = RequestSize {
    run: SLOT_BYTES,
    list: iovec::MOST_BYTES,
};

/// From this length on, the kernel's copy is slow if the destination lies a little behind the source.
const SLOW_FROM: usize = 2 << 10;
/// Size of the buffer for slow copies.
const BUFFER: usize = 64 << 10;
/// Size of the buffer for copies that stream from it. It is larger, to reduce the number of system calls.
const STREAM_BUFFER: usize = 256 << 10;
/// Bytes of one call. The peer is checked between calls, so that a later process with the same number is left alone.
const CALL: usize = 4 << 20;

/// How the kernel moves a run: the bytes of each call, and whether through a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Course {
    pub(super) at_a_time: usize,
    pub(super) by_buffer: bool,
}

/// The course for `len` bytes between `local` and `remote`.
pub(super) fn course(direction: Direction, local: *mut u8, remote: u64, len: usize) -> Course {
    let (at_a_time, by_buffer) = match is_askew(direction, local, remote) {
        true if memory::streams(len) => (STREAM_BUFFER, true),
        _ if len >= SLOW_FROM && is_slow(direction, local, remote) => (BUFFER, true),
        _ => (CALL, false),
    };
    Course {
        at_a_time,
        by_buffer,
    }
}

/// Whether the kernel's copy takes four times as long. On x86-64 it is `rep movsb`, page by page, which is slow if the
/// destination lies less than 32 bytes behind the source, as a buffer of `malloc` does behind a page.
fn is_slow(direction: Direction, local: *mut u8, remote: u64) -> bool {
    const PAGE: u64 = 4096;
    let ahead = (local.addr() as u64).wrapping_sub(remote);
    let behind_the_source = match direction {
        Direction::Write => ahead.wrapping_neg() % PAGE,
        Direction::Read => ahead % PAGE,
    };
    cfg!(target_arch = "x86_64") && (1..32).contains(&behind_the_source)
}

/// Whether a buffer is faster, from which data that is in no cache is streamed. `rep movsb` takes half as long again if
/// half-lines of the source straddle those of the destination. Writes cannot be streamed.
fn is_askew(direction: Direction, local: *mut u8, remote: u64) -> bool {
    const HALF: u64 = 32;
    let is_read = matches!(direction, Direction::Read);
    let straddles = !(local.addr() as u64)
        .wrapping_sub(remote)
        .is_multiple_of(HALF);
    cfg!(target_arch = "x86_64") && is_read && straddles
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The rows of the table in the documentation.
    fn table() -> Vec<String> {
        let name = |path, polls, by_kernel: &'static str| match way(path, || polls) {
            Way::Own => "loads and stores",
            Way::Assist => "assist",
            Way::Kernel => by_kernel,
            Way::Agent => "the agent",
        };
        let shapes = [
            ("a run", "the kernel"),
            ("a list of pieces", "the kernel, by lists"),
            (
                "an accumulate",
                "the kernel reads and writes, the origin combines",
            ),
        ];
        let mut rows = vec![
            "| what | a thread of the target polls | none does | without cross-memory attach |"
                .to_owned(),
            "|---|---|---|---|".to_owned(),
        ];
        rows.extend(shapes.map(|(what, by_kernel)| {
            let polled = name(Path::CrossMemory, true, by_kernel);
            let others = name(Path::CrossMemory, false, by_kernel);
            let agent = name(Path::Agent, true, by_kernel);
            format!("| {what} | {polled} | {others} | {agent} |")
        }));
        rows
    }

    #[test]
    fn the_documentation_shows_the_table() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");
        let pages = std::fs::read_dir(docs).unwrap();
        let pages =
            pages.map(|page| std::fs::read_to_string(page.unwrap().path()).unwrap_or_default());
        let table = table().join("\n");
        let shown = pages.filter(|page| page.contains(&table)).count();
        assert_eq!(
            shown, 1,
            "exactly one page of docs has to show this table:\n{table}"
        );
    }

    #[test]
    fn our_own_memory_is_nobodys_else() {
        let asks = || panic!("nobody is asked");
        assert_eq!(way(Path::Direct, asks), Way::Own);
    }

    /// The course of a run of `len` bytes whose destination lies `behind` the source in its page.
    fn course_of(direction: Direction, len: usize, behind: usize) -> Course {
        let source = 1 << 30;
        let (local, remote) = match direction {
            Direction::Write => (source, source + behind),
            Direction::Read => (source + behind, source),
        };
        let local = std::ptr::without_provenance_mut(local);
        course(direction, local, remote as u64, len)
    }

    #[test]
    fn runs_go_by_a_buffer_where_the_kernel_is_slow() {
        if cfg!(not(target_arch = "x86_64")) {
            return;
        }
        let longest = [2047, 2048, 64 << 10].map(|len| (len, memory::streams(len)));
        for direction in [Direction::Write, Direction::Read] {
            for (len, streams) in longest {
                assert!(!streams);
                for behind in [0, 1, 15, 16, 31, 32, 4088, 4095] {
                    let expected = len >= 2048 && (1..32).contains(&behind);
                    let found = course_of(direction, len, behind);
                    assert_eq!(found.by_buffer, expected, "{len} {behind}");
                }
            }
        }
        let long = 1 << 40;
        for behind in [0, 8, 31, 32, 63] {
            let read = course_of(Direction::Read, long, behind);
            let streams_on = memory::streams(long) && behind % 32 != 0;
            let at_a_time = match behind {
                _ if streams_on => STREAM_BUFFER,
                8 => BUFFER,
                _ => CALL,
            };
            assert_eq!(read.at_a_time, at_a_time, "{behind}");
            assert_eq!(course_of(Direction::Write, long, 32).at_a_time, CALL);
        }
    }
}
