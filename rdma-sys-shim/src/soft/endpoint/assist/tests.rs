//! Transfers of this process to itself, as to a peer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{ptr, thread};

use super::*;
use crate::assist::{Assist, Assisted as _};
use crate::device::batch::{LocalPiece, RemoteRun, TransferBatch};
use crate::device::combine::triple_and_add::TripleAndAdd;
use crate::guard;
use crate::soft::endpoint::SoftEndpoint;
use crate::soft::iovec;
use crate::soft::process::ProcessId;
use crate::soft::request::Request;
use crate::soft::select::Path;
use crate::soft::slots::SLOTS;
use crate::soft::table::RegionTable;
use crate::soft::{DEVICE, Options};
use crate::{
    Access, Combination, CombinedElements, Direction, Endpoint as _, Error, Operands, RemoteRegion,
};

/// The longest pieces of which a request may have several.
const SHORT: usize = select::OF_ASSIST.list;

const NONCE: u64 = 7;

/// Bytes of the longest transfers.
const MOST: usize = 200_000;
/// Requests served, after which a test has seen assist.
const ENOUGH: usize = 20;
/// Assist serves long before.
const MOST_ROUNDS: usize = 1_000_000;

/// Memory that is known as a peer's, and the way there.
struct Peer {
    segment: Arc<Segment>,
    endpoint: SoftEndpoint,
    region: RemoteRegion,
    memory: Vec<u8>,
}

impl Peer {
    fn new(len: usize) -> Self {
        Self::with(len, "")
    }

    fn with(len: usize, options: &str) -> Self {
        let id = ProcessId::own().unwrap();
        let segment = Arc::new(Segment::create(id.pid, NONCE).unwrap());
        let memory = vec![0; len];
        let table = RegionTable::new(segment.clone());
        let address = memory.as_ptr().expose_provenance() as u64;
        let region = table
            .insert(address, len as u64, Access::ALL, None)
            .unwrap();
        let (there, process) = Segment::open(DEVICE, id, &segment.published(id)).unwrap();
        segment.combiner.give(Arc::new(TripleAndAdd));
        let (options, combiner) = (Options::parse(options).unwrap(), segment.combiner.clone());
        let endpoint = SoftEndpoint::to_peer(process, there, options, combiner);
        Self {
            segment,
            endpoint: endpoint.unwrap(),
            region,
            memory,
        }
    }

    /// Whether the kernel lets it be reached without its agent.
    fn attaches(&self) -> bool {
        let attaches = self.endpoint.path == Path::CrossMemory;
        if !attaches {
            eprintln!("not tried: no cross-memory attach");
        }
        attaches
    }

    fn write(&self, bytes: &[u8], offset: usize) {
        let at = self.region.at(offset as u64);
        // SAFETY: the bytes are there until the operation is complete, which it is on return.
        unsafe {
            self.endpoint
                .transfer(Direction::Write, bytes.as_ptr().cast_mut(), bytes.len(), at)
        }
        .unwrap();
    }

    fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0xee; len];
        let at = self.region.at(offset as u64);
        // SAFETY: as above.
        unsafe {
            self.endpoint
                .transfer(Direction::Read, bytes.as_mut_ptr(), len, at)
        }
        .unwrap();
        bytes
    }

    /// A put or a get of pieces of `bytes`: how far from the start of the memory, and how long.
    fn batch(&self, direction: Direction, bytes: &mut [u8], pieces: &[(usize, usize)]) {
        let runs: Vec<_> = pieces
            .iter()
            .map(|&(offset, _)| RemoteRun {
                at: self.region.at(offset as u64),
                pieces: 1,
            })
            .collect();
        let mut start = 0;
        let mut local = Vec::new();
        for &(_, len) in pieces {
            let base = bytes[start..start + len].as_mut_ptr();
            local.push(LocalPiece { base, len });
            start += len;
        }
        let batch = TransferBatch {
            runs: &runs,
            pieces: &local,
        };
        // SAFETY: the pieces lie in `bytes`.
        unsafe { self.endpoint.transfer_batch(direction, &batch) }.unwrap();
    }

    /// What is in the memory, whoever serves.
    fn look(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0xee; len];
        assert!(offset + len <= self.memory.len());
        // SAFETY: inside the memory, and as long.
        unsafe { crate::memory::copy(bytes.as_mut_ptr(), self.memory.as_ptr().add(offset), len) };
        bytes
    }

    /// What assist did not move.
    ///
    /// # Safety
    /// The part is readable (for a write) or writable (for a read).
    unsafe fn ask(&self, operation: Operation, part: StridedBlocks) -> Vec<StridedBlocks> {
        let parts = std::iter::once(part);
        let results = (operation == Operation::Read).then(|| parts.clone());
        let there = (&*self.segment, &self.endpoint.peer);
        // SAFETY: the caller's promise.
        let left = unsafe {
            let assist = &self.endpoint.assist;
            assist.ask(there, operation, parts, results)
        };
        left.unwrap()
    }

    fn all_slots_are_free(&self) -> bool {
        (0..SLOTS).all(|_| request::claim_now(&self.segment, self.endpoint.peer.own(), 0).is_some())
    }
}

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + seed) as u8).collect()
}

