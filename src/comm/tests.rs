//! Ranks that tell others what cannot be: these get errors that name them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::barrier::RANK_BITS;
use super::call::Call;
use super::collective::BARRIER_AT;
use super::{Communicator, Result};
use crate::datatype::Op;
use crate::error::{AbortCause, ErrorKind, PeerError};
use crate::peers::{Context, ranks_in_process};
use crate::raw::{Assert, Window};
use crate::terms::{LockKind, WorldRank};
use crate::wait::Patience;
use crate::window::Info;

/// What rank 0 gets of a call, while rank 1 does something else.
fn honest_and_hostile<T: Send>(
    honest: impl Fn(&Communicator) -> Result<T> + Sync,
    hostile: impl Fn(&Communicator, &Context) + Sync,
) -> Result<T> {
    let ranks = ranks_in_process("soft", 2, Patience::suspicious());
    let attack = |context: &Arc<Context>| hostile(&Communicator::world(context), context);
    thread::scope(|scope| {
        let attack = scope.spawn(|| attack(&ranks[1]));
        let got = scope.spawn(|| honest(&Communicator::world(&ranks[0])));
        attack.join().unwrap();
        got.join().unwrap()
    })
}

fn is_garbled_by_one<T>(result: Result<T>) -> bool {
    let error = result.err().expect("an error");
    matches!(
        error.kind(),
        ErrorKind::Peer(PeerError::Garbled { rank: 1, .. })
    )
}

/// Takes part in an allgather of a name with these bytes.
fn tell(world: &Communicator, operation: &'static str, bytes: &[u8]) {
    let lens = vec![bytes.len(); world.size() as usize];
    let mut carrier = world
        .begin(operation, Call::new(operation), Ok(()))
        .unwrap();
    let _ = carrier.allgather(bytes, &lens);
}

#[test]
fn lengths_that_cannot_be() {
    for len in [u64::MAX, 1 << 63, u64::MAX - 8] {
        let told = |world: &Communicator, _: &Context| {
            tell(world, "allgatherv", &len.to_ne_bytes());
        };
        let got = honest_and_hostile(|world| world.allgatherv(&[1_u8; 9]), told);
        assert!(is_garbled_by_one(got), "{len:#x}");
        let told = |world: &Communicator, _: &Context| {
            let call = Call::new("gatherv").rooted(0);
            let mut carrier = world.begin("gatherv", call, Ok(())).unwrap();
            let _ = carrier.allgather(&len.to_ne_bytes(), &[8; 2]);
        };
        let got = honest_and_hostile(|world| world.gatherv(&[1_u8; 9], 0), told);
        assert!(is_garbled_by_one(got), "{len:#x}");
    }
}

/// Of what one rank has for another: a length, and blocks that are none.
#[test]
fn blocks_of_data_that_cannot_be() {
    let garbage = |bytes: &[u8]| {
        let len = bytes.len() as u64;
        let told = |world: &Communicator, _: &Context| {
            let call = Call::new("alltoallv").of_any::<u8>();
            let mut carrier = world.begin("alltoallv", call, Ok(())).unwrap();
            let _ = carrier.allgather(&len.to_ne_bytes(), &[8; 2]);
            // The other has a label of 16 bytes, and 9 more.
            let _ = carrier.allgather(bytes, &[25, bytes.len()]);
        };
        honest_and_hostile(|world| world.alltoallv(&[vec![], vec![1_u8; 9]]), told)
    };
    // From rank 1 to rank 0, of no bytes: then there is none to itself that is wrong.
    let block = |from: u32, to: u32, len: u64| {
        [
            &from.to_ne_bytes()[..],
            &to.to_ne_bytes(),
            &len.to_ne_bytes(),
        ]
        .concat()
    };
    assert_eq!(garbage(&block(1, 0, 0)).unwrap(), [[0_u8; 0]; 2]);
    for wrong in [
        block(1, 2, 0),
        block(7, 0, 0),
        block(1, 0, 1),
        block(1, 0, u64::MAX),
    ] {
        assert!(is_garbled_by_one(garbage(&wrong)), "{wrong:?}");
    }
    assert!(
        is_garbled_by_one(garbage(&block(1, 0, 0)[..15])),
        "half a label"
    );
    for missing in [block(1, 1, 0), block(0, 0, 0)] {
        assert!(garbage(&missing).is_err(), "{missing:?}");
    }
    let told = |world: &Communicator, _: &Context| {
        let call = Call::new("alltoallv").of_any::<u8>();
        let mut carrier = world.begin("alltoallv", call, Ok(())).unwrap();
        let _ = carrier.allgather(&u64::MAX.to_ne_bytes(), &[8; 2]);
    };
    let got = honest_and_hostile(|world| world.alltoallv(&[vec![], vec![1_u8; 9]]), told);
    assert!(is_garbled_by_one(got));
}

