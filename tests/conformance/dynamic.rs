//! Dynamic windows: memory that comes and goes while others access it.

use std::sync::atomic::{AtomicU64, Ordering};

use transom::raw::{Assert, Flavor, Window, get_address};
use transom::{ErrorClass, Info, Job, LockKind, Op, Result};

use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::exposed::patterned;
use crate::ops::{accumulate, compare_and_swap, fetch_and_op, get, put};
use crate::refused::refused;

pub(crate) const CASES: &[Case] = cases!["dynamic":
    every_operation_in_every_epoch @ [1, 2, 3],
    parts_of_one_page @ [2, 3],
    regions_of_many_pages @ [2],
    more_regions_than_the_table_has_at_first @ [2],
    memory_that_comes_back_is_found_again @ [2, 3],
    a_region_of_a_window_and_of_nothing @ [2],
    free_detaches @ [1, 3],
    addresses_that_are_not_attached @ [1, 2],
    attaching_what_is_attached @ [2],
    detaching_what_is_not @ [2],
    attaching_to_other_windows @ [2],
    coming_and_going_under_load @ [2, 3, 5],
];

/// Zeroes that live for ever, aligned to a page.
pub(crate) fn memory(len: usize) -> *mut u8 {
    let layout = std::alloc::Layout::from_size_align(len, 4096).expect("layout");
    // SAFETY: the layout is not empty.
    let base = unsafe { std::alloc::alloc_zeroed(layout) };
    assert!(!base.is_null());
    base
}

pub(crate) fn attach(window: &Window, base: *mut u8, size: usize) -> Result<()> {
    // SAFETY: what the cases attach is never freed, or is detached before; nobody else uses it.
    unsafe { window.attach(base, size) }
}

pub(crate) fn read(base: *const u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    // SAFETY: inside what `memory` returned; nobody writes there now.
    unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(base, len) };
    bytes
}

fn word(base: *mut u8) -> &'static AtomicU64 {
    // SAFETY: memory that lives for ever, aligned; peers change it by atomics or when nobody looks.
    unsafe { AtomicU64::from_ptr(base.cast()) }
}

pub(crate) fn addresses(job: &Job, base: *const u8) -> Result<Vec<u64>> {
    job.world().allgather(&[get_address(base)])
}