/// Runs `body` while so many threads serve; it is told how often one has.
fn beside_assist<T>(peer: &Peer, count: usize, body: impl FnOnce(&AtomicUsize) -> T) -> T {
    let (over, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                let mut assist = Assist::of_one(peer.segment.clone());
                assist.lend();
                while !over.load(Ordering::Relaxed) {
                    // As long as those who ask have a processor, too.
                    for _ in 0..1000 {
                        let done = assist.serve();
                        served.fetch_add(usize::from(done), Ordering::Relaxed);
                    }
                    thread::yield_now();
                }
            });
        }
        let ends = Ends(&over);
        peer.endpoint.assist.is_sure.store(true, Ordering::Relaxed);
        let result = body(&served);
        peer.endpoint.assist.is_sure.store(false, Ordering::Relaxed);
        drop(ends);
        result
    })
}

/// Rounds, numbered from one, until threads have served often.
fn until_served(served: &AtomicUsize, mut body: impl FnMut(usize)) {
    let mut round = 0;
    while round == 0 || served.load(Ordering::Relaxed) < ENOUGH {
        round += 1;
        body(round);
        assert!(round < MOST_ROUNDS, "nobody serves");
    }
}

/// Also where the body panics.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

const LENS: [usize; 11] = [1, 8, 16, 17, 100, 1023, 1024, 1025, 5000, MOST, MOST + 1];

fn transfers_arrive(peer: &Peer, round: usize) {
    let before = peer.read(0, peer.memory.len());
    for (which, len) in LENS.into_iter().enumerate() {
        let offset = (which * 13 + round) % 64;
        let sent = bytes(len, which + round);
        peer.write(&sent, offset);
        assert_eq!(peer.read(offset, len), sent, "{len} bytes");
        let around = peer.read(0, peer.memory.len());
        assert_eq!(around[..offset], before[..offset], "{len} bytes");
        peer.write(&before[offset..offset + len], offset);
    }
    assert_eq!(peer.read(0, peer.memory.len()), before);
}

#[test]
fn assist_moves_what_was_asked_for() {
    let peer = Peer::new(MOST + 100);
    if !peer.attaches() {
        return;
    }
    beside_assist(&peer, 2, |served| {
        until_served(served, |round| transfers_arrive(&peer, round));
    });
    assert!(peer.all_slots_are_free());
}

#[test]
fn without_assist_the_kernel_moves_it() {
    let peer = Peer::new(MOST + 100);
    if !peer.attaches() {
        return;
    }
    transfers_arrive(&peer, 0);
    assert!(peer.segment.assist().take_call());
    assert!(!peer.segment.assist().take_call());
    assert!(peer.all_slots_are_free());
}

#[test]
fn assist_that_was_promised_and_does_not_come_is_not_waited_for() {
    let peer = Peer::new(MOST + 100);
    if !peer.attaches() {
        return;
    }
    peer.segment.assist().lend();
    for round in 0..20 {
        transfers_arrive(&peer, round);
    }
    let missed = peer.endpoint.assist.misses().count.load(Ordering::Relaxed);
    assert!(missed > 0, "nobody came");
    assert!(peer.all_slots_are_free());
}

