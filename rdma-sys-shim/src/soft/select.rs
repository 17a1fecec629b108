//! Which path bytes take to and from memory of a peer that is not mapped here. All lengths that determine the path
//! are in this file; the table in `docs/protocols.md` is what the test below prints.

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

/// The form of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Contiguous bytes.
    Run,
    /// This many pieces, each contiguous.
    List(usize),
    /// Operands of an accumulate under a lock.
    Combined,
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

/// The longest runs that use assist. A call of the kernel takes a microsecond or more, but its bytes move between
/// processors once, and those of a request twice.
const LONGEST_RUN: usize = 16 << 10;
/// The longest pieces of lists that use assist. For longer ones, the kernel is faster between distant processors,
/// although it takes a third of a microsecond for each piece.
const LONGEST_PIECE: usize = 1 << 10;

/// After this many parts by the kernel, a sleeping thread of the target is called. Waking it takes as long as two or
/// three parts.
pub(super) const WORTH_A_CALL: u32 = 16;

impl Shape {
    /// The number of parts in which the kernel moves it.
    pub(super) fn parts(self) -> u32 {
        match self {
            Self::Run => 1,
            Self::List(count) => count.min(WORTH_A_CALL as usize) as u32,
            Self::Combined => 2,
        }
    }

    /// How long a request waits for a thread that promised to serve; longer if the kernel would take much longer.
    pub(super) const fn patience(self) -> Duration {
        match self {
            Self::Run | Self::Combined => Duration::from_micros(3),
            Self::List(_) => Duration::from_micros(24),
        }
    }
}

/// The way for `len` bytes, or for pieces of at most `len` bytes. `polls`: whether a thread of the target polls for
/// requests.
pub(super) fn way(path: Path, shape: Shape, len: usize, polls: impl FnOnce() -> bool) -> Way {
    let longest = match shape {
        // The kernel would copy twice.
        Shape::Combined => usize::MAX,
        Shape::Run => LONGEST_RUN,
        Shape::List(_) => LONGEST_PIECE,
    };
    match path {
        Path::Direct => Way::Own,
        Path::Agent => Way::Agent,
        Path::CrossMemory if len <= longest && polls() => Way::Assist,
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

/// Of lists; small, so that the target serves one request while the origin fills the next. Each other run by assist is
/// one request.
pub(super) const OF_ASSIST: RequestSize = RequestSize {
    run: LONGEST_PIECE,
    list: LONGEST_PIECE,
};
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

    fn bytes(len: usize) -> String {
        match len {
            len if len.is_multiple_of(1 << 20) => format!("{} MiB", len >> 20),
            len if len.is_multiple_of(1 << 10) => format!("{} KiB", len >> 10),
            len => format!("{len} B"),
        }
    }

    /// The lengths that `way` treats alike, each with the way that it says: the first of them, up to 1 MiB.
    fn ways(path: Path, shape: Shape, polls: bool) -> Vec<(usize, Way)> {
        let all = (1..=1 << 20).map(|len| (len, way(path, shape, len, || polls)));
        let mut found: Vec<(usize, Way)> = Vec::new();
        for (len, way) in all {
            if found.last().is_none_or(|&(_, last)| last != way) {
                found.push((len, way));
            }
        }
        found
    }

    fn name(way: Way, shape: Shape) -> &'static str {
        match (way, shape) {
            (Way::Own, _) => "loads and stores",
            (Way::Assist, _) => "assist",
            (Way::Kernel, Shape::Run) => "the kernel",
            (Way::Kernel, Shape::List(_)) => "the kernel, by lists",
            (Way::Kernel, Shape::Combined) => "the kernel reads and writes, the origin combines",
            (Way::Agent, _) => "the agent",
        }
    }

    /// The rows of the table in the documentation.
    fn table() -> Vec<String> {
        let shapes = [
            (Shape::Run, "a run"),
            (Shape::List(100), "pieces, each"),
            (Shape::Combined, "an accumulate"),
        ];
        let mut rows = vec![
            "| what | a thread of the target polls | none does | without cross-memory attach |"
                .to_owned(),
            "|---|---|---|---|".to_owned(),
        ];
        for (shape, what) in shapes {
            let polled = ways(Path::CrossMemory, shape, true);
            let others = ways(Path::CrossMemory, shape, false);
            let agent = ways(Path::Agent, shape, true);
            assert_eq!((others.len(), agent.len()), (1, 1));
            for (index, &(from, way)) in polled.iter().enumerate() {
                let lengths = match polled.get(index + 1) {
                    Some(&(next, _)) => format!("of up to {}", bytes(next - 1)),
                    None if from == 1 => "of any length".to_owned(),
                    None => format!("of more than {}", bytes(from - 1)),
                };
                rows.push(format!(
                    "| {what} {lengths} | {} | {} | {} |",
                    name(way, shape),
                    name(others[0].1, shape),
                    name(agent[0].1, shape),
                ));
            }
        }
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
        assert_eq!(way(Path::Direct, Shape::Run, 8, asks), Way::Own);
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
