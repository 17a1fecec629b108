//! What the target's table does not allow: the answer is an error, never a fault.

use std::ptr::null_mut;

use rdma_sys_shim::testkit::{compare_swap, each_region_with_atomics, fresh_memory, update_each};
use rdma_sys_shim::{Access, Error, RemoteAddress, Update, Width};

use crate::support::{
    OPTIONS, aligned, alone, each_region, everywhere, fetch_add, memory, peers, read, write,
};

/// `pages` of private anonymous memory.
#[test]
fn misaligned_atomics() {
    everywhere(|peers| {
        each_region_with_atomics(peers, 64, |region| {
            let (way, start) = (&*peers.way, aligned(region));
            for (width, shifts) in [(Width::W8, 1..8), (Width::W4, 1..4), (Width::W2, 1..2)] {
                for shift in shifts {
                    let at = region.remote().at(start + shift);
                    let refused = [
                        fetch_add(way, at, width, 1).unwrap_err(),
                        compare_swap(way, at, width, 0, 1).unwrap_err(),
                        update_each(way, at, width, Update::Add, &[1; 8]).unwrap_err(),
                    ];
                    for error in refused {
                        assert!(error.is_remote_access(), "{error}");
                        assert!(error.to_string().contains("not aligned"), "{error}");
                    }
                }
            }
            assert_eq!(memory(region), vec![0; 64]);
        });
    });
}

/// The lower half of a key is a place in the target's table, the upper half counts how often that was used.
#[test]
fn forged_keys() {
    everywhere(|peers| {
        each_region(peers, 64, |region| {
            let (way, remote) = (&*peers.way, region.remote());
            for rkey in [
                remote.rkey ^ 64,
                remote.rkey.wrapping_add(1 << 32),
                remote.rkey.wrapping_sub(1 << 32),
                remote.rkey.wrapping_add(2 << 32),
                0,
            ] {
                let at = RemoteAddress {
                    rkey,
                    ..remote.at(aligned(region))
                };
                let refused = [
                    write(way, &[1; 8], at).unwrap_err(),
                    read(way, 8, at).unwrap_err(),
                    fetch_add(way, at, Width::W8, 1).unwrap_err(),
                ];
                assert!(refused.iter().all(Error::is_remote_access), "{refused:?}");
            }
            assert_eq!(memory(region), vec![0; 64]);
        });
    });
}

#[test]
fn memory_that_is_gone_is_not_mapped() {
    everywhere(|peers| {
        let first = peers.target.allocate(64, 1).unwrap();
        let stale = first.remote();
        drop(first);
        let mapped = || peers.way.map(&stale).is_ok_and(|mapping| mapping.is_some());
        assert!(!mapped());
        // Its entry in the table is used again.
        let _again = [(); 4].map(|()| peers.target.allocate(64, 1).unwrap());
        assert!(!mapped());
    });
}

#[test]
fn rights_that_were_not_granted() {
    everywhere(|peers| {
        let mut words = [0_u64; 4];
        let base = words.as_mut_ptr().cast::<u8>();
        for access in [
            Access::READ,
            Access::WRITE,
            Access::ATOMIC,
            Access::READ.and(Access::ATOMIC),
        ] {
            // SAFETY: the array outlives the region.
            let region = unsafe { peers.target.register(base, 32, access) };
            let region = region.unwrap();
            let (way, at) = (&*peers.way, region.remote().at(8));
            let has_atomics = way.has_atomics(&region.remote());
            let allows = |need| access.allows(need) && (need != Access::ATOMIC || has_atomics);
            assert_eq!(read(way, 8, at).is_ok(), allows(Access::READ));
            assert_eq!(write(way, &[0; 8], at).is_ok(), allows(Access::WRITE));
            let atomic = allows(Access::ATOMIC);
            assert_eq!(fetch_add(way, at, Width::W8, 0).is_ok(), atomic);
            assert_eq!(compare_swap(way, at, Width::W8, 1, 1).is_ok(), atomic);
            let stored = update_each(way, at, Width::W8, Update::Store, &[0; 8]);
            assert_eq!(stored.is_ok(), atomic);
            // A mapping would get round the rights.
            assert!(way.map(&region.remote()).unwrap().is_none(), "{access:?}");
        }
    });
}

#[test]
fn read_only_memory() {
    static TEXT: &[u8; 32] = b"a text that no peer can change!!";
    everywhere(|peers| {
        let base = TEXT.as_ptr().cast_mut();
        // SAFETY: a static; the device finds out that it is read-only.
        let region = unsafe { peers.target.register(base, 32, Access::ALL) }.unwrap();
        let (way, remote) = (&*peers.way, region.remote());
        assert_eq!(read(way, 32, remote.at(0)).unwrap(), TEXT);
        let word = remote.at(aligned(&region));
        let refused = [
            write(way, b"x", remote.at(0)).unwrap_err(),
            fetch_add(way, word, Width::W8, 1).unwrap_err(),
        ];
        assert!(refused.iter().all(Error::is_remote_access), "{refused:?}");
        assert!(way.map(&remote).unwrap().is_none());
    });
}