#[test]
fn a_thread_that_looks_in_passing_serves() {
    let peer = Peer::new(MOST + 100);
    if !peer.attaches() {
        return;
    }
    let (over, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let count = peer.segment.serve_in_passing(Instant::now());
                served.fetch_add(count, Ordering::Relaxed);
            }
        });
        let _ends = Ends(&over);
        until_served(&served, |round| transfers_arrive(&peer, round));
    });
    assert!(peer.all_slots_are_free());
}

#[test]
fn a_thread_that_is_called_serves_the_rest_of_a_long_run() {
    let sent = bytes(8 * select::ASKED_ANEW + 100, 5);
    let peer = Peer::new(sent.len());
    if !peer.attaches() {
        return;
    }
    let (over, is_moving) = (AtomicBool::new(false), AtomicBool::new(false));
    let served = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if !peer.segment.take_call() {
                    thread::yield_now();
                    continue;
                }
                // No longer than the run of which it was called.
                let mut assist = Assist::of_one(peer.segment.clone());
                assist.lend();
                let is_sure = &peer.endpoint.assist.is_sure;
                is_sure.store(true, Ordering::Relaxed);
                while is_moving.load(Ordering::Relaxed) {
                    served.fetch_add(usize::from(assist.serve()), Ordering::Relaxed);
                }
                is_sure.store(false, Ordering::Relaxed);
            }
        });
        let _ends = Ends(&over);
        let mut rounds = 0..1000;
        while served.load(Ordering::Relaxed) == 0 {
            is_moving.store(true, Ordering::Relaxed);
            peer.write(&sent, 0);
            is_moving.store(false, Ordering::Relaxed);
            assert_eq!(peer.look(0, sent.len()), sent);
            assert!(rounds.next().is_some(), "nobody serves");
        }
    });
    assert!(peer.all_slots_are_free());
}

#[test]
fn pieces_of_batches_arrive_with_assist_or_without() {
    let peer = Peer::new(1 << 20);
    if !peer.attaches() {
        return;
    }
    let column: Vec<_> = (0..1000).map(|row| (row * 1000 + 3, 8)).collect();
    let uneven: Vec<_> = (0..300).map(|at| (at * 600, at % 500)).collect();
    let backwards: Vec<_> = (0..300).rev().map(|at| (at * 16, 5)).collect();
    let long = vec![(0, SHORT), (SHORT + 1, SHORT + 1)];
    // Pieces that are requests by themselves stand between others.
    let mixed: Vec<_> = (0..300)
        .map(|at| (at * 1100, if at % 150 == 149 { SHORT + 1 } else { 8 }))
        .collect();
    let lists = [column, uneven, backwards, long, mixed];
    let go = |round: usize| {
        for (which, pieces) in lists.iter().enumerate() {
            let all = pieces.iter().map(|&(_, len)| len).sum();
            let mut sent = bytes(all, which + round);
            let mut seen = vec![0; all];
            peer.batch(Direction::Write, &mut sent, pieces);
            peer.batch(Direction::Read, &mut seen, pieces);
            assert_eq!(seen, sent, "list {which}");
            let mut next = sent.iter();
            for &(offset, len) in pieces {
                let expected: Vec<u8> = next.by_ref().take(len).copied().collect();
                assert_eq!(peer.read(offset, len), expected, "list {which}");
            }
        }
    };
    go(0);
    beside_assist(&peer, 1, |served| until_served(served, go));
    assert!(peer.all_slots_are_free());
}

/// Blocks: how long, how many, and how far apart here and there.
const BLOCKS: [(usize, usize, isize, i64); 9] = [
    (8, 1000, 8, 1000),
    (8, 2, 16, 64),
    (8, 129, -24, 8),
    (3, 300, 7, 3),
    (SHORT, 50, SHORT as isize + 1, 1100),
    (SHORT + 1, 20, SHORT as isize + 1, 1100),
    (16, 400, 16, -48),
    (100, 1, 0, 0),
    (8, 0, 8, 8),
];

