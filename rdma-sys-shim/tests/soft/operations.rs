//! Transfers, atomics and mappings that are allowed.

use rdma_sys_shim::{Batch, Liveness, LocalPiece, RemoteRun, Update, Width};

use crate::support::{
    aligned, alone, compare_swap, each_region, each_region_with_atomics, everywhere, fetch_add,
    finish, memory, peers, read, update_each, write,
};

#[test]
fn writes_and_reads_of_every_length() {
    everywhere(|peers| {
        each_region(peers, 300_000, |region| {
            let (way, at) = (&*peers.way, region.remote().at(33));
            for len in [0, 1, 7, 8, 63, 4096, 65_536, 65_537, 200_001] {
                let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8 + 1).collect();
                write(way, &bytes, at).unwrap();
                assert!(read(way, len, at).unwrap() == bytes, "{len}");
                let all = memory(region);
                assert!(all[33..33 + len] == bytes && all[..33] == [0; 33], "{len}");
                assert!(all[33 + len..] == vec![0; 300_000 - 33 - len], "{len}");
                write(way, &vec![0; len], at).unwrap();
            }
        });
    });
}

#[test]
fn atomics_of_every_width() {
    everywhere(|peers| {
        each_region_with_atomics(peers, 64, |region| {
            let (way, start) = (&*peers.way, aligned(region));
            let word = region.remote().at(start);
            assert_eq!(fetch_add(way, word, Width::W8, u64::MAX).unwrap(), 0);
            assert_eq!(fetch_add(way, word, Width::W8, 6).unwrap(), u64::MAX);
            assert_eq!(compare_swap(way, word, Width::W8, 5, 1 << 40).unwrap(), 5);
            assert_eq!(compare_swap(way, word, Width::W8, 5, 9).unwrap(), 1 << 40);
            // Narrow: zero-extended, and nothing carries over into the neighbours.
            let narrow = region.remote().at(start + 12);
            assert_eq!(fetch_add(way, narrow, Width::W4, 0xffff_ffff).unwrap(), 0);
            assert_eq!(fetch_add(way, narrow, Width::W4, 3).unwrap(), 0xffff_ffff);
            assert_eq!(compare_swap(way, narrow, Width::W4, 2, 7).unwrap(), 2);
            assert_eq!(compare_swap(way, narrow, Width::W4, 2, 8).unwrap(), 7);
            let half = region.remote().at(start + 18);
            assert_eq!(fetch_add(way, half, Width::W2, 0xffff).unwrap(), 0);
            assert_eq!(fetch_add(way, half, Width::W2, 3).unwrap(), 0xffff);
            assert_eq!(compare_swap(way, half, Width::W2, 2, 0x1_0008).unwrap(), 2);
            let byte = region.remote().at(start + 21);
            assert_eq!(fetch_add(way, byte, Width::W1, 0xff).unwrap(), 0);
            assert_eq!(fetch_add(way, byte, Width::W1, 4).unwrap(), 0xff);
            assert_eq!(compare_swap(way, byte, Width::W1, 3, 0x109).unwrap(), 3);
            let mut wanted = vec![0; 64];
            let at = start as usize;
            wanted[at + 18] = 8;
            wanted[at + 21] = 9;
            wanted[at..at + 8].copy_from_slice(&(1_u64 << 40).to_ne_bytes());
            wanted[at + 12..at + 16].copy_from_slice(&7_u32.to_ne_bytes());
            assert_eq!(memory(region), wanted);
        });
    });
}