#[test]
fn memory_that_is_not_mapped() {
    everywhere(|peers| {
        let page = fresh_memory(3 * 4096);
        // SAFETY: the second page of our own mapping. Only one page fits into the hole.
        unsafe { libc::munmap(page.add(4096).cast(), 4096) };
        for (base, len) in [
            (page, 4097),
            (page.wrapping_add(4096), 1),
            (page.wrapping_add(4095), 2),
            (null_mut(), 1),
            (page, usize::MAX),
            (usize::MAX as *mut u8, 2),
        ] {
            // SAFETY: refused.
            let refused = unsafe { peers.target.register(base, len, Access::ALL) };
            let Err(error) = refused else {
                panic!("{base:?} {len} was registered");
            };
            assert!(matches!(error, Error::BadMemory { .. }), "{error}");
            let address = format!("{:#x}", base.addr());
            assert!(error.to_string().contains(&address), "{error}");
        }
        // SAFETY: mapped; unmapped after the region.
        let region = unsafe { peers.target.register(page, 4096, Access::ALL) }.unwrap();
        write(&*peers.way, &[1], region.remote().at(4095)).unwrap();
        drop(region);
        // SAFETY: our own mappings, in no region.
        unsafe {
            libc::munmap(page.cast(), 4096);
            libc::munmap(page.add(2 * 4096).cast(), 4096);
        }
    });
}

/// The owner breaks its promise; the peer gets an error, by the kernel and by the agent. The pages are made inaccessible and
/// not unmapped: other threads of this process may map something in their place at any moment.
#[test]
fn memory_that_was_taken_away_under_its_region() {
    let _alone = alone();
    for spec in OPTIONS {
        let peers = peers(spec, false);
        let pages = fresh_memory(2 * 4096);
        // SAFETY: what is taken away is only reached by the kernel, which checks, and by the agent, which is guarded.
        let region = unsafe { peers.target.register(pages, 2 * 4096, Access::ALL) }.unwrap();
        let (way, remote) = (&*peers.way, region.remote());
        let gone = remote.at(4096);
        let protect = |rights| {
            // SAFETY: our own mapping, to which there is no reference.
            let rc = unsafe { libc::mprotect(pages.add(4096).cast(), 4096, rights) };
            assert_eq!(rc, 0);
        };
        for rights in [libc::PROT_NONE, libc::PROT_READ] {
            protect(rights);
            let mut refused = vec![
                write(way, &[1; 8], gone),
                write(way, &[1; 1000], gone),
                write(way, &[1; 200], remote.at(4000)),
            ];
            if rights == libc::PROT_NONE {
                refused.push(read(way, 8, gone).map(drop));
                refused.push(read(way, 200, remote.at(4000)).map(drop));
            } else {
                assert_eq!(read(way, 8, gone).unwrap(), [0; 8], "{spec}");
            }
            if way.has_atomics(&remote) {
                refused.push(fetch_add(way, gone, Width::W8, 1).map(drop));
                refused.push(compare_swap(way, gone, Width::W4, 0, 1).map(drop));
                for update in [Update::Add, Update::Store] {
                    refused.push(update_each(
                        way,
                        remote.at(4088),
                        Width::W8,
                        update,
                        &[1; 16],
                    ));
                }
            }
            for (which, refused) in refused.into_iter().enumerate() {
                let error = refused.unwrap_err();
                let said = error.to_string();
                assert!(error.is_remote_access(), "{spec}, {which}: {said}");
                let words = "the memory is no longer mapped there with this right";
                assert!(said.contains(words), "{spec}, {which}: {said}");
            }
            write(way, &[2; 8], remote.at(0)).unwrap();
            assert_eq!(read(way, 8, remote.at(0)).unwrap(), [2; 8]);
        }
        protect(libc::PROT_READ | libc::PROT_WRITE);
        write(way, &[3; 8], gone).unwrap();
        drop(region);
        // SAFETY: our own mapping, in no region.
        unsafe { libc::munmap(pages.cast(), 2 * 4096) };
    }
}

#[test]
fn more_memory_than_there_is() {
    everywhere(|peers| {
        for (len, align) in [(usize::MAX, 1), (1 << 62, 1), (64, 1 << 63), (1 << 50, 1)] {
            let Err(error) = peers.target.allocate(len, align) else {
                panic!("{len} bytes aligned to {align}");
            };
            assert!(error.is_out_of_memory(), "{error}");
        }
    });
}