impl Peer {
    /// A put or a get of blocks from or to `bytes`, in its middle if they go backwards; likewise in the memory.
    fn blocks(
        &self,
        direction: Direction,
        bytes: &mut [u8],
        (len, count, stride_here, stride_there): (usize, usize, isize, i64),
    ) -> std::result::Result<Vec<(usize, usize)>, Error> {
        let middle = |stride: i64| match stride < 0 {
            true => -stride as usize * count.max(1),
            false => 0,
        };
        let (here, there) = (middle(stride_here as i64), middle(stride_there));
        let blocks = StridedBlocks {
            here: bytes[here..].as_mut_ptr(),
            at: self.region.at(there as u64),
            len,
            count,
            stride_here,
            stride_there,
        };
        let ends = |block: isize| {
            let here = here.checked_add_signed(block * stride_here).unwrap();
            assert!(here + len <= bytes.len());
            (here, (there as i64 + block as i64 * stride_there) as usize)
        };
        let each = (0..count as isize).map(ends).collect();
        // SAFETY: each block lies in `bytes`, as was just seen.
        let posted = unsafe { self.endpoint.transfer_blocks(direction, blocks) };
        posted.map(|_| each).map_err(|failed| failed.error)
    }
}

#[test]
fn blocks_arrive_with_assist_or_without() {
    let peer = Peer::new(1 << 20);
    if !peer.attaches() {
        return;
    }
    let go = |round: usize| {
        for (which, &shape) in BLOCKS.iter().enumerate() {
            let mut sent = bytes(60_000, which + round);
            let before = sent.clone();
            let mut seen = vec![0xee; sent.len()];
            let mut expected = seen.clone();
            let each = peer.blocks(Direction::Write, &mut sent, shape).unwrap();
            assert_eq!(sent, before);
            peer.blocks(Direction::Read, &mut seen, shape).unwrap();
            let memory = peer.read(0, peer.memory.len());
            for (here, there) in each {
                let block = here..here + shape.0;
                expected[block.clone()].copy_from_slice(&sent[block.clone()]);
                assert_eq!(memory[there..there + shape.0], sent[block], "{shape:?}");
            }
            assert_eq!(seen, expected, "{shape:?}");
        }
    };
    go(0);
    beside_assist(&peer, 1, |served| until_served(served, go));
    assert!(peer.all_slots_are_free());
}

#[test]
fn assist_moves_all_blocks_that_follow_each_other() {
    let peer = Peer::new(1 << 20);
    if !peer.attaches() {
        return;
    }
    beside_assist(&peer, 1, |_| {
        for (len, stride_there) in [(8, 1000), (SHORT, 1024), (SHORT, 2000)] {
            let mut bytes = bytes(400 * len, len);
            let blocks = StridedBlocks {
                count: 400,
                stride_here: len as isize,
                stride_there,
                ..StridedBlocks::run(bytes.as_mut_ptr(), len, peer.region.at(0))
            };
            let mut left = (0..MOST_ROUNDS).map(|_| {
                // SAFETY: the blocks lie in `bytes`.
                unsafe { peer.ask(Operation::Write, blocks) }
            });
            // Not each time, where other programs have the processors.
            assert!(left.any(|left| left.is_empty()), "{len} {stride_there}");
        }
    });
}

#[test]
fn blocks_outside_the_region_are_refused_and_named() {
    let peer = Peer::new(4096);
    if !peer.attaches() {
        return;
    }
    beside_assist(&peer, 1, |_| {
        let mut bytes = [1_u8; 600 * 8];
        for (stride, first_beyond) in [(8, 4096), (400, 4400)] {
            let shape = (8, 600, 8, stride);
            let error = peer
                .blocks(Direction::Write, &mut bytes, shape)
                .unwrap_err();
            assert!(error.is_remote_access());
            let named = format!("{:#x}", peer.region.address + first_beyond);
            assert!(error.to_string().contains(&named), "{error}");
        }
    });
}