#[test]
fn bulk_updates_are_elementwise() {
    everywhere(|peers| {
        each_region_with_atomics(peers, 200_016, |region| {
            let (way, start) = (&*peers.way, aligned(region));
            let at = region.remote().at(start + 8);
            for count in [0, 1, 5, 8192, 24_000] {
                let value = |i: u64| i << 32 | u64::from(u32::MAX);
                let stored: Vec<u8> = (0..count as u64)
                    .flat_map(|i| value(i).to_ne_bytes())
                    .collect();
                update_each(way, at, Width::W8, Update::Store, &stored).unwrap();
                // The operands are at an odd address.
                let mut ones = vec![0];
                ones.extend((0..count).flat_map(|_| 1_u64.to_ne_bytes()));
                update_each(way, at, Width::W8, Update::Add, &ones[1..]).unwrap();
                let wanted: Vec<u8> = (0..count as u64)
                    .flat_map(|i| (value(i) + 1).to_ne_bytes())
                    .collect();
                assert!(read(way, count * 8, at).unwrap() == wanted, "{count}");
                // As four-byte words, sums do not carry into the neighbour.
                let ones: Vec<u8> = (0..2 * count).flat_map(|_| 1_u32.to_ne_bytes()).collect();
                update_each(way, at, Width::W4, Update::Store, &vec![0xff; count * 8]).unwrap();
                update_each(way, at, Width::W4, Update::Add, &ones).unwrap();
                assert!(memory(region) == vec![0; 200_016], "{count}");
                for (width, one) in [(Width::W2, [1, 0].as_slice()), (Width::W1, &[1])] {
                    update_each(way, at, width, Update::Store, &vec![0xff; count * 8]).unwrap();
                    let ones = one.repeat(count * 8 / width.bytes());
                    update_each(way, at, width, Update::Add, &ones).unwrap();
                    assert!(memory(region) == vec![0; 200_016], "{count} {width:?}");
                }
            }
        });
    });
}

#[test]
fn words_that_all_threads_add_to_lose_nothing() {
    everywhere(|peers| {
        each_region_with_atomics(peers, 64, |region| {
            let word = region.remote().at(aligned(region));
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let way = &peers.way;
                    let one = 1_u64.to_ne_bytes();
                    scope.spawn(move || {
                        for _ in 0..200 {
                            if thread % 2 == 0 {
                                fetch_add(&**way, word, Width::W8, 1).unwrap();
                            } else {
                                update_each(&**way, word, Width::W8, Update::Add, &one).unwrap();
                            }
                        }
                    });
                }
            });
            assert_eq!(fetch_add(&*peers.way, word, Width::W8, 0).unwrap(), 800);
        });
    });
}

#[test]
fn a_mapping_is_the_memory_itself() {
    everywhere(|peers| {
        for (len, align) in [(1, 1), (5000, 1), (5000, 1 << 21)] {
            let region = peers.target.allocate(len, align).unwrap();
            assert!(region.base().addr().is_multiple_of(align.max(4096)));
            let Some(mapping) = peers.way.map(&region.remote()).unwrap() else {
                continue;
            };
            assert_eq!(mapping.len(), len as u64);
            // SAFETY: both are mapped for `len` bytes, and one thread accesses them.
            unsafe {
                mapping.base().add(len - 1).write(77);
                assert_eq!(region.base().add(len - 1).read(), 77);
                region.base().write(78);
                assert_eq!(mapping.base().read(), 78);
            }
        }
        let empty = peers.target.allocate(0, 1).unwrap();
        assert!(empty.is_empty());
        assert!(peers.way.map(&empty.remote()).unwrap().is_none());
    });
}

/// Where peers cannot map memory, they have no atomics on it either, and nor has its process.
#[test]
fn atomics_are_there_where_memory_can_be_mapped() {
    everywhere(|peers| {
        let mut seen = Vec::new();
        each_region(peers, 64, |region| {
            let remote = region.remote();
            let has = peers.way.has_atomics(&remote);
            let word = remote.at(aligned(region));
            assert_eq!(fetch_add(&*peers.way, word, Width::W8, 1).is_ok(), has);
            seen.push((has, peers.way.map(&remote).unwrap().is_some()));
        });
        let [allocated, part, owned] = seen[..] else {
            panic!("{seen:?}");
        };
        assert!(allocated == part && allocated.0, "{seen:?}");
        let maps = allocated.1;
        assert_eq!(owned.0, !maps, "as on a NIC where nothing is mapped");
    });
}