#[test]
fn peers_with_other_options_and_addresses_that_are_none() {
    let _alone = alone();
    let ours = crate::support::open("soft").unwrap();
    let other = crate::support::open("soft:map=off").unwrap();
    let Err(error) = ours.connect(&other.address()) else {
        panic!("connected");
    };
    assert!(error.to_string().contains("TRANSOM_DEVICE"), "{error}");
    for wrong in [&b""[..], b"no address", &[255; 640]] {
        let refused = ours.connect(wrong);
        assert!(matches!(refused, Err(Error::BadAddress { .. })));
    }
}

/// How many mappings of memory files this process has. The stacks of other tests' threads come and go.
fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("/memfd:")).count()
}

/// How many descriptors this process has.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Small pieces need neither descriptors nor mappings, and are zeroed when they are used again.
#[test]
fn small_pieces_are_mapped_by_whoever_has_met() {
    let _alone = alone();
    let peers = peers("soft", false);
    let before = (mappings(), descriptors());
    let lens = [0, 1, 64, 129, 4096, 5000, 64 << 10];
    for round in 0..3 {
        let regions = lens.map(|len| peers.target.allocate(len, 8).unwrap());
        for region in &regions {
            assert_eq!(memory(region), vec![0; region.len()], "round {round}");
            let page_at = region.base().addr() % 4096;
            assert!(page_at.is_multiple_of(region.len().next_power_of_two().clamp(64, 4096)));
            let Some(mapping) = peers.way.map(&region.remote()).unwrap() else {
                assert!(region.is_empty());
                continue;
            };
            for at in [0, region.len() - 1] {
                // SAFETY: a byte of a region and of its mapping, which nobody else uses.
                unsafe {
                    mapping.base().add(at).write(7);
                    assert_eq!(region.base().add(at).read(), 7);
                }
            }
        }
        assert_eq!((mappings(), descriptors()), before);
    }
}

/// Where the port has no more room, pieces are what large allocations are.
#[test]
fn more_small_pieces_than_there_is_room_for() {
    let _alone = alone();
    let peers = peers("soft", false);
    let before = descriptors();
    let regions: Vec<_> = (0..300)
        .map(|_| peers.target.allocate(64 << 10, 64).unwrap())
        .collect();
    assert!((10..100).contains(&(descriptors() - before)));
    for (number, region) in regions.iter().enumerate() {
        let byte = number as u8;
        let at = region.remote().at(0);
        write(&*peers.way, &[byte; 64 << 10], at).unwrap();
    }
    for (number, region) in regions.iter().enumerate() {
        let byte = number as u8;
        assert_eq!(memory(region), [byte; 64 << 10]);
    }
    drop(regions);
    assert_eq!(descriptors(), before);
    let again = peers.target.allocate(64 << 10, 64).unwrap();
    assert_eq!(memory(&again), [0; 64 << 10]);
}

/// What a process allocates first is mapped with its port; anything else that is large is a mapping of
/// its own.
#[test]
fn the_first_allocation_is_mapped_by_whoever_has_met() {
    let _alone = alone();
    let peers = peers("soft", false);
    let first = peers.target.allocate(16 << 20, 64).unwrap();
    let second = peers.target.allocate(1 << 20, 8).unwrap();
    let before = mappings();
    let one = peers.way.map(&first.remote()).unwrap().unwrap();
    assert_eq!(mappings(), before);
    let two = peers.way.map(&second.remote()).unwrap().unwrap();
    assert!(mappings() > before);
    for (region, mapping) in [(&first, &one), (&second, &two)] {
        assert_eq!(memory(region), vec![0; region.len()]);
        let last = region.len() - 1;
        // SAFETY: the last byte of a region and of its mapping, which nobody else uses.
        unsafe {
            mapping.base().add(last).write(7);
            assert_eq!(region.base().add(last).read(), 7);
        }
    }
    let bad = peers.way.map(&rdma_sys_shim::RemoteRegion {
        len: first.remote().len + 1,
        ..first.remote()
    });
    assert!(bad.is_err_and(|error| error.is_remote_access()));
    // Gone, it is nobody's: neither mapped again, nor lent again to where the first still looks.
    let remote = first.remote();
    drop(first);
    assert!(!matches!(peers.way.map(&remote), Ok(Some(_))));
    let third = peers.target.allocate(16 << 20, 64).unwrap();
    // SAFETY: as above; the mapping outlives its region.
    unsafe { one.base().write(9) };
    assert_eq!(memory(&third)[0], 0);
}