#[test]
fn a_batch_outside_the_region_is_refused_and_named() {
    let peer = Peer::new(4096);
    if !peer.attaches() {
        return;
    }
    beside_assist(&peer, 1, |_| {
        let runs = [0, 4090].map(|offset| RemoteRun {
            at: peer.region.at(offset),
            pieces: 1,
        });
        let mut bytes = [1_u8; 16];
        let pieces = [0, 8].map(|start| LocalPiece {
            base: bytes[start..].as_mut_ptr(),
            len: 8,
        });
        let batch = TransferBatch {
            runs: &runs,
            pieces: &pieces,
        };
        // SAFETY: the pieces lie in `bytes`.
        let refused = unsafe { peer.endpoint.transfer_batch(Direction::Write, &batch) };
        let error = refused.unwrap_err().error;
        assert!(error.is_remote_access());
        let refused = format!("{:#x}", peer.region.address + 4090);
        assert!(error.to_string().contains(&refused), "{error}");
    });
}

#[test]
fn many_origins_share_the_slots_of_one_peer() {
    let len = MOST + 100;
    let peer = Peer::new(4 * len);
    if !peer.attaches() {
        return;
    }
    beside_assist(&peer, 2, |served| {
        thread::scope(|scope| {
            for mine in 0..4 {
                let (peer, served) = (&peer, &served);
                scope.spawn(move || {
                    let mut round = 0;
                    while served.load(Ordering::Relaxed) < ENOUGH {
                        for len in LENS {
                            let (sent, offset) = (bytes(len, mine + round), mine * (MOST + 100));
                            peer.write(&sent, offset);
                            assert_eq!(peer.read(offset, len), sent);
                            // More threads than processors are bound to disappoint each other.
                            peer.endpoint
                                .assist
                                .misses()
                                .pause
                                .store(0, Ordering::Relaxed);
                            round += 1;
                        }
                        assert!(round < MOST_ROUNDS, "nobody serves");
                    }
                });
            }
        });
    });
    assert!(peer.all_slots_are_free());
}

fn claim_for_the_dead(peer: &Peer) -> usize {
    let dead = ProcessId {
        pid: u32::MAX / 2,
        start_time: 1,
    };
    request::claim_now(&peer.segment, dead, 0).unwrap()
}

/// As a process that is not there any more left it, with its last write.
fn leave_a_slot_of_the_dead(peer: &Peer, offered: u32) {
    let slot = claim_for_the_dead(peer);
    let request = Request::of(Operation::Write, 0, peer.region.at(0), 64, 8);
    // SAFETY: the slot was just claimed.
    unsafe { request.fill(&peer.segment, slot, [0xdd_u8; 8].as_ptr()) };
    slots::offer(peer.segment.slot(slot), offered);
}

#[test]
fn what_the_dead_asked_for_is_not_done_and_holds_nobody_up() {
    let peer = Peer::new(4096);
    if !peer.attaches() {
        return;
    }
    let long_ago = milliseconds().wrapping_sub(1000).max(1);
    for _ in 0..SLOTS {
        leave_a_slot_of_the_dead(&peer, long_ago);
    }
    beside_assist(&peer, 1, |served| {
        until_served(served, |_| {
            peer.write(&[9; 8], 0);
            assert_eq!(peer.read(0, 8), [9; 8]);
        });
    });
    assert_eq!(peer.memory[64..72], [0; 8], "the dead one's write was done");
    assert!(peer.all_slots_are_free());
}

#[test]
fn an_agent_is_asked_for_short_pieces_in_lists() {
    const PIECES: usize = 1000;
    let peer = Peer::with(1 << 20, "cma=off");
    // What the agent serves, assist serves, too.
    peer.segment.bell().set_running(true);
    let column: Vec<_> = (0..PIECES).map(|row| (row * 1000 + 3, 8)).collect();
    let mut mixed = vec![(70, SHORT + 1), (3, 5), (20, 0), (40, 7), (1200, SHORT)];
    mixed.extend((0..200).map(|at| (3000 + at * 16, 9)));
    for (pieces, most) in [(column, PIECES.div_ceil(iovec::MOST)), (mixed, 5)] {
        let all = pieces.iter().map(|&(_, len)| len).sum();
        let mut sent = bytes(all, most);
        let mut seen = vec![0; all];
        let asked = beside_assist(&peer, 1, |served| {
            peer.batch(Direction::Write, &mut sent, &pieces);
            peer.batch(Direction::Read, &mut seen, &pieces);
            served.load(Ordering::Relaxed)
        });
        assert_eq!(seen, sent);
        assert!(
            asked <= 2 * most,
            "{asked} requests for {} pieces",
            pieces.len()
        );
        let mut next = sent.iter();
        for (offset, len) in pieces {
            let expected: Vec<u8> = next.by_ref().take(len).copied().collect();
            assert_eq!(peer.look(offset, len), expected);
        }
    }
    let stride = 1000_i64;
    let shape = (8, PIECES, 8, stride);
    let mut sent = bytes(8 * PIECES, 2);
    let asked = beside_assist(&peer, 1, |served| {
        peer.blocks(Direction::Write, &mut sent, shape).unwrap();
        served.load(Ordering::Relaxed)
    });
    assert!(asked <= PIECES.div_ceil(iovec::MOST), "{asked} requests");
    assert_eq!(peer.look(stride as usize * 999, 8), sent[8 * 999..]);
    assert!(peer.all_slots_are_free());
}

