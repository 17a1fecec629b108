//! Writes and reads that are allowed.

use super::peers::{pattern, until};
use super::{Setup, each_region, finish, memory, read, write};
use crate::Direction::{Read, Write};
use crate::{LocalPiece, RemoteRun, StridedBlocks, Ticket, TransferBatch};

pub(super) fn every_length(setup: &Setup) {
    setup.both_ways(|peers| {
        each_region(peers, 300_000, |region| {
            let (way, at) = (&*peers.way, region.remote().at(33));
            for len in [0, 1, 7, 8, 63, 4096, 65_536, 65_537, 262_145] {
                let bytes = pattern(len);
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

pub(super) fn a_read_sees_the_writes_before_it(setup: &Setup) {
    setup.both_ways(|peers| {
        for len in [8, 1000, 100_000] {
            let region = peers.target.allocate(len, 8).unwrap();
            let (sent, mut got) = (pattern(len), vec![0; len]);
            let at = region.remote().at(0);
            // SAFETY: the buffers outlive the operations, the last of which is waited for.
            let ticket = unsafe {
                peers
                    .way
                    .transfer(Write, sent.as_ptr().cast_mut(), len, at)
                    .unwrap();
                peers.way.transfer(Read, got.as_mut_ptr(), len, at)
            };
            finish(&*peers.way, ticket).unwrap();
            assert!(got == sent, "{len}");
        }
    });
}

pub(super) fn buffers_are_free_once_released(setup: &Setup) {
    setup.both_ways(|peers| {
        let way = &*peers.way;
        for len in [8, 1000, 100_000, 1_000_000] {
            let region = peers.target.allocate(2 * len, 8).unwrap();
            let at = |n: usize| region.remote().at((n * len) as u64);
            write(way, &pattern(len), at(0)).unwrap();
            let (mut source, mut got) = (pattern(len), vec![0; len]);
            // SAFETY: the buffers outlive the operations.
            let (_, posted) = unsafe {
                let read = way.transfer(Read, got.as_mut_ptr(), len, at(0)).unwrap();
                (
                    read,
                    way.transfer(Write, source.as_ptr().cast_mut(), len, at(1)),
                )
            };
            let ticket = posted.unwrap();
            until("all buffers are free", || way.released(ticket).unwrap());
            assert!(got == pattern(len), "{len}");
            source.fill(0);
            got.fill(7);
            finish(way, Ok(ticket)).unwrap();
            assert!(got == vec![7; len], "{len}");
            assert!(memory(&region)[len..] == pattern(len), "{len}");
        }
    });
}

pub(super) fn batches_of_any_pieces(setup: &Setup) {
    setup.both_ways(|peers| {
        each_region(peers, 100_000, |region| {
            let way = &*peers.way;
            let source = pattern(50_000);
            let mut wanted = vec![0; 100_000];
            let (mut runs, mut pieces, mut from) = (Vec::new(), Vec::new(), 0);
            // More than the kernel takes in one call; some runs are adjacent.
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
            let batch = TransferBatch {
                runs: &runs,
                pieces: &pieces,
            };
            // SAFETY: the source outlives the operation, which is waited for.
            let ticket = unsafe { way.transfer_batch(Write, &batch) };
            finish(way, ticket.map_err(|failed| failed.error)).unwrap();
            assert!(memory(region) == wanted);
            let mut back = vec![0_u8; from];
            let start = back.as_mut_ptr();
            let mut next = 0;
            for piece in &mut pieces {
                piece.base = start.wrapping_add(next);
                next += piece.len;
            }
            let batch = TransferBatch {
                runs: &runs,
                pieces: &pieces,
            };
            // SAFETY: as above; the pieces are parts of `back`.
            let ticket = unsafe { way.transfer_batch(Read, &batch) };
            finish(way, ticket.map_err(|failed| failed.error)).unwrap();
            assert!(back == source[..from]);
        });
    });
}

pub(super) fn blocks_of_any_strides(setup: &Setup) {
    setup.both_ways(|peers| {
        for (len, stride_here, stride_there) in [
            (8, 8, 40),
            (3, 7, 3),
            (100, 130, 250),
            (8, 8, -40),
            (5, -9, 9),
        ] {
            const COUNT: usize = 1500;
            let size = COUNT * 250;
            let region = peers.target.allocate(size, 8).unwrap();
            let mut bytes = pattern(size);
            let mut wanted = vec![0; size];
            // The start of a block. The first block is the last in memory if the stride is negative.
            let place = |block: usize, stride: isize| match stride < 0 {
                true => (COUNT - 1 - block) * stride.unsigned_abs(),
                false => block * stride.unsigned_abs(),
            };
            for block in 0..COUNT {
                let (from, to) = (place(block, stride_here), place(block, stride_there));
                wanted[to..to + len].copy_from_slice(&bytes[from..from + len]);
            }
            let blocks = StridedBlocks {
                here: bytes.as_mut_ptr().wrapping_add(place(0, stride_here)),
                at: region.remote().at(place(0, stride_there) as u64),
                len,
                count: COUNT,
                stride_here,
                stride_there: stride_there as i64,
            };
            let done = |ticket: std::result::Result<Ticket, crate::BatchError>| {
                finish(&*peers.way, ticket.map_err(|failed| failed.error)).unwrap();
            };
            // SAFETY: the blocks lie in `bytes`, which outlives the operation.
            done(unsafe { peers.way.transfer_blocks(Write, blocks) });
            assert!(memory(&region) == wanted, "{len}");
            bytes.fill(0);
            // SAFETY: as above.
            done(unsafe { peers.way.transfer_blocks(Read, blocks) });
            let back = |block: usize| {
                let (here, there) = (place(block, stride_here), place(block, stride_there));
                bytes[here..][..len] == wanted[there..][..len]
            };
            assert!((0..COUNT).all(back), "{len}");
        }
    });
}

pub(super) fn a_mapping_is_the_memory_itself(setup: &Setup) {
    setup.both_ways(|peers| {
        for (len, align) in [(1, 1), (5000, 1), (5000, 1 << 21)] {
            let region = peers.target.allocate(len, align).unwrap();
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
            write(&*peers.way, &[79], region.remote().at(0)).unwrap();
            // SAFETY: as above; the write is complete.
            assert_eq!(unsafe { mapping.base().read() }, 79);
        }
    });
}
