//! Arenas: linked elements on several ranks, memory that runs out, pointers that lead nowhere.

use bytemuck::{Pod, Zeroable};
use transom::{ErrorClass, Job};
use transom_collections::{Arena, Error, GlobalPtr, Result};

use crate::{Scenario, scenarios};

pub(crate) fn scenarios() -> Vec<Scenario> {
    scenarios![
        lists_lead_over_all_ranks: [1, 3],
        allocations_do_not_overlap: [4],
        wrong_pointers_and_full_parts: [2],
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct Node {
    value: u64,
    next: GlobalPtr,
}

/// Every rank pushes nodes to the front of one list by compare and swap.
fn lists_lead_over_all_ranks(job: &Job) -> Result<()> {
    const NODES: u64 = 40;
    let world = job.world();
    let size = u64::from(world.size());
    let arena = Arena::<Node>::new(world, 200)?;
    let heads = Arena::<u64>::new(world, 1)?;
    let head = GlobalPtr::new(0, 0).unwrap();
    if world.rank() == 0 {
        assert_eq!(heads.alloc(0, 1)?, head);
    }
    for number in 0..NODES {
        let rank = ((u64::from(world.rank()) + number) % size) as u32;
        let node = arena.alloc(rank, 1)?;
        assert_eq!(node.rank(), Some(rank));
        let mut first = heads.read(head)?;
        loop {
            let value = u64::from(world.rank()) * NODES + number;
            let next = GlobalPtr::from_bits(first);
            arena.write(node, &[Node { value, next }])?;
            let old = heads.session().compare_swap(0, 0, first, node.to_bits())?;
            if old == first {
                break;
            }
            first = old;
        }
    }
    world.barrier()?;
    let mut found = Vec::new();
    let mut at = GlobalPtr::from_bits(heads.read(head)?);
    while !at.is_null() {
        let node = arena.read(at)?;
        found.push(node.value);
        at = node.next;
    }
    found.sort_unstable();
    assert_eq!(found, (0..NODES * size).collect::<Vec<_>>());
    heads.free()?;
    arena.free()
}

fn allocations_do_not_overlap(job: &Job) -> Result<()> {
    let world = job.world();
    let arena = Arena::<u16>::new(world, 1000)?;
    let mut mine = Vec::new();
    for number in 0..60 {
        let len = number % 5 + 1;
        let at = arena.alloc(number as u32 % world.size(), len)?;
        let value = 100 * (world.rank() as u16 + 1) + number as u16;
        arena.write(at, &vec![value; len])?;
        mine.push((at, vec![value; len]));
    }
    world.barrier()?;
    for (at, values) in mine {
        assert_eq!(arena.read_vec(at, values.len())?, values);
        let last = at.offset(values.len() - 1).unwrap();
        assert_eq!(arena.read(last)?, values[0]);
    }
    arena.free()
}

fn wrong_pointers_and_full_parts(job: &Job) -> Result<()> {
    let world = job.world();
    let arena = Arena::<u32>::new(world, 10)?;
    if world.rank() == 0 {
        arena.alloc(1, 7)?;
        let error = arena.alloc(1, 4).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Arena::alloc: the part of rank 1 is full: it has room for 10"
        );
        assert_eq!(arena.alloc(1, 3)?.index(), 7);
        assert!(matches!(
            arena.alloc(1, usize::MAX),
            Err(Error::Full { .. })
        ));
    }
    let error = arena.read(GlobalPtr::NULL).unwrap_err();
    assert_eq!(error.to_string(), "Arena::read: a null pointer");
    for wrong in [(1, 10), (0, 9)].map(|(rank, at)| GlobalPtr::new(rank, at).unwrap()) {
        let error = arena.read_vec(wrong, 2).unwrap_err();
        assert_eq!(error.class(), ErrorClass::RmaRange, "{error}");
    }
    let error = arena
        .write(GlobalPtr::new(2, 0).unwrap(), &[1])
        .unwrap_err();
    assert_eq!(error.class(), ErrorClass::Rank, "{error}");
    assert_eq!(GlobalPtr::new(0, 1 << 40), None);
    assert_eq!(GlobalPtr::new((1 << 24) - 1, 0), None);
    let last = GlobalPtr::new((1 << 24) - 2, (1 << 40) - 1).unwrap();
    assert_eq!(
        (last.rank(), last.index()),
        (Some((1 << 24) - 2), (1 << 40) - 1)
    );
    assert_eq!(last.offset(1), None);
    let error = Arena::<u32>::new(world, 1 << 40).err().unwrap();
    assert!(matches!(error, Error::BadArgument { .. }), "{error}");
    arena.free()
}