fn every_operation_in_every_epoch(job: &Job) -> Outcome {
    let world = job.world();
    let (me, ranks) = (world.rank(), world.size());
    let ahead = (me + 1) % ranks;
    let behind = (me + ranks - 1) % ranks;
    let window = Window::create_dynamic(world, &Info::new())?;
    check_eq!(window.flavor(), Flavor::Dynamic);
    check!(window.base().is_null() && window.size() == 0 && window.disp_unit() == 1);
    let base = memory(10_000);
    attach(&window, base, 10_000)?;
    let all = addresses(job, base)?;
    let there = all[ahead as usize];

    for round in 0..3 {
        window.fence(Assert::NONE)?;
        put(&window, &patterned(me, 5_001, round), ahead, there + 3)?;
        window.fence(Assert::NONE)?;
        check_eq!(
            read(base.wrapping_add(3), 5_001),
            patterned(behind, 5_001, round)
        );
        let mut back = vec![0; 5_001];
        get(&window, &mut back, ahead, there + 3)?;
        window.fence(Assert::NO_SUCCEED)?;
        check_eq!(back, patterned(me, 5_001, round));
    }

    let numbers = there + 8_000;
    for kind in [LockKind::Shared, LockKind::Exclusive] {
        window.lock(kind, ahead, Assert::NONE)?;
        accumulate(&window, &[1_i64, 2, 3], ahead, numbers, Op::Sum)?;
        accumulate(&window, &[1_i32; 3], ahead, numbers + 24, Op::Sum)?;
        accumulate(&window, &[0.5_f64], ahead, numbers + 40, Op::Sum)?;
        // Misaligned: the locked path.
        accumulate(&window, &[7_u64], ahead, numbers + 49, Op::Sum)?;
        window.flush(ahead)?;
        let old = fetch_and_op(&window, 10_u64, ahead, numbers, Op::Sum)?;
        let seen = compare_and_swap(&window, old + 10, old, ahead, numbers)?;
        check_eq!(seen, old + 10);
        window.unlock(ahead)?;
    }
    world.barrier()?;
    let found: Vec<u64> = (0..3)
        .map(|at| word(base.wrapping_add(8_000 + at * 8)).load(Ordering::SeqCst))
        .collect();
    check_eq!(found, [2, 4, 6]);
    check_eq!(read(base.wrapping_add(8_024), 12), [2, 0, 0, 0].repeat(3));
    check_eq!(read(base.wrapping_add(8_040), 8), 1.0_f64.to_ne_bytes());
    check_eq!(read(base.wrapping_add(8_049), 8), 14_u64.to_ne_bytes());

    window.lock_all(Assert::NONE)?;
    for target in 0..ranks {
        fetch_and_op(
            &window,
            1_u64,
            target,
            all[target as usize] + 9_000,
            Op::Sum,
        )?;
    }
    let mut word_there = [0; 8];
    // SAFETY: the local outlives the request.
    unsafe {
        window
            .rget(word_there.as_mut_ptr(), 8, ahead, there + 8_008)?
            .wait()?
    };
    check_eq!(u64::from_ne_bytes(word_there), 4);
    window.unlock_all()?;
    world.barrier()?;
    check_eq!(
        word(base.wrapping_add(9_000)).load(Ordering::SeqCst),
        ranks.into()
    );
    window.detach(base)?;
    window.free()?;
    Ok(())
}

/// Regions of a few bytes, some of which touch: each is its own, and what lies between is nobody's.
fn parts_of_one_page(job: &Job) -> Outcome {
    let world = job.world();
    let (me, ranks) = (world.rank(), world.size());
    let window = Window::create_dynamic(world, &Info::new())?;
    let base = memory(4096);
    let parts = [(0, 8), (8, 8), (16, 1), (17, 15), (100, 28), (4000, 96)];
    // In an order that is not theirs.
    for &(at, len) in [parts[3], parts[0], parts[5], parts[2], parts[1], parts[4]].iter() {
        attach(&window, base.wrapping_add(at), len)?;
    }
    let there = addresses(job, base)?[((me + 1) % ranks) as usize];
    let ahead = (me + 1) % ranks;
    window.lock(LockKind::Shared, ahead, Assert::NONE)?;
    for (at, len) in parts {
        put(&window, &vec![at as u8 + 1; len], ahead, there + at as u64)?;
    }
    for (at, len) in [(8, 25), (32, 1), (99, 2), (127, 2), (3999, 1), (4095, 2)] {
        let outside = put(&window, &vec![0xff; len], ahead, there + at);
        refused(
            outside,
            ErrorClass::RmaRange,
            &["attached", &format!("{len} bytes")],
        )?;
    }
    window.unlock(ahead)?;
    world.barrier()?;
    let mut wanted = vec![0; 4096];
    for (at, len) in parts {
        wanted[at..at + len].fill(at as u8 + 1);
    }
    check_eq!(read(base, 4096), wanted);
    // Without its neighbour, a region is what it was.
    window.detach(base.wrapping_add(8))?;
    world.barrier()?;
    window.lock(LockKind::Shared, ahead, Assert::NONE)?;
    put(&window, &[0x77; 8], ahead, there)?;
    let gone = put(&window, &[0x77; 8], ahead, there + 8);
    refused(gone, ErrorClass::RmaRange, &["attached"])?;
    window.unlock(ahead)?;
    world.barrier()?;
    wanted[..8].fill(0x77);
    check_eq!(read(base, 4096), wanted);
    window.free()?;
    Ok(())
}

