//! What a region does not allow: the answer is an error, and never a fault.

use super::{
    Peers, Setup, aligned, compare_swap, each_region, fetch_add, finish, memory, read, update_each,
    write,
};
use crate::{
    Access, BatchError, Direction, Endpoint, LocalPiece, LocalRegion, RemoteAddress, RemoteRun,
    Result, StridedBlocks, Ticket, TransferBatch, Update, Width,
};

/// An operation on eight bytes at a place.
type Operation = fn(&dyn Endpoint, RemoteAddress) -> Result<()>;

const WRITE: Operation = |way, at| write(way, &[1; 8], at);
const READ: Operation = |way, at| read(way, 8, at).map(drop);
const ATOMICS: [Operation; 3] = [
    |way, at| fetch_add(way, at, Width::W8, 1).map(drop),
    |way, at| compare_swap(way, at, Width::W8, 0, 1).map(drop),
    |way, at| update_each(way, at, Width::W8, Update::Add, &[1; 8]),
];

const STORE: Operation = |way, at| finish(way, way.store(at, 0, 1));
const TWO_WORDS: Operation = |way, at| update_each(way, at, Width::W8, Update::Add, &[1; 16]);

fn all() -> impl Iterator<Item = Operation> {
    [WRITE, READ, STORE].into_iter().chain(ATOMICS)
}

/// Checks that an operation is refused at a place. Uses a new connection, since one that has failed may stay failed.
fn is_refused(peers: &Peers, setup: &Setup, operation: Operation, at: RemoteAddress) {
    let origin = setup.peers(true).origin;
    let way = origin.connect(&peers.target.address()).unwrap();
    let error = operation(&*way, at).expect_err("it is refused");
    assert!(error.is_remote_access(), "{at:?}: {error}");
}

pub(super) fn places_outside_and_forged_keys(setup: &Setup) {
    let peers = setup.peers(false);
    each_region(&peers, 64, |region| {
        let (remote, start) = (region.remote(), aligned(region));
        let key = |rkey| RemoteAddress {
            rkey,
            ..remote.at(start)
        };
        for at in [
            remote.at(start + 64),
            remote.at(start + (1 << 40)),
            remote.at(start.wrapping_sub(16)),
            key(remote.rkey ^ 0x7777_0000),
            key(u64::MAX),
            RemoteAddress {
                address: u64::MAX - 7,
                ..remote.at(0)
            },
        ] {
            for operation in all() {
                is_refused(&peers, setup, operation, at);
            }
        }
        // Partly outside; and no bytes, which is inside even at the end. The bytes inside may have been written.
        is_refused(&peers, setup, WRITE, remote.at(57));
        write(&*peers.way, &[], remote.at(64)).unwrap();
        assert_eq!(memory(region)[..57], [0; 57]);
        is_refused(&peers, setup, TWO_WORDS, remote.at(start + 56));
        assert_eq!(memory(region)[..56], [0; 56]);
    });
}

pub(super) fn places_outside_of_ones_own_memory(setup: &Setup) {
    for operation in all() {
        let own = setup.peers(true);
        let region = own.target.allocate(64, 8).unwrap();
        let error = operation(&*own.way, region.remote().at(64)).expect_err("it is refused");
        assert!(error.is_remote_access(), "{error}");
    }
}

pub(super) fn rights_that_were_not_granted(setup: &Setup) {
    let peers = setup.peers(false);
    let mut words = [0_u64; 4];
    let base = words.as_mut_ptr().cast::<u8>();
    for access in [Access::READ, Access::WRITE, Access::READ.and(Access::WRITE)] {
        // SAFETY: the array outlives the region, and is not used meanwhile.
        let region = unsafe { peers.target.register(base, 32, access) }.unwrap();
        let at = region.remote().at(8);
        for (operation, need) in [(READ, Access::READ), (WRITE, Access::WRITE)] {
            match access.allows(need) {
                true => operation(&*peers.way, at).unwrap(),
                false => is_refused(&peers, setup, operation, at),
            }
        }
        ATOMICS
            .into_iter()
            .for_each(|operation| is_refused(&peers, setup, operation, at));
        // A mapping would bypass the rights.
        let mapping = peers.way.map(&region.remote()).unwrap();
        assert!(mapping.is_none_or(|_| access == Access::READ.and(Access::WRITE)));
    }
}

