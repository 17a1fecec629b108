//! Atomics and stores that are allowed.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{
    Setup, aligned, compare_swap, each_region_with_atomics, fetch_add, finish, memory, read,
    update_each,
};
use crate::{AtomicDomain, LocalPiece, RemoteRun, Ticket, TransferBatch, Update, Width};

pub(super) fn words_of_eight_bytes(setup: &Setup) {
    setup.both_ways(|peers| {
        each_region_with_atomics(peers, 64, |region| {
            let (way, start) = (&*peers.way, aligned(region));
            let word = region.remote().at(start);
            assert_eq!(fetch_add(way, word, Width::W8, u64::MAX).unwrap(), 0);
            assert_eq!(fetch_add(way, word, Width::W8, 6).unwrap(), u64::MAX);
            assert_eq!(compare_swap(way, word, Width::W8, 5, 1 << 40).unwrap(), 5);
            assert_eq!(compare_swap(way, word, Width::W8, 5, 9).unwrap(), 1 << 40);
            assert_eq!(fetch_add(way, word, Width::W8, 0).unwrap(), 1 << 40);
            assert!(way.completed(Ticket::DONE).unwrap() && way.released(Ticket::DONE).unwrap());
            finish(way, way.store(word, 1 << 40, 77)).unwrap();
            let mut wanted = vec![0; 64];
            wanted[start as usize..][..8].copy_from_slice(&77_u64.to_ne_bytes());
            assert_eq!(memory(region), wanted);
        });
    });
}

/// Old values are zero-extended, and sums do not carry into neighbouring words. A device without narrow atomics refuses
/// them, and continues to work.
pub(super) fn narrow_words(setup: &Setup) {
    setup.both_ways(|peers| {
        let has_them = peers.target.capabilities().narrow_atomics;
        each_region_with_atomics(peers, 64, |region| {
            let (way, start) = (&*peers.way, aligned(region));
            let mut wanted = vec![0; 64];
            for (skip, width) in [(12, Width::W4), (18, Width::W2), (21, Width::W1)] {
                let at = region.remote().at(start + skip);
                let most = u64::MAX >> (64 - 8 * width.bytes());
                if !has_them {
                    assert!(fetch_add(way, at, width, 1).is_err());
                    assert!(compare_swap(way, at, width, 0, 1).is_err());
                    continue;
                }
                assert_eq!(fetch_add(way, at, width, most).unwrap(), 0);
                assert_eq!(fetch_add(way, at, width, 3).unwrap(), most);
                let new = (most + 1).wrapping_add(8);
                assert_eq!(compare_swap(way, at, width, 2, new).unwrap(), 2);
                assert_eq!(compare_swap(way, at, width, 2, 9).unwrap(), 8);
                let place = (start + skip) as usize;
                wanted[place..][..width.bytes()]
                    .copy_from_slice(&8_u64.to_le_bytes()[..width.bytes()]);
            }
            assert_eq!(memory(region), wanted);
            let word = region.remote().at(start);
            assert_eq!(fetch_add(way, word, Width::W8, 0).unwrap(), 0);
        });
    });
}

pub(super) fn updates_of_many_words(setup: &Setup) {
    setup.both_ways(|peers| {
        let narrow = peers.target.capabilities().narrow_atomics;
        each_region_with_atomics(peers, 200_016, |region| {
            let (way, start) = (&*peers.way, aligned(region));
            let at = region.remote().at(start + 8);
            for count in [0, 1, 5, 8192, 24_000] {
                let value = |i: u64| i << 32 | u64::from(u32::MAX);
                let words = |added: u64| -> Vec<u8> {
                    let words = (0..count as u64).map(|i| value(i) + added);
                    words.flat_map(u64::to_ne_bytes).collect()
                };
                update_each(way, at, Width::W8, Update::Store, &words(0)).unwrap();
                // The operands are at an odd address.
                let mut ones = vec![0];
                ones.extend((0..count).flat_map(|_| 1_u64.to_ne_bytes()));
                update_each(way, at, Width::W8, Update::Add, &ones[1..]).unwrap();
                assert!(read(way, count * 8, at).unwrap() == words(1), "{count}");
                update_each(way, at, Width::W8, Update::Store, &vec![0xff; count * 8]).unwrap();
                update_each(way, at, Width::W8, Update::Add, &ones[1..]).unwrap();
                assert!(memory(region) == vec![0; 200_016], "{count}");
                // Sums of narrow words do not carry into the neighbour.
                for width in [Width::W4, Width::W2, Width::W1] {
                    if !narrow {
                        continue;
                    }
                    update_each(way, at, width, Update::Store, &vec![0xff; count * 8]).unwrap();
                    let one = &1_u64.to_le_bytes()[..width.bytes()];
                    let ones = one.repeat(count * 8 / width.bytes());
                    update_each(way, at, width, Update::Add, &ones).unwrap();
                    assert!(memory(region) == vec![0; 200_016], "{count} {width:?}");
                }
            }
        });
    });
}

