//! What each variant of the soft device maps, and what it leaves behind.

use rdma_sys_shim::Width;

use crate::support::{aligned, alone, each_region, everywhere, fetch_add, peers};

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
