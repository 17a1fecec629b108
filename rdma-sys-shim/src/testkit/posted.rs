//! Operations of which many are under way: their order, their number, and what a failure of one means for the others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::peers::{pattern, until};
use super::{Setup, finish, memory, write};
use crate::Direction::{Read, Write};
use crate::{Fetch, LocalRegion, Ticket, Update, Via, Width};

/// The word at offset `at` of the region, as its owner reads it.
fn word(region: &LocalRegion, at: u64) -> &AtomicU64 {
    let place = region.base().wrapping_add(at as usize);
    assert!(at + 8 <= region.len() as u64 && place.addr().is_multiple_of(8));
    // SAFETY: an aligned word of the region, which lives as long as the reference.
    unsafe { AtomicU64::from_ptr(place.cast()) }
}

/// Write n fills place n, and a store then says n.
pub(super) fn a_store_is_behind_what_was_written(setup: &Setup) {
    const LEN: usize = 100;
    setup.both_ways(|peers| {
        let region = peers.target.allocate(16 << 10, 8).unwrap();
        let flag = region.remote().at(0);
        let place = |n: u64| 8 + (n as usize - 1) * LEN;
        let sources: Vec<Vec<u8>> = (1..=100_u8).map(|n| vec![n; LEN]).collect();
        let look = || {
            let seen = word(&region, 0).load(Ordering::Acquire);
            for n in 1..=seen {
                let mut data = [0; LEN];
                // SAFETY: inside the region. The write that the flag reports is complete, and later writes go
                // elsewhere.
                unsafe {
                    data.as_mut_ptr()
                        .copy_from(region.base().add(place(n)), LEN)
                };
                assert_eq!(data, [n as u8; LEN], "{n} of {seen}");
            }
            seen
        };
        let mut last = Ticket::DONE;
        for (source, n) in sources.iter().zip(1..) {
            let to = region.remote().at(place(n) as u64);
            // SAFETY: the sources outlive the operations, the last of which is waited for.
            unsafe { (peers.way).transfer(Write, source.as_ptr().cast_mut(), LEN, to) }.unwrap();
            last = peers.way.store(flag, n - 1, n).unwrap();
            look();
        }
        until("the last store arrives", || look() == sources.len() as u64);
        finish(&*peers.way, Ok(last)).unwrap();
    });
}

/// They go without a call that asks for them, with everything before them.
pub(super) fn stores_and_updates_go_at_once(setup: &Setup) {
    setup.both_ways(|peers| {
        let region = peers.target.allocate(2048, 8).unwrap();
        let (way, sent, one) = (&*peers.way, pattern(1000), 1_u64.to_ne_bytes());
        let at = |offset| region.remote().at(offset);
        // SAFETY: the buffers outlive the operations, which are waited for.
        let ticket = unsafe {
            way.transfer(Write, sent.as_ptr().cast_mut(), 1000, at(16))
                .unwrap();
            way.store(at(0), 0, 1)
        };
        until("a store arrives", || {
            word(&region, 0).load(Ordering::Acquire) == 1
        });
        assert!(memory(&region)[16..1016] == sent);
        finish(way, ticket).unwrap();
        // SAFETY: as above.
        let ticket = unsafe {
            way.transfer(Write, sent.as_ptr().cast_mut(), 1000, at(1016))
                .unwrap();
            way.update_each(at(8), Width::W8, Update::Add, one.as_ptr(), 1)
        };
        until("an update arrives", || {
            word(&region, 8).load(Ordering::Acquire) == 1
        });
        assert!(memory(&region)[1016..2016] == sent);
        finish(way, ticket).unwrap();
    });
}

/// A store takes its value with it: what the caller's stack holds later does not matter. The bytes that wait in front of
/// it vary around the number at which tcp lets callers wait, one by one.
pub(super) fn a_store_takes_its_value_with_it(setup: &Setup) {
    const SHORT: usize = 8;
    setup.both_ways(|peers| {
        let way = &*peers.way;
        // The queue of other devices is limited by the number of requests, however short.
        let (long, shorts, step) = match way.via(false) {
            Via::Agent => (16 << 20, 4679, 1),
            _ => (64 << 10, 100, 19),
        };
        let region = peers.target.allocate(8 + long, 8).unwrap();
        let sources = pattern(long);
        let from = |len: usize| sources[..len].as_ptr().cast_mut();
        for (n, last) in (20..=76).step_by(step).enumerate() {
            let at = region.remote().at(8);
            // SAFETY: the sources outlive the operations, which are waited for.
            unsafe {
                if way.transfer(Write, from(long), long, at).unwrap() == Ticket::DONE {
                    // No write waits on this device.
                    return;
                }
                for _ in 0..shorts {
                    way.transfer(Write, from(SHORT), SHORT, at).unwrap();
                }
                way.transfer(Write, from(last), last, at).unwrap();
            }
            let flag = region.remote().at(0);
            let value = |n: usize| n as u64 * 0x0101_0101_0101_0101;
            let stored = way.store(flag, value(n), value(n + 1));
            fill_the_stack();
            finish(way, stored).unwrap();
            let seen = word(&region, 0).load(Ordering::Acquire);
            assert_eq!(seen, value(n + 1), "behind {last} bytes");
        }
    });
}

