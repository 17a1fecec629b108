//! Transfers by the kernel: cross-memory attach. A run is copied directly or through a buffer, as `select` says. For
//! many pieces, the kernel gets lists.

use std::io;

use super::peer::PeerProcess;
use super::request::Operation;
use super::select::{self, Course};
use crate::cross_memory::{self, MOST_PARTS, Stopped, part};
use crate::device::batch::StridedBlocks;
use crate::memory::{Buffer, copy, copy_part};
use crate::{Direction, Error, RemoteAddress, Result};

/// The remedy if only the origin finds that the kernel forbids it.
const FORBIDDEN: &str = "the kernel forbids cross-memory attach, which the target does not expect; start all ranks with \
                         TRANSOM_DEVICE=soft:cma=off";

/// The kernel does not say which side's memory it could not access.
const EITHER_SIDE: &str =
    "the memory is no longer mapped there with this right, or the buffer here is not";

/// Moves the parts of a transfer. Their places were checked.
///
/// # Safety
/// The parts are readable (for a write) or writable (for a read).
pub(super) unsafe fn transfer(
    peer: &PeerProcess,
    direction: Direction,
    parts: impl Iterator<Item = StridedBlocks> + Clone,
) -> Result<()> {
    let mut first = parts.clone();
    // SAFETY: the caller's promise.
    unsafe {
        match (first.next(), first.next()) {
            (Some(run), None) if run.count == 1 => {
                transfer_run_of(peer, direction, run, run, &mut Buffer::default())
            }
            _ => transfer_lists(peer, direction, parts),
        }
    }
}

/// Moves one run of a whole, whose length decides how, and which the error names; all runs of it may use one `buffer`.
/// Each system call looks up the peer again.
///
/// # Safety
/// As for [`transfer`].
pub(super) unsafe fn transfer_run_of(
    peer: &PeerProcess,
    direction: Direction,
    run: StridedBlocks,
    whole: StridedBlocks,
    buffer: &mut Buffer,
) -> Result<()> {
    let course = select::course(direction, run.here, run.at.address, whole.len);
    for part in run.shortened(course.at_a_time) {
        peer.reach(|number| {
            // SAFETY: a part of the memory that the caller promises; a repeated call follows the end of the previous
            // one.
            unsafe { transfer_part(number, direction, part, course, whole.len, buffer) }
        })
        .map_err(|stopped| error(peer, stopped, direction, whole.at, whole.len))?;
    }
    Ok(())
}

/// Moves one part of a run of `whole` bytes. All parts use `buffer`.
///
/// # Safety
/// As for [`transfer`].
unsafe fn transfer_part(
    number: u32,
    direction: Direction,
    run: StridedBlocks,
    course: Course,
    whole: usize,
    buffer: &mut Buffer,
) -> std::result::Result<(), Stopped> {
    let (here, there, len) = (run.here, run.at.address, run.len);
    if !course.by_buffer {
        // SAFETY: the caller's promise.
        return unsafe { cross_memory::transfer(number, direction, here, there, len) };
    }
    // The buffer's distance from `there` is a multiple of a cache line, so that the copy is not slow.
    let held = buffer.at_least(len, there);
    // SAFETY: the buffer has room for as many bytes; `here` is the caller's promise.
    unsafe {
        if let Direction::Write = direction {
            copy(held, here, len);
        }
        cross_memory::transfer(number, direction, held, there, len)?;
        if let Direction::Read = direction {
            copy_part(here, held, len, whole);
        }
    }
    Ok(())
}

/// # Safety
/// As for [`transfer`].
unsafe fn transfer_lists(
    peer: &PeerProcess,
    direction: Direction,
    parts: impl Iterator<Item = StridedBlocks>,
) -> Result<()> {
    let (mut local, mut remote) = (Vec::new(), Vec::<libc::iovec>::new());
    let mut first = RemoteAddress::default();
    let move_them = |local: &mut Vec<libc::iovec>, remote: &mut Vec<libc::iovec>, first| {
        let len = local.iter().map(|part| part.iov_len).sum();
        let moved = peer.reach(|number| {
            // SAFETY: the caller's promise.
            unsafe { cross_memory::transfer_lists(number, direction, local, remote) }
        });
        local.clear();
        remote.clear();
        moved.map_err(|stopped| error(peer, stopped, direction, first, len))
    };
    for (piece, at) in parts.flat_map(StridedBlocks::each) {
        if local.len() == MOST_PARTS {
            move_them(&mut local, &mut remote, first)?;
        }
        if local.is_empty() {
            first = at;
        }
        local.push(part(piece.base, piece.len));
        let place = at.address as usize as *mut u8;
        match remote.last_mut() {
            Some(last) if last.iov_base.wrapping_byte_add(last.iov_len) == place.cast() => {
                last.iov_len += piece.len;
            }
            _ => remote.push(part(place, piece.len)),
        }
    }
    move_them(&mut local, &mut remote, first)
}