#[test]
fn an_agent_is_asked_past_slots_of_the_dead() {
    let peer = Peer::new(4096);
    if !peer.attaches() {
        return;
    }
    for number in 0..SLOTS {
        match number % 3 {
            // It died before it had written anything.
            0 => drop(claim_for_the_dead(&peer)),
            // Before it had told the agent.
            1 => leave_a_slot_of_the_dead(&peer, 0),
            _ => leave_a_slot_of_the_dead(&peer, milliseconds()),
        }
    }
    request::free_those_of_the_dead(&peer.segment, peer.endpoint.peer.own());
    assert!(peer.all_slots_are_free());
}

#[test]
fn assist_survives_memory_that_was_taken_away() {
    const PAGE: usize = 4096;
    let peer = Peer::new(1 << 20);
    if !peer.attaches() {
        return;
    }
    let _alone = guard::alone();
    guard::watch();
    let first = peer.memory.as_ptr().wrapping_add(4 * PAGE);
    let page = first.wrapping_sub(first.addr() % PAGE);
    let offset = page.addr() - peer.memory.as_ptr().addr();
    let protect = |rights| {
        // SAFETY: a page amid our own memory, to which there is no reference while it cannot be used.
        let rc = unsafe { libc::mprotect(page.cast_mut().cast(), PAGE, rights) };
        assert_eq!(rc, 0);
    };
    let gone = |result: Result<crate::Ticket>| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(request::TAKEN_AWAY), "{error}");
    };
    protect(libc::PROT_NONE);
    beside_assist(&peer, 1, |served| {
        until_served(served, |_| {
            let mut bytes = vec![7_u8; 200_000];
            let long = offset.saturating_sub(100_000);
            for (at, len) in [
                (offset, 8),
                (offset, 2000),
                (offset - 4, 8),
                (long, 200_000),
            ] {
                let (at, local) = (peer.region.at(at as u64), bytes.as_mut_ptr());
                let named = |result: Result<crate::Ticket>| {
                    let place = format!("of {len} bytes at {:#x}", at.address);
                    let error = result.as_ref().unwrap_err().to_string();
                    assert!(error.contains(&place), "{error}");
                    gone(result);
                };
                // SAFETY: the bytes are there until the operation has failed.
                unsafe {
                    named(peer.endpoint.transfer(Direction::Write, local, len, at));
                    named(peer.endpoint.transfer(Direction::Read, local, len, at));
                }
            }
            let shape = (8, 300, 8, 64);
            let mut sent = [1; 2400];
            let start = peer.region.at(offset as u64 - 640);
            let blocks = StridedBlocks {
                here: sent.as_mut_ptr(),
                at: start,
                len: shape.0,
                count: shape.1,
                stride_here: 8,
                stride_there: shape.3,
            };
            for direction in [Direction::Write, Direction::Read] {
                // SAFETY: the blocks lie in `sent`.
                let moved = unsafe { peer.endpoint.transfer_blocks(direction, blocks) };
                gone(moved.map_err(|failed| failed.error));
            }
            // Half of these are still there.
            peer.write(&[0; 64], offset - 64);
            match try_add_ones(&peer, offset - 64, 16, &mut []) {
                Ok(done) => {
                    assert!(!done);
                    assert_eq!(peer.read(offset - 64, 64), [0; 64], "would be added again");
                }
                Err(error) => gone(Err(error)),
            }
            peer.write(&[5; 64], offset - 64);
            assert_eq!(peer.read(offset - 64, 64), [5; 64]);
        });
    });
    protect(libc::PROT_READ | libc::PROT_WRITE);
    assert!(peer.all_slots_are_free());
}