/// Pieces of one or more words, in any order; some update the same words.
pub(super) fn updates_of_words_anywhere(setup: &Setup) {
    setup.both_ways(|peers| {
        each_region_with_atomics(peers, 8_016, |region| {
            let (way, start) = (&*peers.way, aligned(region));
            for width in [Width::W8, Width::W4, Width::W2, Width::W1] {
                if width != Width::W8 && !peers.target.capabilities().narrow_atomics {
                    continue;
                }
                let word = width.bytes();
                update_each(
                    way,
                    region.remote().at(start),
                    width,
                    Update::Store,
                    &[0; 8_000],
                )
                .unwrap();
                let one = &1_u64.to_le_bytes()[..word];
                let ones = one.repeat(3);
                let mut wanted = vec![0_u8; 8_000 / word];
                let (mut runs, mut pieces) = (Vec::new(), Vec::new());
                for index in 0..300 {
                    let (at, count) = (index * 7919 % 200, 1 + index % 3);
                    wanted[at..at + count].iter_mut().for_each(|sum| *sum += 1);
                    runs.push(RemoteRun {
                        at: region.remote().at(start + (at * word) as u64),
                        pieces: 1,
                    });
                    pieces.push(LocalPiece {
                        base: ones.as_ptr().cast_mut(),
                        len: count * word,
                    });
                }
                let batch = TransferBatch {
                    runs: &runs,
                    pieces: &pieces,
                };
                // SAFETY: the operands outlive the operation.
                let posted = unsafe { way.update_batch(width, Update::Add, &batch) };
                finish(way, posted.map_err(|failed| failed.error)).unwrap();
                let found = memory(region);
                let sums = found[start as usize..][..8_000].chunks_exact(word);
                let each = sums.zip(&wanted).enumerate();
                each.for_each(|(index, (sum, &wanted))| {
                    let mut bytes = [0; 8];
                    bytes[..word].copy_from_slice(sum);
                    assert_eq!(
                        u64::from_le_bytes(bytes),
                        wanted.into(),
                        "{index} {width:?}"
                    );
                });
            }
        });
    });
}

pub(super) fn all_threads_add_to_one_word(setup: &Setup) {
    // Enough rounds to reveal adds that are not atomic.
    const ROUNDS: u64 = 1000;
    setup.both_ways(|peers| {
        each_region_with_atomics(peers, 64, |region| {
            let word = region.remote().at(aligned(region));
            let is_cpu = peers.target.capabilities().atomic_domain == AtomicDomain::Cpu;
            let mapping = peers.way.map(&region.remote()).unwrap();
            let mapping = mapping.filter(|mapping| is_cpu && mapping.has_atomics());
            let all_are_there = Barrier::new(4);
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let (way, all_are_there) = (&*peers.way, &all_are_there);
                    let mapping = mapping.as_ref();
                    let start = aligned(region) as usize;
                    scope.spawn(move || {
                        all_are_there.wait();
                        for _ in 0..ROUNDS {
                            match (thread, mapping) {
                                // SAFETY: an aligned word of the mapping, which has the processor's atomics.
                                (0, Some(mapping)) => unsafe {
                                    let word = mapping.base().add(start).cast();
                                    AtomicU64::from_ptr(word).fetch_add(1, Ordering::Relaxed);
                                },
                                (1, _) => {
                                    let one = 1_u64.to_ne_bytes();
                                    update_each(way, word, Width::W8, Update::Add, &one).unwrap();
                                }
                                _ => drop(fetch_add(way, word, Width::W8, 1).unwrap()),
                            }
                        }
                    });
                }
            });
            assert_eq!(
                fetch_add(&*peers.way, word, Width::W8, 0).unwrap(),
                4 * ROUNDS
            );
        });
    });
}

pub(super) fn several_endpoints_add_to_one_word(setup: &Setup) {
    const ROUNDS: u64 = 200;
    let peers = setup.peers(false);
    each_region_with_atomics(&peers, 64, |region| {
        let word = region.remote().at(aligned(region));
        let origins = [(); 3].map(|()| setup.peers(true).origin);
        let ways = origins.map(|origin| (origin.connect(&peers.target.address()).unwrap(), origin));
        let mut found: Vec<u64> = std::thread::scope(|scope| {
            let threads = ways.each_ref().map(|(way, _)| {
                let add = || fetch_add(&**way, word, Width::W8, 1).unwrap();
                scope.spawn(move || (0..ROUNDS).map(|_| add()).collect::<Vec<_>>())
            });
            let each = threads.map(|thread| thread.join().unwrap());
            each.concat()
        });
        found.sort_unstable();
        assert!(
            found.into_iter().eq(0..3 * ROUNDS),
            "a value is fetched twice"
        );
    });
}