fn regions_of_many_pages(job: &Job) -> Outcome {
    const LEN: usize = 300_000;
    let world = job.world();
    let me = world.rank();
    let window = Window::create_dynamic(world, &Info::new())?;
    let base = memory(LEN);
    // Not at a page, on either side.
    let (first, len) = (base.wrapping_add(100), LEN - 200);
    attach(&window, first, len)?;
    let there = addresses(job, first)?[1 - me as usize];
    for round in 0..3 {
        window.lock_all(Assert::NONE)?;
        put(&window, &patterned(me, len, round), 1 - me, there)?;
        window.unlock_all()?;
        world.barrier()?;
        check_eq!(read(first, len), patterned(1 - me, len, round));
        world.barrier()?;
    }
    check_eq!(read(base, 100), [0; 100]);
    window.detach(first)?;
    check_eq!(read(first, len), patterned(1 - me, len, 2));
    window.free()?;
    Ok(())
}

fn more_regions_than_the_table_has_at_first(job: &Job) -> Outcome {
    const REGIONS: usize = 700;
    let world = job.world();
    let (me, ranks) = (world.rank(), world.size());
    let window = Window::create_dynamic(world, &Info::new())?;
    let base = memory(REGIONS * 64);
    let region = |at: usize| base.wrapping_add(at * 64);
    for at in 0..REGIONS {
        attach(&window, region(at), 24)?;
    }
    let ahead = (me + 1) % ranks;
    let there = addresses(job, base)?[ahead as usize];
    let write_each = |present: &dyn Fn(usize) -> bool, value: u64| -> Outcome {
        window.lock(LockKind::Shared, ahead, Assert::NONE)?;
        for at in 0..REGIONS {
            let bytes = (value + at as u64).to_ne_bytes();
            let result = put(&window, &bytes, ahead, there + at as u64 * 64 + 16);
            match present(at) {
                true => result?,
                false => refused(result, ErrorClass::RmaRange, &["attached"])?,
            }
        }
        window.unlock(ahead)?;
        world.barrier()?;
        for at in (0..REGIONS).filter(|&at| present(at)) {
            let found = word(region(at).wrapping_add(16)).load(Ordering::SeqCst);
            check_eq!(found, value + at as u64, "region {at}");
        }
        Ok(())
    };
    write_each(&|_| true, 1_000)?;
    // Two of three go, from the middle too.
    for at in (0..REGIONS).filter(|at| at % 3 != 1) {
        window.detach(region(at))?;
    }
    world.barrier()?;
    write_each(&|at| at % 3 == 1, 2_000)?;
    for at in (0..REGIONS).rev().filter(|at| at % 3 == 2) {
        attach(&window, region(at), 24)?;
    }
    world.barrier()?;
    write_each(&|at| at % 3 != 0, 3_000)?;
    window.free()?;
    Ok(())
}

/// In one long epoch: what an origin knew of an address must not outlive the region there.
fn memory_that_comes_back_is_found_again(job: &Job) -> Outcome {
    let world = job.world();
    let (me, ranks) = (world.rank(), world.size());
    let window = Window::create_dynamic(world, &Info::new())?;
    let base = memory(8192);
    let all = addresses(job, base)?;
    window.lock_all(Assert::NONE)?;
    for round in 0..20_u64 {
        // The same address, now and then in a region that begins or ends elsewhere.
        let (at, len) = [(0, 8192), (0, 4096), (8, 64), (24, 8)][round as usize % 4];
        attach(&window, base.wrapping_add(at), len)?;
        world.barrier()?;
        for target in 0..ranks {
            let value = 1_u64 << (8 * me);
            fetch_and_op(&window, value, target, all[target as usize] + 24, Op::Sum)?;
        }
        world.barrier()?;
        window.detach(base.wrapping_add(at))?;
        let found = word(base.wrapping_add(24)).load(Ordering::SeqCst);
        let wanted = (0..ranks).map(|rank| (round + 1) << (8 * rank)).sum();
        check_eq!(found, wanted, "round {round}");
    }
    window.unlock_all()?;
    window.free()?;
    Ok(())
}