#[test]
fn what_assist_refuses_is_for_the_caller() {
    let mut peer = Peer::new(4096);
    if !peer.attaches() {
        return;
    }
    // Between the look of its origin and that of its server, a region may go.
    peer.region.rkey += 1 << 32;
    beside_assist(&peer, 1, |served| {
        until_served(served, |_| {
            let at = peer.region.at(0);
            let mut bytes = [1_u8; 8];
            let run = StridedBlocks::run(bytes.as_mut_ptr(), 8, at);
            // SAFETY: as many bytes.
            let left = unsafe { peer.ask(Operation::Write, run) };
            let left: Vec<_> = left.iter().map(|part| (part.at, part.len)).collect();
            assert_eq!(left, [(at, 8)]);
        });
    });
    assert_eq!(peer.memory[..8], [0; 8]);
    assert!(peer.all_slots_are_free());
}

/// Triples words at an offset and adds ones, under the lock in the first word of the peer's memory; false if nobody did.
/// What they were goes to `old`, if there is any.
fn add_ones(peer: &Peer, offset: usize, count: usize, old: &mut [u64]) -> bool {
    try_add_ones(peer, offset, count, old).unwrap()
}

fn try_add_ones(peer: &Peer, offset: usize, count: usize, old: &mut [u64]) -> Result<bool> {
    let ones = vec![1_u64; count];
    let what = Combination {
        operation: 0,
        ty: 0,
        atomics: 0,
        operands: Operands::One,
        fetches: !old.is_empty(),
    };
    let elements = CombinedElements {
        count,
        operands: ones.as_ptr().cast(),
        compare: ptr::null(),
        old: old.as_mut_ptr().cast(),
    };
    let (lock, at) = (peer.region.at(0), peer.region.at(offset as u64));
    // SAFETY: as many words; the operation is complete on return.
    let (done, _) = unsafe { (peer.endpoint).combine(what, lock, at, elements)? };
    assert!(done == 0 || done == count);
    Ok(done > 0)
}

#[test]
fn numbers_are_added_once_by_assist_or_left() {
    const COUNT: usize = 128;
    let peer = Peer::new(8 * (1 + COUNT));
    if !peer.attaches() {
        return;
    }
    let words = |held: &[u8]| -> Vec<u64> {
        let words = held.chunks_exact(8);
        words
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
            .collect()
    };
    let next = |word: &u64| word.wrapping_mul(3).wrapping_add(1);
    let mut expected = vec![0; COUNT];
    let mut add = |count: usize, fetches: bool| {
        let mut old = vec![7; if fetches { COUNT } else { 0 }];
        if !add_ones(&peer, 8, count, &mut old) {
            let held = words(&peer.read(8, 8 * count));
            let more: Vec<_> = held.iter().map(next).flat_map(u64::to_ne_bytes).collect();
            peer.write(&more, 8);
        } else if fetches {
            assert_eq!(old[..count], expected[..count]);
            assert!(old[count..].iter().all(|&number| number == 7));
        }
        expected[..count]
            .iter_mut()
            .for_each(|number| *number = next(number));
        let seen = words(&peer.read(8, 8 * COUNT));
        assert_eq!(seen, expected, "after {count} more");
    };
    let counts = [1, 50, 100, COUNT];
    for count in counts {
        add(count, false);
        add(count, true);
    }
    beside_assist(&peer, 1, |served| {
        until_served(served, |_| {
            for count in counts {
                add(count, false);
                add(count, true);
            }
        });
    });
    assert!(peer.all_slots_are_free());
}

#[test]
fn numbers_that_nobody_adds_are_left() {
    let peer = Peer::new(4096);
    if !peer.attaches() {
        return;
    }
    assert!(!add_ones(&peer, 8, 10, &mut []), "nobody was asked");
    // Promised, and not given.
    peer.segment.assist().lend();
    assert!(!add_ones(&peer, 8, 100, &mut []));
    assert!(peer.all_slots_are_free());
}
