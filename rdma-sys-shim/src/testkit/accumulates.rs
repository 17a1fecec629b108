//! Accumulates that a thread of the target carries out. Devices may decline all of them, or the rest of one.

use std::sync::Arc;
use std::time::Duration;

use super::peers::until;
use super::{Peers, Setup, aligned, each_region_with_atomics, finish, memory, read, write};
use crate::device::combine::triple_and_add::{NO_LOCK, TYPES, TripleAndAdd, triple_and_add};
use crate::{
    Combination, CombinedElements, Endpoint, Error, Operands, RemoteAddress, Result, Ticket,
};

fn peers_that_combine(setup: &Setup, to_self: bool) -> Peers {
    let peers = setup.peers(to_self);
    for device in [&peers.target, &peers.origin] {
        device.combine_by(Arc::new(TripleAndAdd));
    }
    peers
}

fn what(ty: u8, is_locked: bool, fetches: bool) -> Combination {
    Combination {
        operation: 0,
        ty,
        atomics: u8::from(!is_locked),
        operands: Operands::One,
        fetches,
    }
}

/// Posts an accumulate of all operands. Returns how many elements are done, and their ticket.
fn combine(
    way: &dyn Endpoint,
    what: Combination,
    lock: RemoteAddress,
    at: RemoteAddress,
    count: usize,
    operands: &[u8],
    old: &mut [u8],
) -> Result<(usize, Ticket)> {
    let elements = CombinedElements {
        count,
        operands: operands.as_ptr(),
        compare: std::ptr::null(),
        old: old.as_mut_ptr(),
    };
    // SAFETY: the caller keeps the buffers until the operation is complete, and has checked their length.
    unsafe { way.combine(what, lock, at, elements) }
}

/// Memory of `count` elements, without the padding behind the last.
fn elements(ty: u8, count: usize, factor: usize) -> Vec<u8> {
    let element = TYPES[usize::from(ty)];
    (0..element.span(count))
        .map(|byte| (byte * factor % 253) as u8)
        .collect()
}

pub(super) fn two_of_them_in_their_order(setup: &Setup) {
    for to_self in [false, true] {
        let peers = peers_that_combine(setup, to_self);
        let lock = peers.target.allocate(8, 8).unwrap();
        each_region_with_atomics(&peers, 400_000, |region| {
            let at = region.remote().at(aligned(region));
            for (ty, count) in [(0, 1), (0, 1000), (0, 45_000), (1, 1), (1, 3), (1, 20_000)] {
                for (is_locked, fetches) in
                    [(false, false), (false, true), (true, false), (true, true)]
                {
                    let what = what(ty, is_locked, fetches);
                    let there = (lock.remote().at(0), at);
                    apply_two(&*peers.way, what, there, count);
                    assert_eq!(memory(&lock), [0; 8], "the lock is free");
                }
            }
        });
    }
}

fn apply_two(
    way: &dyn Endpoint,
    what: Combination,
    (lock, at): (RemoteAddress, RemoteAddress),
    count: usize,
) {
    let (ty, element) = (what.ty, TYPES[usize::from(what.ty)]);
    let mut wanted = elements(ty, count, 1);
    write(way, &wanted, at).unwrap();
    let operands = [7, 11].map(|factor| elements(ty, count, factor));
    let mut olds = [(); 2].map(|()| elements(ty, count, 0));
    let mut wanted_olds = olds.clone();
    let mut last = Ticket::DONE;
    for (operands, old) in operands.iter().zip(&mut olds) {
        let (done, ticket) = combine(way, what, lock, at, count, operands, old).unwrap();
        if done == 0 {
            return;
        }
        assert_eq!(done, count, "nobody has the lock");
        last = ticket;
    }
    finish(way, Ok(last)).unwrap();
    for (operands, old) in operands.iter().zip(&mut wanted_olds) {
        for start in (0..count).map(|index| index * element.extent) {
            for &(run, len) in element.runs {
                let run = start + run..start + run + len;
                if what.fetches {
                    old[run.clone()].copy_from_slice(&wanted[run.clone()]);
                }
                let sum = triple_and_add(&wanted[run.clone()], &operands[run.clone()]);
                wanted[run].copy_from_slice(&sum);
            }
        }
    }
    assert!(
        read(way, wanted.len(), at).unwrap() == wanted,
        "{what:?} {count}"
    );
    assert!(olds == wanted_olds, "{what:?} {count}");
}

pub(super) fn one_that_waits_for_its_lock(setup: &Setup) {
    let peers = peers_that_combine(setup, false);
    let (region, lock) = (
        peers.target.allocate(64, 8).unwrap(),
        peers.target.allocate(8, 8).unwrap(),
    );
    let (at, lock) = (region.remote().at(0), lock.remote().at(0));
    let (way, other) = (&*peers.way, setup.peers(true).origin);
    let beside = other.connect(&peers.target.address()).unwrap();
    write(way, &5_u64.to_ne_bytes(), lock).unwrap();
    let (operand, mut old) = (9_u64.to_le_bytes(), [7; 8]);
    let posted = combine(way, what(0, true, true), lock, at, 1, &operand, &mut old);
    let (done, ticket) = posted.unwrap();
    if done == 0 {
        assert_eq!(memory(&region), [0; 64], "nothing was done");
        return;
    }
    for _ in 0..20 {
        assert!(!way.completed(ticket).unwrap());
        // Others are served meanwhile.
        write(&*beside, &[4; 8], region.remote().at(56)).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    write(&*beside, &[0; 8], lock).unwrap();
    until("the lock is taken", || way.completed(ticket).unwrap());
    assert_eq!(old, [0; 8]);
    assert_eq!(memory(&region)[..8], operand);
}

pub(super) fn ones_that_make_no_sense(setup: &Setup) {
    let peers = peers_that_combine(setup, false);
    let (region, words) = (
        peers.target.allocate(64, 8).unwrap(),
        peers.target.allocate(64, 8).unwrap(),
    );
    write(&*peers.way, &NO_LOCK.to_ne_bytes(), words.remote().at(8)).unwrap();
    let (at, lock) = (region.remote().at(0), words.remote().at(0));
    let unknown = |place: RemoteAddress| RemoteAddress {
        rkey: place.rkey ^ 0x7777_0000,
        ..place
    };
    let one = what(0, true, false);
    let tried = |what, lock, at| -> Result<()> {
        let origin = setup.peers(true).origin;
        origin.combine_by(Arc::new(TripleAndAdd));
        let way = origin.connect(&peers.target.address()).unwrap();
        match combine(&*way, what, lock, at, 1, &[1; 8], &mut [])? {
            (0, _) => Ok(()),
            (_, ticket) => finish(&*way, Ok(ticket)),
        }
    };
    for (what, lock, at) in [
        (one, words.remote().at(8), at),
        (one, words.remote().at(4), at),
        (one, unknown(lock), at),
        (one, lock, unknown(at)),
        (one, lock, region.remote().at(60)),
        (one, words.remote().at(64), at),
    ] {
        // A device may decline before it looks.
        if let Err(error) = tried(what, lock, at) {
            assert!(error.is_remote_access(), "{error}");
        }
        assert_eq!(memory(&region), [0; 64], "nothing was done");
    }
    // What the origin's own combiner does not know is not sent.
    let unknown = Combination {
        operation: 3,
        ..one
    };
    assert!(!matches!(
        tried(unknown, lock, at),
        Err(Error::Cancelled { .. })
    ));
    assert_eq!(memory(&region), [0; 64]);
}