/// More than there is memory for, though no more than an object may have.
#[test]
fn more_data_than_there_is_room_for() {
    let told = |world: &Communicator, _: &Context| {
        tell(world, "allgatherv", &(1_u64 << 62).to_ne_bytes());
    };
    let got = honest_and_hostile(|world| world.allgatherv(&[1_u8; 9]), told);
    let error = got.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::System(_)), "{error}");
}

#[test]
fn blocks_that_cannot_be() {
    for at in [u64::MAX, u64::MAX - 63, 8, 1 << 45] {
        let told = |world: &Communicator, _: &Context| {
            let _ = world.agree_on("dup", Ok(at));
        };
        let got = honest_and_hostile(|world| world.dup().map(drop), told);
        assert!(is_garbled_by_one(got), "{at:#x}");
    }
}

/// A flag that names a rank that there is not.
#[test]
fn a_dispute_with_nobody() {
    let told = |_: &Communicator, context: &Context| {
        let flag = 1_u64 << 32 | 1 << 31 | ((1 << RANK_BITS) - 1);
        let peer = context.connect_by(&context.fabric, WorldRank(0)).unwrap();
        let control = peer.control();
        control
            .word(context.world_block().place() + BARRIER_AT)
            .store(flag)
            .unwrap();
    };
    let error = honest_and_hostile(Communicator::barrier, told).unwrap_err();
    assert!(error.to_string().contains("rank 1"), "{error}");
}

/// Words of two ranks' control regions are overwritten at any moment. Calls may fail, or wait until the job is aborted; they
/// neither panic nor access other memory.
#[test]
fn garbage_in_control_regions() {
    for seed in 1..=40 {
        let ranks = ranks_in_process("soft", 2, Patience::new(2));
        let mut random = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed);
        let mut below = |end: u64| {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (random >> 33) % end
        };
        thread::scope(|scope| {
            for context in &ranks {
                scope.spawn(move || while work(context).is_ok() {});
            }
            for round in 0..400 {
                let context = &ranks[below(2) as usize];
                // Not the words that end the job, at its beginning.
                let at = 4608 + 8 * below(if round % 2 == 0 { 100 } else { 6000 });
                let place = context.fabric.control.remote().address + at;
                let word = std::ptr::with_exposed_provenance_mut(place as usize);
                // SAFETY: an aligned word of the region, which outlives the threads, and which all use as atomics.
                let word = unsafe { AtomicU64::from_ptr(word) };
                let mismatched = [
                    0,
                    1,
                    2,
                    1 << 63,
                    u64::MAX,
                    below(1 << 31),
                    below(1 << 31) << 32,
                ];
                match below(3) {
                    0 => word.store(mismatched[below(7) as usize], Ordering::Relaxed),
                    1 => drop(word.fetch_add(1, Ordering::Relaxed)),
                    _ => drop(word.fetch_xor(1 << below(63), Ordering::Relaxed)),
                }
                thread::sleep(Duration::from_micros(below(20)));
            }
            for context in &ranks {
                context.abort_everywhere(AbortCause::Aborted);
            }
        });
    }
}

/// Something of everything that ranks tell each other.
fn work(context: &Arc<Context>) -> Result<()> {
    let world = Communicator::world(context);
    let (me, other) = (world.rank(), 1 - world.rank());
    for turn in 0..20 {
        world.allgatherv(&vec![me; turn * 100])?;
        world.bcast(&mut [0_u8; 9000], 0)?;
        world.alltoallv(&[vec![me; turn], vec![me; 3 * turn]])?;
        world.scan(&[me], Op::Sum)?;
        let part = world.split(Some(0), 0)?;
        drop(part);
        let window = Window::allocate(&world, 4096, 8, &Info::new())?;
        let mut word = [7_u64];
        let at = word.as_mut_ptr().cast::<u8>();
        window.fence(Assert::NONE)?;
        // SAFETY: a local that outlives each epoch.
        unsafe { window.put(at, 8, other, 1)? };
        window.fence(Assert::NO_SUCCEED)?;
        window.lock(LockKind::Exclusive, other, Assert::NONE)?;
        // SAFETY: as above.
        unsafe { window.put(at, 8, other, 2)? };
        window.unlock(other)?;
        window.lock_all(Assert::NONE)?;
        window.flush_all()?;
        window.unlock_all()?;
        let both = world.group().clone();
        window.post(&both, Assert::NONE)?;
        window.start(&both, Assert::NONE)?;
        window.complete()?;
        window.wait()?;
        window.free()?;
    }
    Ok(())
}