fn error(
    peer: &PeerProcess,
    stopped: Stopped,
    direction: Direction,
    at: RemoteAddress,
    len: usize,
) -> Error {
    let operation = Operation::from(direction);
    match stopped {
        Stopped::Gone => peer.gone(),
        Stopped::Fault => peer.refusal(operation.name(), at, len as u64, EITHER_SIDE),
        Stopped::Forbidden(error) => forbidden(operation, len, error),
        Stopped::Failed(error) => Error::os(call(operation, len), error),
    }
}

fn call(operation: Operation, len: usize) -> String {
    format!("cross-memory {} of {len} bytes", operation.name())
}

/// The error if the kernel forbids the access to `len` bytes, and nothing else can do it.
pub(super) fn forbidden(operation: Operation, len: usize, error: io::Error) -> Error {
    Error::os(call(operation, len), error).with_remedy(FORBIDDEN)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at % 251 + at / 4096) as u8).collect()
    }

    /// Moves a run between two places of this process.
    ///
    /// # Safety
    /// As for [`transfer`].
    unsafe fn move_run(
        direction: Direction,
        (local, remote, len): (*mut u8, u64, usize),
        course: Course,
    ) -> std::result::Result<(), Stopped> {
        let at = RemoteAddress {
            address: remote,
            rkey: 0,
        };
        let mut buffer = Buffer::default();
        let (own, run) = (std::process::id(), StridedBlocks::run(local, len, at));
        run.shortened(course.at_a_time).try_for_each(|part| {
            // SAFETY: a part of what the caller promises.
            unsafe { transfer_part(own, direction, part, course, len, &mut buffer) }
        })
    }

    #[test]
    fn bytes_arrive_however_they_go_and_nothing_else_does() {
        const PAGE: usize = 4096;
        const AT_A_TIME: usize = 64 << 10;
        let from = bytes(4 * AT_A_TIME);
        let lens = [
            1,
            2047,
            5000,
            AT_A_TIME - 1,
            AT_A_TIME + 1,
            3 * AT_A_TIME + 7,
        ];
        for len in lens {
            for behind in [0, 1, 8, 16, 32, 63, 4095] {
                for (direction, by_buffer) in [
                    (Direction::Write, false),
                    (Direction::Write, true),
                    (Direction::Read, false),
                    (Direction::Read, true),
                ] {
                    let mut to = vec![0; from.len() + PAGE];
                    let skip =
                        (from.as_ptr().addr() + behind).wrapping_sub(to.as_ptr().addr()) % PAGE;
                    let begin = to.as_mut_ptr().wrapping_add(skip);
                    let (local, remote) = match direction {
                        Direction::Write => (from.as_ptr().cast_mut(), begin.addr() as u64),
                        Direction::Read => (begin, from.as_ptr().addr() as u64),
                    };
                    let course = Course {
                        at_a_time: AT_A_TIME,
                        by_buffer,
                    };
                    // SAFETY: both are as long, and nobody else uses what is written to; a write only reads.
                    let moved = unsafe { move_run(direction, (local, remote, len), course) };
                    if let Err(Stopped::Forbidden(error)) = moved {
                        eprintln!("not tried: {error}");
                        return;
                    }
                    moved.unwrap();
                    let (before, rest) = to.split_at(skip);
                    let (moved, after) = rest.split_at(len);
                    assert!(before.iter().all(|&byte| byte == 0), "{len} {behind}");
                    assert!(moved == &from[..len], "{len} {behind}");
                    assert!(after.iter().all(|&byte| byte == 0), "{len} {behind}");
                }
            }
        }
    }

    #[test]
    fn a_part_that_is_not_mapped_is_a_fault_either_way() {
        let mut bytes = vec![0; 9000];
        for by_buffer in [false, true] {
            let course = Course {
                at_a_time: 4096,
                by_buffer,
            };
            let part = (bytes.as_mut_ptr(), 4096 - 8, bytes.len());
            // SAFETY: as long as what is read.
            let moved = unsafe { move_run(Direction::Read, part, course) };
            assert!(
                matches!(moved, Err(Stopped::Fault | Stopped::Forbidden(_))),
                "{moved:?}"
            );
        }
    }
}