#[test]
fn without_the_option_there_is_no_mapping() {
    let _alone = alone();
    for (spec, mapped) in [("soft", true), ("soft:map=off", false)] {
        for to_self in [false, true] {
            let peers = peers(spec, to_self);
            let region = peers.target.allocate(64, 1).unwrap();
            let mapping = peers.way.map(&region.remote()).unwrap();
            assert_eq!(mapping.is_some(), mapped, "{spec}");
        }
    }
}

#[test]
fn a_process_that_lives_is_alive() {
    everywhere(|peers| assert_eq!(peers.way.liveness(), Liveness::Alive));
}

#[test]
fn devices_leave_no_descriptor_behind() {
    let _alone = alone();
    let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let some = |rounds| {
        for _ in 0..rounds {
            let peers = peers("soft", false);
            let region = peers.target.allocate(10_000, 1).unwrap();
            assert!(peers.way.map(&region.remote()).unwrap().is_some());
        }
    };
    some(3);
    let before = count();
    some(200);
    assert_eq!(count(), before);
}

#[test]
fn batches_of_any_pieces() {
    everywhere(|peers| {
        each_region(peers, 100_000, |region| {
            let way = &*peers.way;
            let source: Vec<u8> = (0..50_000).map(|byte| (byte % 249) as u8 + 1).collect();
            let mut wanted = vec![0; 100_000];
            let (mut runs, mut pieces, mut from) = (Vec::new(), Vec::new(), 0);
            // More than the kernel takes at a time; some runs follow one another.
            for run in 0..1500 {
                let at = run * 60 + run % 3;
                let mut len = 0;
                for piece in 0..1 + run % 4 {
                    let part = 1 + (run + piece) % 9;
                    let base = source[from..].as_ptr().cast_mut();
                    pieces.push(LocalPiece { base, len: part });
                    wanted[at + len..][..part].copy_from_slice(&source[from..][..part]);
                    from += part;
                    len += part;
                }
                runs.push(RemoteRun {
                    at: region.remote().at(at as u64),
                    pieces: 1 + run % 4,
                });
            }
            let batch = Batch {
                runs: &runs,
                pieces: &pieces,
            };
            // SAFETY: the source outlives the operation, which is waited for.
            let ticket = unsafe { way.write_batch(&batch) };
            finish(way, ticket.map_err(|failed| failed.error)).unwrap();
            assert!(memory(region) == wanted);
            let mut back = vec![0_u8; from];
            let start = back.as_mut_ptr();
            let mut next = 0;
            for piece in &mut pieces {
                piece.base = start.wrapping_add(next);
                next += piece.len;
            }
            let batch = Batch {
                runs: &runs,
                pieces: &pieces,
            };
            // SAFETY: as above; the pieces are parts of `back`.
            let ticket = unsafe { way.read_batch(&batch) };
            finish(way, ticket.map_err(|failed| failed.error)).unwrap();
            assert!(back == source[..from]);
        });
    });
}

#[test]
fn batches_that_leave_the_region_are_refused() {
    everywhere(|peers| {
        each_region(peers, 4096, |region| {
            let bytes = [1_u8; 8];
            let piece = LocalPiece {
                base: bytes.as_ptr().cast_mut(),
                len: 8,
            };
            let run = |at| RemoteRun {
                at: region.remote().at(at),
                pieces: 1,
            };
            for outside in [4089, u64::MAX - 3] {
                let batch = Batch {
                    runs: &[run(0), run(outside)],
                    pieces: &[piece; 2],
                };
                // SAFETY: the bytes outlive the operation.
                let failed = unsafe { peers.way.write_batch(&batch) }.unwrap_err();
                assert!(failed.error.is_remote_access(), "{:?}", failed.error);
                finish(&*peers.way, Ok(failed.posted)).unwrap();
                let all = memory(region);
                assert!(all[8..].iter().all(|&byte| byte == 0), "{outside}");
            }
        });
    });
}