fn a_region_of_a_window_and_of_nothing(job: &Job) -> Outcome {
    let world = job.world();
    let me = world.rank();
    let window = Window::create_dynamic(world, &Info::new())?;
    let other = Window::allocate(world, 4096, 1, &Info::new())?;
    let base = job.alloc_mem(4096, &Info::new())?;
    attach(&window, base.as_ptr(), 4096)?;
    attach(&window, other.base(), 4096)?;
    attach(&window, std::ptr::null_mut(), 0)?;
    attach(&window, other.base(), 0)?;
    for first in [base.as_ptr().cast_const(), other.base()] {
        let there = addresses(job, first)?[1 - me as usize];
        window.fence(Assert::NONE)?;
        put(&window, &patterned(me, 4096, 1), 1 - me, there)?;
        put(&window, &[], 1 - me, 12345)?;
        window.fence(Assert::NO_SUCCEED)?;
        check_eq!(read(first, 4096), patterned(1 - me, 4096, 1));
    }
    window.detach(std::ptr::null())?;
    window.detach(other.base())?;
    window.detach(other.base())?;
    refused(
        window.detach(other.base()),
        ErrorClass::RmaAttach,
        &["attached"],
    )?;
    window.detach(base.as_ptr())?;
    world.barrier()?;
    // SAFETY: no window is over it.
    unsafe { job.free_mem(base)? };
    window.free()?;
    other.free()?;
    Ok(())
}

fn free_detaches(job: &Job) -> Outcome {
    let world = job.world();
    let base = memory(12_288);
    for round in 0..5_u64 {
        let window = Window::create_dynamic(world, &Info::new())?;
        attach(&window, base, 5000)?;
        attach(&window, base.wrapping_add(5000), 7288)?;
        let all = addresses(job, base)?;
        let ahead = (world.rank() + 1) % world.size();
        window.fence(Assert::NONE)?;
        put(
            &window,
            &round.to_ne_bytes(),
            ahead,
            all[ahead as usize] + 8000,
        )?;
        window.fence(Assert::NO_SUCCEED)?;
        window.free()?;
        check_eq!(word(base.wrapping_add(8000)).load(Ordering::SeqCst), round);
        // It is ours again.
        word(base.wrapping_add(8000)).store(77, Ordering::SeqCst);
    }
    Ok(())
}

/// Nothing is harmed, and what is attached can be accessed as before.
fn addresses_that_are_not_attached(job: &Job) -> Outcome {
    let world = job.world();
    let ahead = (world.rank() + 1) % world.size();
    let window = Window::create_dynamic(world, &Info::new())?;
    let base = memory(4096);
    let all = addresses(job, base)?;
    let there = all[ahead as usize];
    window.lock_all(Assert::NONE)?;
    let tries = |address: u64| -> [Result<()>; 5] {
        [
            put(&window, &[1; 8], ahead, address),
            get(&window, &mut [0; 8], ahead, address),
            accumulate(&window, &[1_u64], ahead, address, Op::Sum),
            fetch_and_op(&window, 1_u64, ahead, address, Op::Sum).map(drop),
            compare_and_swap(&window, 1_u64, 2, ahead, address).map(drop),
        ]
    };
    let all_refused = |address: u64| -> Outcome {
        for result in tries(address) {
            let rank = format!("rank {ahead}");
            refused(
                result,
                ErrorClass::RmaRange,
                &["8 bytes", &rank, &format!("{address:#x}")],
            )?;
        }
        Ok(())
    };
    all_refused(there)?;
    world.barrier()?;
    attach(&window, base, 1024)?;
    world.barrier()?;
    for address in [
        0,
        8,
        there - 8,
        there - 1,
        there + 1017,
        there + 1024,
        u64::MAX,
        u64::MAX - 7,
    ] {
        all_refused(address)?;
    }
    fetch_and_op(&window, 5_u64, ahead, there + 1016, Op::Sum)?;
    world.barrier()?;
    check_eq!(word(base.wrapping_add(1016)).load(Ordering::SeqCst), 5);
    window.detach(base)?;
    world.barrier()?;
    all_refused(there)?;
    window.unlock_all()?;
    check_eq!(read(base, 1016), [0; 1016]);
    let outside = put(&window, &[1], ahead, there);
    refused(outside, ErrorClass::RmaSync, &["epoch"])?;
    window.free()?;
    Ok(())
}

