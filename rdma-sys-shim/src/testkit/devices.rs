//! Devices: memory, addresses, and whether a peer is there.

use std::ptr::null_mut;
use std::time::{Duration, Instant};

use super::{Setup, fetch_add, fresh_memory, memory, write};
use crate::system::page_size;
use crate::{ALIGNMENT, Absence, Access, Error, Width};

pub(super) fn allocated_memory_is_zeroed_and_aligned(setup: &Setup) {
    let peers = setup.peers(true);
    for round in 1..4 {
        for (len, align) in [(1, 1), (64, 8), (5000, 1), (5000, 1 << 14), (1 << 20, 4096)] {
            let region = peers.target.allocate(len, align).unwrap();
            assert!(region.base().addr().is_multiple_of(align.max(ALIGNMENT)));
            assert!(memory(&region) == vec![0; len], "{len}, round {round}");
            write(&*peers.way, &vec![7; len], region.remote().at(0)).unwrap();
            assert!(memory(&region) == vec![7; len], "{len}, round {round}");
            if let Some(mapping) = peers.way.map(&region.remote()).unwrap() {
                // SAFETY: mapped for `len` bytes, which nobody writes any more.
                let seen = unsafe { std::slice::from_raw_parts(mapping.base(), len) };
                assert!(seen == vec![7; len], "{len}, round {round}");
            }
        }
        let empty = peers.target.allocate(0, 1).unwrap();
        assert!(empty.is_empty());
        assert!(peers.way.map(&empty.remote()).unwrap().is_none());
    }
}

pub(super) fn more_memory_than_there_is(setup: &Setup) {
    let peers = setup.peers(true);
    for (len, align) in [(usize::MAX, 1), (1 << 62, 1)] {
        let refused = peers.target.allocate(len, align);
        let error = refused.err().expect("there is not so much");
        assert!(error.is_out_of_memory(), "{error}");
    }
}

pub(super) fn memory_that_is_not_there(setup: &Setup) {
    let peers = setup.peers(true);
    let page = page_size();
    let pages = fresh_memory(2 * page);
    // SAFETY: the second page of the mapping, to which there is no reference.
    let rc = unsafe { libc::mprotect(pages.add(page).cast(), page, libc::PROT_NONE) };
    assert_eq!(rc, 0);
    for (base, len) in [
        (pages, page + 1),
        (null_mut(), 1),
        (pages, usize::MAX),
        (usize::MAX as *mut u8, 2),
    ] {
        // SAFETY: refused.
        let refused = unsafe { peers.target.register(base, len, Access::ALL) };
        let error = refused.err().expect("not all of it is mapped");
        assert!(matches!(error, Error::BadMemory { .. }), "{error}");
    }
    // SAFETY: mapped, and unmapped after the region.
    let region = unsafe { peers.target.register(pages, page, Access::ALL) }.unwrap();
    write(&*peers.way, &[1], region.remote().at(page as u64 - 1)).unwrap();
    drop(region);
    // SAFETY: the mapping above, in no region.
    unsafe { libc::munmap(pages.cast(), 2 * page) };
}

pub(super) fn addresses_that_are_none(setup: &Setup) {
    let peers = setup.peers(true);
    assert!((1..=640).contains(&peers.target.address().len()));
    for wrong in [&b""[..], b"no address", &[255; 640]] {
        let connected = peers.target.connect(wrong).is_ok();
        assert!(!connected, "{wrong:?} is taken for an address");
    }
}

pub(super) fn a_peer_lives_until_it_has_closed(setup: &Setup) {
    setup.both_ways(|peers| {
        let region = peers.target.allocate(8, 8).unwrap();
        let word = region.remote().at(0);
        assert_eq!(fetch_add(&*peers.way, word, Width::W8, 1).unwrap(), 0);
        peers.way.liveness().unwrap();
        peers.way.intact().unwrap();
    });
    let peers = setup.peers(false);
    peers.target.close();
    let absence = || peers.way.liveness().err().and_then(|error| error.absence());
    let closed = Some((std::process::id(), Absence::Closed));
    // A remote device learns of it later.
    let begun = Instant::now();
    while absence() != closed {
        assert!(begun.elapsed() < Duration::from_secs(10), "it lives on");
        std::thread::sleep(Duration::from_millis(1));
    }
}