pub(super) fn a_key_of_memory_that_is_gone(setup: &Setup) {
    let peers = setup.peers(false);
    let first = peers.target.allocate(64, 1).unwrap();
    let stale = first.remote();
    write(&*peers.way, &[1; 8], stale.at(0)).unwrap();
    drop(first);
    let again: [LocalRegion; 4] = [(); 4].map(|()| peers.target.allocate(64, 1).unwrap());
    for operation in all() {
        is_refused(&peers, setup, operation, stale.at(0));
    }
    for region in &again {
        assert_eq!(memory(region), vec![0; 64]);
        write(&*peers.way, &[2; 8], region.remote().at(0)).unwrap();
    }
}

pub(super) fn misaligned_atomics(setup: &Setup) {
    let peers = setup.peers(false);
    let region = peers.target.allocate(64, 8).unwrap();
    for shift in [1, 4] {
        for operation in ATOMICS.into_iter().chain([STORE]) {
            is_refused(&peers, setup, operation, region.remote().at(shift));
        }
    }
    assert_eq!(memory(&region), vec![0; 64]);
}

pub(super) fn batches_that_leave_the_region(setup: &Setup) {
    for outside in [4089, 1 << 40] {
        let peers = setup.peers(false);
        let region = peers.target.allocate(4096, 8).unwrap();
        let bytes = [1_u8; 8];
        let piece = LocalPiece {
            base: bytes.as_ptr().cast_mut(),
            len: 8,
        };
        let run = |at| RemoteRun {
            at: region.remote().at(at),
            pieces: 1,
        };
        let batch = TransferBatch {
            runs: &[run(0), run(outside)],
            pieces: &[piece; 2],
        };
        // SAFETY: the bytes outlive the operation, which is complete or has failed below.
        let posted = unsafe { peers.way.transfer_batch(Direction::Write, &batch) };
        assert_refused(&*peers.way, posted);
        // The bytes inside may have been written.
        let all = memory(&region);
        assert!(all[8..4089].iter().all(|&byte| byte == 0), "{outside}");
    }
}

/// Checks that a batch is refused, and waits for the part that may have been posted.
fn assert_refused(way: &dyn Endpoint, posted: std::result::Result<Ticket, BatchError>) {
    let error = match posted {
        Ok(ticket) => finish(way, Ok(ticket)).expect_err("a place is outside"),
        Err(failed) => {
            let _ = finish(way, Ok(failed.posted));
            failed.error
        }
    };
    assert!(error.is_remote_access(), "{error}");
}

/// The last piece of each list lies outside of the region, in memory of another region.
pub(super) fn lists_of_which_the_end_is_outside(setup: &Setup) {
    const COUNT: usize = 3;
    let mut bytes = [1_u8; 8 * COUNT];
    let here = bytes.as_mut_ptr();
    type Post<'a> = dyn Fn(
            &dyn Endpoint,
            &TransferBatch<'_>,
            StridedBlocks,
        ) -> std::result::Result<Ticket, BatchError>
        + 'a;
    // SAFETY: for all of them: the bytes outlive the operation, which is complete or has failed before the next one.
    let each: [&Post<'_>; 4] = [
        &|way, batch, _| unsafe { way.transfer_batch(Direction::Read, batch) },
        &|way, batch, _| unsafe { way.update_batch(Width::W8, Update::Add, batch) },
        &|way, _, blocks| unsafe { way.transfer_blocks(Direction::Write, blocks) },
        &|way, _, blocks| unsafe { way.transfer_blocks(Direction::Read, blocks) },
    ];
    for post in each {
        let peers = setup.peers(false);
        let whole = peers.target.allocate(8192, 8).unwrap();
        // SAFETY: inside memory that the device allocated, which outlives the region.
        let half = unsafe { peers.target.register(whole.base(), 4096, Access::ALL) }.unwrap();
        let place = |n: usize| half.remote().at(2048 * n as u64);
        let blocks = StridedBlocks {
            here,
            at: place(0),
            len: 8,
            count: COUNT,
            stride_here: 8,
            stride_there: 2048,
        };
        let runs: [_; COUNT] = std::array::from_fn(|n| RemoteRun {
            at: place(n),
            pieces: 1,
        });
        let pieces: [_; COUNT] = std::array::from_fn(|n| LocalPiece {
            base: here.wrapping_add(8 * n),
            len: 8,
        });
        let batch = TransferBatch {
            runs: &runs,
            pieces: &pieces,
        };
        assert_refused(&*peers.way, post(&*peers.way, &batch, blocks));
        assert_eq!(memory(&whole)[4096..], [0; 4096]);
    }
}