fn attaching_what_is_attached(job: &Job) -> Outcome {
    let world = job.world();
    let window = Window::create_dynamic(world, &Info::new())?;
    let base = memory(8192);
    attach(&window, base.wrapping_add(1000), 3000)?;
    attach(&window, base.wrapping_add(6000), 8)?;
    let parts = [
        (1000, 3000),
        (1000, 1),
        (0, 1001),
        (3999, 1),
        (0, 8192),
        (2000, 5),
        (3000, 3001),
    ];
    for (at, len) in parts {
        let twice = attach(&window, base.wrapping_add(at), len);
        let first = format!("{:#x}", base.addr() + at);
        refused(
            twice,
            ErrorClass::RmaAttach,
            &["overlap", &first, &format!("{len} bytes")],
        )?;
    }
    let wraps = attach(&window, base, usize::MAX);
    refused(wraps, ErrorClass::Size, &["attach", "size"])?;
    let null = attach(&window, std::ptr::null_mut(), 8);
    refused(null, ErrorClass::Buffer, &["null"])?;
    let unmapped = attach(&window, std::ptr::without_provenance_mut(4096), 8);
    refused(unmapped, ErrorClass::Base, &["attach", "mapped"])?;
    // What touches does not overlap.
    attach(&window, base, 1000)?;
    attach(&window, base.wrapping_add(4000), 2000)?;
    let there = addresses(job, base)?[1 - world.rank() as usize];
    window.fence(Assert::NONE)?;
    for at in [0_u64, 992, 1000, 3992, 4000, 5992, 6000] {
        put(&window, &at.to_ne_bytes(), 1 - world.rank(), there + at)?;
    }
    window.fence(Assert::NO_SUCCEED)?;
    for at in [0_u64, 992, 1000, 3992, 4000, 5992, 6000] {
        check_eq!(read(base.wrapping_add(at as usize), 8), at.to_ne_bytes());
    }
    window.free()?;
    Ok(())
}

fn detaching_what_is_not(job: &Job) -> Outcome {
    let world = job.world();
    let window = Window::create_dynamic(world, &Info::new())?;
    let base = memory(4096);
    let gone = |at: usize| -> Outcome {
        let address = format!("{:#x}", base.addr() + at);
        refused(
            window.detach(base.wrapping_add(at)),
            ErrorClass::RmaAttach,
            &[&address],
        )
    };
    gone(0)?;
    attach(&window, base, 100)?;
    for at in [1, 99, 100] {
        gone(at)?;
    }
    let there = addresses(job, base)?[1 - world.rank() as usize];
    window.fence(Assert::NONE)?;
    put(&window, &[7; 100], 1 - world.rank(), there)?;
    window.fence(Assert::NO_SUCCEED)?;
    check_eq!(read(base, 100), [7; 100]);
    window.detach(base)?;
    gone(0)?;
    window.free()?;
    Ok(())
}

fn attaching_to_other_windows(job: &Job) -> Outcome {
    let window = Window::allocate(job.world(), 64, 1, &Info::new())?;
    let base = memory(64);
    refused(
        attach(&window, base, 64),
        ErrorClass::RmaFlavor,
        &["create_dynamic", "allocate"],
    )?;
    refused(
        window.detach(base),
        ErrorClass::RmaFlavor,
        &["create_dynamic"],
    )?;
    window.free()?;
    Ok(())
}