/// Overwrites what calls before it have left on the stack.
#[inline(never)]
fn fill_the_stack() {
    std::hint::black_box([0xa5_u8; 16 << 10]);
}

/// A read sees the stores before it and not those behind it. An atomic sees what was written before it.
pub(super) fn each_is_behind_what_was_posted_before(setup: &Setup) {
    const COUNT: usize = 64;
    setup.both_ways(|peers| {
        let way = &*peers.way;
        let region = peers.target.allocate(8 * (1 + COUNT), 8).unwrap();
        let values: Vec<u64> = (0..COUNT as u64).map(|n| 1000 * n + 7).collect();
        let (mut seen, mut found) = ([u64::MAX; COUNT], [u64::MAX; COUNT]);
        let mut last = Ticket::DONE;
        for n in 0..COUNT {
            let counter = region.remote().at(0);
            let place = region.remote().at(8 * (1 + n as u64));
            // SAFETY: the buffers outlive the operations, the last of which is waited for.
            last = unsafe {
                way.transfer(Read, (&raw mut seen[n]).cast(), 8, counter)
                    .unwrap();
                way.store(counter, n as u64, n as u64 + 1).unwrap();
                way.transfer(Write, (&raw const values[n]).cast_mut().cast(), 8, place)
                    .unwrap();
                way.fetch(place, Width::W8, Fetch::Add(1), &raw mut found[n])
                    .unwrap()
            };
        }
        finish(way, Ok(last)).unwrap();
        assert!(seen.into_iter().eq(0..COUNT as u64), "{seen:?}");
        assert_eq!(found[..], values);
    });
}

/// More writes than any queue holds, without a call for completion meanwhile.
pub(super) fn any_number_is_posted(setup: &Setup) {
    setup.both_ways(|peers| {
        let values: Vec<u64> = (1..=5000).collect();
        let region = peers.target.allocate(8 * values.len(), 8).unwrap();
        let mut last = Ticket::DONE;
        for (value, n) in values.iter().zip(0..) {
            let to = region.remote().at(8 * n);
            // SAFETY: the values outlive the operations, the last of which is waited for.
            last = unsafe {
                (peers.way).transfer(Write, (&raw const *value).cast_mut().cast(), 8, to)
            }
            .unwrap();
        }
        finish(&*peers.way, Ok(last)).unwrap();
        let wanted: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_ne_bytes())
            .collect();
        assert!(memory(&region) == wanted);
    });
}

pub(super) fn closing_waits_for_it(setup: &Setup) {
    setup.both_ways(|peers| {
        const COUNT: u64 = 100;
        let values: Vec<u64> = (1..=COUNT).collect();
        let region = peers.target.allocate(16 * COUNT as usize, 8).unwrap();
        for (value, n) in values.iter().zip(0..COUNT) {
            peers
                .way
                .store(region.remote().at(8 * n), 0, n + 1)
                .unwrap();
            let to = region.remote().at(8 * (COUNT + n));
            // SAFETY: the values outlive the operations, which are complete when `close` returns.
            unsafe { (peers.way).transfer(Write, (&raw const *value).cast_mut().cast(), 8, to) }
                .unwrap();
        }
        peers.origin.close();
        let wanted: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_ne_bytes())
            .collect();
        assert_eq!(memory(&region), [&wanted[..], &wanted].concat());
    });
}

/// `completed` of one operation applies to all before it: their buffers belong to the caller again.
pub(super) fn a_failure_gives_all_buffers_back(setup: &Setup) {
    const LEN: usize = 1 << 17;
    let peers = setup.peers(false);
    let (way, region) = (&*peers.way, peers.target.allocate(8 * LEN, 8).unwrap());
    write(way, &vec![1; 8 * LEN], region.remote().at(0)).unwrap();
    let mut got = vec![0_u8; 8 * LEN];
    let (mut tickets, mut has_failed) = (Vec::new(), false);
    for (part, n) in got.chunks_exact_mut(LEN).zip(0..) {
        // The third one is outside of the region.
        let from = if n == 2 { 8 } else { n };
        // SAFETY: the buffer outlives the operations, the last of which is complete or has failed below.
        let posted = unsafe {
            way.transfer(
                Read,
                part.as_mut_ptr(),
                LEN,
                region.remote().at(from * LEN as u64),
            )
        };
        match posted {
            Ok(ticket) => tickets.push(ticket),
            Err(error) => {
                assert!(error.is_remote_access(), "{error}");
                has_failed = true;
            }
        }
    }
    if let Some(&last) = tickets.last()
        && let Err(error) = finish(way, Ok(last))
    {
        assert!(error.is_remote_access(), "{error}");
        has_failed = true;
    }
    assert!(has_failed, "one place is outside");
    got.fill(0x55);
    std::thread::sleep(Duration::from_millis(50));
    assert!(got.iter().all(|&byte| byte == 0x55), "a read goes on");
}
