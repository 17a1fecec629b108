//! How many bytes of data a device carries inside a work request.
//!
//! A driver should refuse to make a queue pair for more than its device carries. Some do not: erdma's makes it, and
//! refuses longer data when it is posted; mana's never looks at the flag, and takes the address of the data for
//! registered memory. So this process writes to itself before any connection relies on a size.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ibverbs_sys::ibv_access_flags as access;

use super::failure::Operation;
use super::link::{Line, Link, Report};
use super::queue_pair;
use super::request::{Local, Request};
use super::unposted::{INLINE, Unposted};
use crate::Result;
use crate::memory::copy;
use crate::verbs::adapter::Adapter;
use crate::verbs::memory::Pinned;
use crate::verbs::objects::{CompletionQueue, Establish};

/// The sizes to ask for. Limits of adapters are among them: 101 of irdma, 96 of bnxt_re and erdma, 32 of hns.
const SIZES: [u32; 8] = [INLINE, 128, 101, 96, 64, 32, 16, 8];
/// The time for the requests on the way, beside that of all retries.
const PATIENCE: Duration = Duration::from_secs(1);

/// What became of data of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trial {
    /// The device carried this many bytes.
    Arrived(u32),
    /// The driver refused the size.
    Refused,
    /// The driver took it, and the data did not arrive.
    Lost,
}

/// The most bytes that the device carries inside a request; 0: none.
///
/// # Errors
/// The device has no memory or completion queue for the trial.
pub(in crate::verbs) fn carried(adapter: &Adapter) -> Result<u32> {
    let completions = CompletionQueue::new(&adapter.context, super::send_limit(adapter) + 1)
        .map_err(|error| adapter.settings.blame(error))?;
    let flags = access::IBV_ACCESS_LOCAL_WRITE
        | access::IBV_ACCESS_REMOTE_WRITE
        | access::IBV_ACCESS_REMOTE_READ;
    // One half is written to, and then read into the other.
    let memory = Pinned::new(&adapter.domain, 2 * INLINE as usize, flags)?;
    let device = adapter.context.name();
    let most = search(device, |size| try_out(adapter, &completions, &memory, size));
    tracing::debug!(device, most, "the bytes that requests carry");
    Ok(most)
}

fn search(device: &str, mut trial: impl FnMut(u32) -> Trial) -> u32 {
    for size in SIZES {
        match trial(size) {
            Trial::Arrived(granted) => return granted,
            Trial::Refused => {}
            Trial::Lost => {
                tracing::info!(
                    device,
                    size,
                    "it grants inline data and does not carry it; requests go without"
                );
                return 0;
            }
        }
    }
    0
}

/// Over a queue pair that is connected to itself, writes data inline, and reads it back.
fn try_out(
    adapter: &Adapter,
    completions: &Arc<CompletionQueue>,
    memory: &Pinned,
    size: u32,
) -> Trial {
    let Ok(pair) = queue_pair(adapter, completions, size) else {
        return Trial::Refused;
    };
    let granted = pair.limits().inline;
    // Over a port that is down, nothing arrives; it can only be listed.
    if granted == 0 || !adapter.port.active {
        return Trial::Arrived(granted);
    }
    let own = &adapter.own;
    let Ok(route) = own.route_to(&own.address()) else {
        return Trial::Lost;
    };
    let with = Establish {
        route,
        number: pair.number(),
        their_psn: 0,
        our_psn: 0,
        mtu: adapter.port.mtu,
        reads_out: 1,
        reads_in: 1,
        timeout: adapter.settings.timeout,
        retries: adapter.settings.retries,
    };
    let connected = pair
        .prepare(
            own.number,
            own.partition.place,
            adapter.context.has_atomics(),
        )
        .and_then(|()| pair.establish(&with));
    if connected.is_err() {
        // The connection to itself fails in the same way, and says why.
        return Trial::Lost;
    }
    let line = Line::new(pair, completions.clone(), adapter);
    let end = Instant::now() + adapter.settings.silence() + PATIENCE;
    write_and_read(line, memory, granted as usize, end)
}

fn write_and_read(mut line: Line, memory: &Pinned, len: usize, end: Instant) -> Trial {
    let sent: [u8; INLINE as usize] = std::array::from_fn(|index| index as u8 + 1);
    let back = Local::at(
        memory.base().wrapping_add(INLINE as usize),
        len,
        memory.lkey(),
    );
    let at = memory.remote();
    let write = Request::whole(Operation::Write, at, Local::carried(sent.as_ptr(), len));
    let mut chain = Unposted::new();
    chain.add(&write, 1, false);
    chain.add(&Request::whole(Operation::Read, at, back), 2, true);
    // SAFETY: a chain of two requests, of which the first names `sent`, and the second memory that outlives the queue
    // pair, since this call drops `line`.
    if unsafe { line.post(chain.take()) }.is_err() {
        return Trial::Refused;
    }
    while Instant::now() < end {
        let Ok(taken) = line.take_reports() else {
            return Trial::Lost;
        };
        for index in 0..taken {
            match line.report(index) {
                Report { error: Some(_), .. } => return Trial::Lost,
                Report { ticket: 2, .. } => {
                    let mut found = [0; INLINE as usize];
                    // SAFETY: `len` bytes of the second half of the memory, which the device does not write to any
                    // more, and as many of an array.
                    unsafe { copy(found.as_mut_ptr(), back.base, len) };
                    return match found[..len] == sent[..len] {
                        true => Trial::Arrived(len as u32),
                        false => Trial::Lost,
                    };
                }
                Report { .. } => {}
            }
        }
        std::thread::yield_now();
    }
    Trial::Lost
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device whose driver makes queue pairs for `granted` bytes, and takes requests of `posted` bytes.
    fn found(granted: u32, posted: u32, arrives: bool) -> (u32, usize) {
        let mut trials = 0;
        let most = search("mlx5_7", |size| {
            trials += 1;
            match (size <= granted.min(posted), arrives) {
                (false, _) => Trial::Refused,
                (true, true) => Trial::Arrived(size),
                (true, false) => Trial::Lost,
            }
        });
        (most, trials)
    }

    #[test]
    fn the_most_that_adapters_carry_is_found() {
        for (granted, posted, most) in [
            (1024, 1024, 188),
            (101, 101, 101),
            (96, 96, 96),
            (1024, 96, 96),
            (32, 32, 32),
            (15, 15, 8),
            (0, 0, 0),
        ] {
            assert_eq!(found(granted, posted, true).0, most, "{granted} {posted}");
        }
    }

    #[test]
    fn inline_data_that_is_lost_once_is_not_tried_again() {
        assert_eq!(found(1 << 20, 1 << 20, false), (0, 1));
        assert_eq!(found(1 << 20, 96, false), (0, 4));
    }

    #[test]
    fn a_driver_that_grants_less_than_it_is_asked_for_is_believed() {
        assert_eq!(search("mlx5_7", |_| Trial::Arrived(60)), 60);
    }
}