/// Rank 0 attaches and detaches all the time. Rank 1 accesses what is there for a moment, which it
/// is told through memory that stays, and the others that memory alone.
fn coming_and_going_under_load(job: &Job) -> Outcome {
    const ROUNDS: u64 = 60;
    const ADDRESS: u64 = 8;
    const ACKNOWLEDGED: u64 = 16;
    const COUNTER: u64 = 64;
    const OVER: u64 = u64::MAX;
    let world = job.world();
    let me = world.rank();
    let window = Window::create_dynamic(world, &Info::new())?;
    let stays = memory(4096);
    attach(&window, stays, 4096)?;
    let there = addresses(job, stays)?[0];
    let mut added = 0_u64;
    match me {
        0 => {
            let comes = memory(64 * 4096);
            // Others' atomics may be the device's, and write back what they found: a store would be lost.
            let tell = |at: u64, value: u64| {
                fetch_and_op(&window, value, me, there + at, Op::Replace).map(drop)
            };
            let acknowledged = || {
                let own = stays.wrapping_add(ACKNOWLEDGED as usize);
                word(own).load(Ordering::SeqCst)
            };
            window.lock_all(Assert::NONE)?;
            for round in 1..=ROUNDS {
                let region = comes.wrapping_add(round as usize * 520 % (60 * 4096));
                // Company, so that entries of the table move.
                let others: Vec<_> = (0..round % 5)
                    .map(|at| comes.wrapping_add((61 * 4096 + 700 * at) as usize))
                    .collect();
                for &other in &others {
                    attach(&window, other, 600)?;
                }
                attach(&window, region, 512)?;
                tell(ADDRESS, get_address(region))?;
                tell(0, round)?;
                for &other in &others {
                    window.detach(other)?;
                }
                let begun = std::time::Instant::now();
                while acknowledged() < round {
                    check!(
                        begun.elapsed().as_secs() < 60,
                        "round {round} is not answered"
                    );
                    std::thread::yield_now();
                }
                window.detach(region)?;
                check_eq!(read(region, 512), patterned(1, 512, round as usize));
            }
            tell(0, OVER)?;
            window.unlock_all()?;
        }
        1 => {
            // A get might see half of a change.
            let load = |at: u64| fetch_and_op(&window, 0_u64, 0, there + at, Op::NoOp);
            window.lock_all(Assert::NONE)?;
            let mut done = 0;
            loop {
                let round = load(0)?;
                if round == OVER {
                    break;
                }
                if round == done {
                    fetch_and_op(&window, 1_u64, 0, there + COUNTER, Op::Sum)?;
                    added += 1;
                    continue;
                }
                let region = load(ADDRESS)?;
                put(&window, &patterned(1, 512, round as usize), 0, region)?;
                window.flush(0)?;
                let mut back = vec![0; 512];
                get(&window, &mut back, 0, region)?;
                window.flush(0)?;
                check_eq!(back, patterned(1, 512, round as usize));
                fetch_and_op(&window, round - done, 0, there + ACKNOWLEDGED, Op::Sum)?;
                done = round;
            }
            window.unlock_all()?;
            check_eq!(done, ROUNDS);
        }
        _ => {
            let mut over = false;
            while !over {
                window.lock(LockKind::Shared, 0, Assert::NONE)?;
                for _ in 0..20 {
                    accumulate(&window, &[1_u64], 0, there + COUNTER, Op::Sum)?;
                    added += 1;
                }
                over = fetch_and_op(&window, 0_u64, 0, there, Op::NoOp)? == OVER;
                window.unlock(0)?;
            }
        }
    }
    let all = world.allgather(&[added])?;
    if me == 0 {
        let found = word(stays.wrapping_add(COUNTER as usize)).load(Ordering::SeqCst);
        check_eq!(found, all.iter().sum::<u64>());
    }
    window.free()?;
    Ok(())
}
