//! Shared windows, and where other windows' memory is in this process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use transom::raw::{Assert, Committed, Datatype, Flavor, MemoryModel, SharedPart, Window};
use transom::{BasicType, Communicator, ErrorClass, Info, Job, LockKind, Op};

use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::exposed::{Exposed, MEMORIES, Memory, patterned};
use crate::ops::{accumulate, fetch_and_op, get, put};
use crate::refused::refused;

/// Everywhere, since ranks of one host can always share memory.
pub(crate) const CASES: &[Case] = cases!["shared":
    the_ranks_of_a_host @ [1, 3, 5],
    operations_among_the_ranks_of_a_host @ [2, 3],
    parts_follow_each_other @ [1, 2, 3, 5],
    parts_of_their_own @ [1, 2, 3],
    parts_without_bytes @ [1, 3],
    one_segment_outlives_its_first_rank @ [3],
    stores_and_operations_meet @ [2, 3],
    on_a_part_of_the_world @ [5],
    ranks_whose_memory_is_found_or_not @ [2, 3],
    one_rank_fails @ [3],
    one_rank_wants_parts_of_its_own @ [3],
    queries_that_make_no_sense @ [1, 2],
    lock_all_protects_loads_and_stores @ [2, 3],
    lock_all_and_single_locks_do_not_wait_in_a_cycle @ [4],
    unchecked_lock_all_waits_for_nobody @ [2],
    atomics_beside_windows_of_other_memory @ [2, 3],
];

/// Where the device maps other ranks' memory.
pub(crate) const MAPPED: &[Case] = cases!["shared":
    allocated_memory_is_found_here @ [1, 3],
    the_world_is_shared @ [2],
    long_columns_among_the_ranks_of_a_host @ [2, 3],
    lock_all_protects_what_was_found @ [2, 3],
    a_part_found_under_lock_all_is_locked @ [3],
];

/// Where the device maps nothing.
pub(crate) const NOTHING_MAPPED: &[Case] = cases!["shared":
    nothing_is_shared @ [2],
];

fn word(part: &SharedPart, at: usize) -> &'static AtomicU64 {
    let place = part.base.wrapping_add(at);
    assert!(at + 8 <= part.size as usize && place.addr().is_multiple_of(8));
    // SAFETY: mapped until the window is freed, which every case does at its end.
    unsafe { AtomicU64::from_ptr(place.cast()) }
}

fn bytes(part: &SharedPart) -> Vec<u8> {
    let mut bytes = vec![0; part.size as usize];
    // SAFETY: as long as the part; nobody writes there now.
    unsafe {
        bytes
            .as_mut_ptr()
            .copy_from_nonoverlapping(part.base, bytes.len())
    };
    bytes
}

fn fill(part: &SharedPart, with: &[u8]) {
    assert_eq!(part.size as usize, with.len());
    // SAFETY: as long as the part; nobody else looks at it now.
    unsafe {
        part.base
            .copy_from_nonoverlapping(with.as_ptr(), with.len())
    };
}

fn noncontiguous() -> Info {
    Info::new().with("alloc_shared_noncontig", "true")
}

/// Everybody fills the next rank's part by plain stores, and finds its own filled.
/// The ranks of this host: on all devices but those of several hosts, all.
fn sharing(job: &Job) -> transom::Result<Communicator> {
    job.world().split_shared(0)
}

fn the_ranks_of_a_host(job: &Job) -> Outcome {
    let world = job.world();
    let backwards = world.split_shared(-(world.rank() as i32))?;
    check_eq!(backwards.size(), world.size());
    check_eq!(backwards.rank(), world.size() - 1 - world.rank());
    // What is made of it shares memory, too; so does it a second time.
    let again = backwards.split_shared(0)?.dup()?;
    check_eq!(again.rank(), backwards.rank());
    let window = Window::allocate_shared(&again, 8, 8, &Info::new())?;
    check_eq!(again.allreduce(&[1_u64], Op::Sum)?, [world.size().into()]);
    window.free()?;
    Ok(())
}

fn operations_among_the_ranks_of_a_host(job: &Job) -> Outcome {
    let world = &sharing(job)?;
    let (me, ranks) = (world.rank(), world.size());
    let ahead = (me + 1) % ranks;
    for memory in [Memory::Allocate, Memory::Heap, Memory::AllocMem] {
        let window = Exposed::over(job, world, memory, 64, 8, &Info::new())?;
        window.fence(Assert::NONE)?;
        put(&window, &u64::from(me).to_ne_bytes(), ahead, 0)?;
        window.fence(Assert::NO_SUCCEED)?;
        check_eq!(window.read_u64(0), u64::from((me + ranks - 1) % ranks));
        window.lock_all(Assert::NONE)?;
        for _ in 0..100 {
            for rank in 0..ranks {
                fetch_and_op(&window, 1_u64, rank, 1, Op::Sum)?;
                accumulate(&window, &[0.5_f64], rank, 2, Op::Sum)?;
            }
        }
        window.unlock_all()?;
        world.barrier()?;
        check_eq!(window.read_u64(8), 100 * u64::from(ranks), "{memory:?}");
        check_eq!(window.read_u64(16), (50.0 * f64::from(ranks)).to_bits());
        window.close()?;
    }
    Ok(())
}

fn the_world_is_shared(job: &Job) -> Outcome {
    let size = |rank: u32| 100 * (rank as usize + 1);
    let rank = job.world().rank();
    let window = Window::allocate_shared(job.world(), size(rank), 1, &Info::new())?;
    ring(job.world(), &window, size)?;
    window.free()?;
    Ok(())
}

fn ring(world: &Communicator, window: &Window, size: impl Fn(u32) -> usize) -> Outcome {
    let (me, ranks) = (window.rank(), window.ranks());
    let ahead = (me + 1) % ranks;
    let behind = (me + ranks - 1) % ranks;
    check_eq!(
        (window.flavor(), window.model()),
        (Flavor::Shared, MemoryModel::Unified)
    );
    let own = window.shared_query(Some(me))?;
    check_eq!((own.base, own.size), (window.base(), size(me) as u64));
    check_eq!(bytes(&own), vec![0; size(me)], "it begins zeroed");
    world.barrier()?;
    let there = window.shared_query(Some(ahead))?;
    fill(&there, &patterned(me, size(ahead), 1));
    world.barrier()?;
    check_eq!(bytes(&own), patterned(behind, size(me), 1));
    world.barrier()?;
    Ok(())
}

fn parts_follow_each_other(job: &Job) -> Outcome {
    let world = &sharing(job)?;
    for unit in [1, 8] {
        let size = |rank: u32| 8 * (rank as usize + 1) * 700;
        let window = Window::allocate_shared(world, size(world.rank()), unit, &Info::new())?;
        ring(world, &window, size)?;
        let parts: Vec<_> = (0..world.size())
            .map(|rank| window.shared_query(Some(rank)))
            .collect::<Result<_, _>>()?;
        for (rank, pair) in parts.windows(2).enumerate() {
            let end = pair[0].base.wrapping_add(pair[0].size as usize);
            check_eq!(pair[1].base, end, "rank {} follows rank {rank}", rank + 1);
        }
        check!(parts.iter().all(|part| part.disp_unit == unit));
        check_eq!(parts[0].base.addr() % 4096, 0);
        window.free()?;
    }
    Ok(())
}

/// The memory of all ranks goes with the window of the first, so that no hint lets that one go before.
fn one_segment_outlives_its_first_rank(job: &Job) -> Outcome {
    const BYTES: usize = 64;
    let world = &sharing(job)?;
    let me = world.rank();
    let info = Info::new().with("no_locks", "true");
    let window = Window::allocate_shared(world, BYTES, 1, &info)?;
    window.fence(Assert::NONE)?;
    put(&window, &[me as u8 + 1; BYTES], me, 0)?;
    window.fence(Assert::NO_SUCCEED)?;
    if me > 0 {
        std::thread::sleep(Duration::from_millis(60));
        // SAFETY: this rank's own part, which nobody writes to now.
        let own = unsafe { std::slice::from_raw_parts(window.base(), BYTES) };
        check!(own.iter().all(|&byte| byte == me as u8 + 1), "{own:?}");
    }
    window.free()?;
    let others: Vec<_> = (0..16)
        .map(|_| job.alloc::<u8>(256))
        .collect::<Result<_, _>>()?;
    check!(
        others
            .iter()
            .all(|buffer| buffer.iter().all(|&byte| byte == 0))
    );
    Ok(())
}

fn long_columns_among_the_ranks_of_a_host(job: &Job) -> Outcome {
    const ROWS: usize = 600;
    const WIDTH: usize = 1024;
    let world = job.world();
    let number = BasicType::U64;
    let column = Datatype::vector(ROWS as i64, 1, WIDTH as i64, &number.into())?.commit();
    let size = 8 * ROWS * WIDTH;
    for info in [Info::new(), noncontiguous()] {
        let window = Window::allocate_shared(world, size, 8, &info)?;
        // Each rank has other memory, too, that is registered later.
        let other = Window::allocate(world, size, 8, &Info::new())?;
        let last = world.size() - 1;
        let values: Vec<_> = (1..=ROWS as u64).collect();
        if world.rank() == 0 {
            window.lock_all(Assert::NONE)?;
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(20) {
                let dense = Committed::of(number);
                let (from, dense) = (values.as_ptr().cast(), dense.times(ROWS as u64));
                // SAFETY: the values outlive the flush.
                unsafe { window.put_layout(from, dense, last, 5, column.times(1))? };
                window.flush(last)?;
            }
            window.unlock_all()?;
        }
        world.barrier()?;
        let words = |window: &Window| {
            // SAFETY: this rank's part, to which nobody writes now.
            unsafe { std::slice::from_raw_parts(window.base().cast::<u64>(), ROWS * WIDTH) }
        };
        let mut model = vec![0; ROWS * WIDTH];
        if world.rank() == last {
            for (row, value) in values.into_iter().enumerate() {
                model[row * WIDTH + 5] = value;
            }
        }
        check!(words(&window) == model, "{info:?}");
        check!(words(&other).iter().all(|word| *word == 0), "{info:?}");
        other.free()?;
        window.free()?;
    }
    Ok(())
}

fn parts_of_their_own(job: &Job) -> Outcome {
    let world = &sharing(job)?;
    let size = |rank: u32| 1000 + rank as usize;
    let window = Window::allocate_shared(world, size(world.rank()), 1, &noncontiguous())?;
    for rank in 0..world.size() {
        check_eq!(window.shared_query(Some(rank))?.base.addr() % 4096, 0);
    }
    ring(world, &window, size)?;
    window.free()?;
    Ok(())
}

fn parts_without_bytes(job: &Job) -> Outcome {
    let world = &sharing(job)?;
    let last = world.size() - 1;
    for info in [Info::new(), noncontiguous()] {
        let size = if world.rank() == last { 64 } else { 0 };
        let window = Window::allocate_shared(world, size, 1, &info)?;
        let first = window.shared_query(None)?;
        check_eq!(first, window.shared_query(Some(last))?);
        check_eq!(first.size, 64);
        if world.size() > 1 {
            let part = window.shared_query(Some(0))?;
            check_eq!(
                (part.size, part.base == first.base),
                (0, info == Info::new())
            );
        }
        word(&first, 8).fetch_add(1, Ordering::SeqCst);
        world.barrier()?;
        check_eq!(word(&first, 8).load(Ordering::SeqCst), world.size().into());
        window.free()?;
        let window = Window::allocate_shared(world, 0, 1, &info)?;
        let none = window.shared_query(None)?;
        check_eq!(none.size, 0);
        // Parts that follow each other have a place also without bytes.
        check_eq!(none.base.is_null(), info == noncontiguous());
        window.fence(Assert::NONE)?;
        window.fence(Assert::NO_SUCCEED)?;
        window.free()?;
    }
    Ok(())
}

/// One counter under the processors' atomics and the window's, and one under locks.
fn stores_and_operations_meet(job: &Job) -> Outcome {
    let world = &sharing(job)?;
    let ranks = u64::from(world.size());
    for info in [Info::new(), noncontiguous()] {
        let window = Window::allocate_shared(world, 64, 8, &info)?;
        let root = window.shared_query(Some(0))?;
        window.lock_all(Assert::NONE)?;
        for _ in 0..500 {
            word(&root, 0).fetch_add(1, Ordering::SeqCst);
            fetch_and_op(&window, 1_u64, 0, 0, Op::Sum)?;
        }
        window.unlock_all()?;
        for _ in 0..100 {
            window.lock(LockKind::Exclusive, 0, Assert::NONE)?;
            let value = word(&root, 8).load(Ordering::Relaxed);
            put(&window, &(value + 1).to_ne_bytes(), 0, 1)?;
            window.unlock(0)?;
        }
        world.barrier()?;
        check_eq!(word(&root, 0).load(Ordering::SeqCst), 1000 * ranks);
        check_eq!(word(&root, 8).load(Ordering::SeqCst), 100 * ranks);
        window.fence(Assert::NONE)?;
        let past = put(&window, &[0; 16], 0, 7);
        refused(past, ErrorClass::RmaRange, &["rank 0", "64 bytes"])?;
        let mut found = [0; 8];
        get(&window, &mut found, 0, 1)?;
        window.fence(Assert::NO_SUCCEED)?;
        check_eq!(u64::from_ne_bytes(found), 100 * ranks);
        window.free()?;
    }
    Ok(())
}

/// Rank 0 of the window is not rank 0 of the world.
fn on_a_part_of_the_world(job: &Job) -> Outcome {
    let world = &sharing(job)?;
    let part = world.split(Some(world.rank() % 2), -(world.rank() as i32))?;
    let Some(part) = part else {
        return Ok(());
    };
    let window = Window::allocate_shared(&part, 16, 8, &Info::new())?;
    for rank in 0..part.size() {
        let there = window.shared_query(Some(rank))?;
        word(&there, 8).fetch_add(u64::from(world.rank()) + 1, Ordering::SeqCst);
    }
    part.barrier()?;
    let wanted = if world.rank().is_multiple_of(2) {
        1 + 3 + 5
    } else {
        2 + 4
    };
    let own = window.shared_query(Some(part.rank()))?;
    check_eq!(word(&own, 8).load(Ordering::SeqCst), wanted);
    window.free()?;
    Ok(())
}

fn one_rank_fails(job: &Job) -> Outcome {
    let world = &sharing(job)?;
    for failing in 0..3 {
        let size = |size: usize| if world.rank() == failing { size } else { 64 };
        let window = Window::allocate_shared(world, size(usize::MAX), 1, &Info::new());
        refused(window, ErrorClass::Size, &["allocate_shared", "2^63"])?;
        // Each is legal, all together are not.
        let window = Window::allocate_shared(world, isize::MAX as usize, 1, &Info::new());
        refused(window, ErrorClass::Size, &["sum over all ranks"])?;
    }
    Ok(())
}

fn one_rank_wants_parts_of_its_own(job: &Job) -> Outcome {
    let world = &sharing(job)?;
    for alone in 0..world.size() {
        let hints = match world.rank() == alone {
            true => noncontiguous(),
            false => Info::new(),
        };
        let window = Window::allocate_shared(world, 40, 1, &hints)?;
        check_eq!(window.info().get("alloc_shared_noncontig"), Some("false"));
        let mut ends = (0..world.size()).map(|rank| window.shared_query(Some(rank)));
        let mut end = ends.next().expect("a rank")?.base.wrapping_add(40);
        for next in ends {
            let next = next?;
            check_eq!(next.base, end);
            end = next.base.wrapping_add(40);
        }
        window.free()?;
    }
    Ok(())
}

fn allocated_memory_is_found_here(job: &Job) -> Outcome {
    for memory in [Memory::Allocate, Memory::AllocMem] {
        let window = Exposed::open(job, memory, 5000, 1)?;
        for rank in 0..window.ranks() {
            let there = window.shared_query(Some(rank))?;
            word(&there, 64).fetch_add(1, Ordering::SeqCst);
        }
        job.world().barrier()?;
        check_eq!(window.read_u64(64), window.ranks().into(), "{memory:?}");
        window.close()?;
    }
    Ok(())
}

/// On every kind of memory and device there is an answer: all of a rank's bytes, or none.
fn ranks_whose_memory_is_found_or_not(job: &Job) -> Outcome {
    for memory in MEMORIES {
        for world in [job.world(), &sharing(job)?] {
            let len = 4096 * (1 + world.rank() as usize);
            let window = Exposed::over(job, world, memory, len, 2, &Info::new())?;
            window.write(0, &patterned(window.rank(), len, 0));
            world.barrier()?;
            for rank in 0..window.ranks() {
                let part = window.shared_query(Some(rank))?;
                check_eq!(part.disp_unit, 2);
                if part.size == 0 {
                    check!(part.base.is_null() && rank != window.rank(), "{memory:?}");
                } else {
                    let all = 4096 * (1 + rank as usize);
                    check_eq!(bytes(&part), patterned(rank, all, 0), "{memory:?}");
                }
            }
            check_eq!(window.shared_query(None)?, window.shared_query(Some(0))?);
            world.barrier()?;
            window.close()?;
        }
    }
    Ok(())
}

fn queries_that_make_no_sense(job: &Job) -> Outcome {
    let world = job.world();
    let window = Window::allocate(world, 64, 4, &Info::new())?;
    let own = window.shared_query(Some(world.rank()))?;
    check_eq!((own.base, own.size, own.disp_unit), (window.base(), 64, 4));
    let none = window.shared_query(Some(world.size()));
    refused(none, ErrorClass::Rank, &[&format!("rank {}", world.size())])?;
    window.free()?;
    let window = Window::create_dynamic(world, &Info::new())?;
    let dynamic = window.shared_query(None);
    refused(dynamic, ErrorClass::RmaFlavor, &["create_dynamic"])?;
    window.free()?;
    Ok(())
}

fn nothing_is_shared(job: &Job) -> Outcome {
    let world = job.world();
    let name = job.device_name();
    for info in [Info::new(), noncontiguous()] {
        let window = Window::allocate_shared(world, 64, 1, &info);
        refused(
            window,
            ErrorClass::RmaShared,
            &["allocate_shared", name, "split_shared"],
        )?;
    }
    let window = Exposed::open(job, Memory::Heap, 64, 1)?;
    let there = window.shared_query(Some(1 - world.rank()))?;
    check_eq!((there.base.is_null(), there.size), (true, 0));
    check_eq!(window.size_of(1 - world.rank())?, 64);
    let own = window.shared_query(Some(world.rank()))?;
    check_eq!((own.base, own.size), (window.base(), 64));
    // The first rank with memory is rank 0, which is not mapped at the other.
    let first = window.shared_query(None)?;
    check_eq!(first, window.shared_query(Some(0))?);
    window.fence(Assert::NONE)?;
    put(&window, &[9; 64], 1 - world.rank(), 0)?;
    window.fence(Assert::NO_SUCCEED)?;
    check_eq!(window.bytes(), [9; 64]);
    window.close()?;
    Ok(())
}

/// Rank 0's word 0 is changed under its exclusive lock, and read under `lock_all`: by plain loads and
/// stores, in each order of who comes first. `part` finds it.
fn excluded(world: &Communicator, window: &Window, part: impl Fn() -> SharedPart) -> Outcome {
    const WHILE: Duration = Duration::from_millis(60);
    let last = world.size() - 1;
    for round in 0..4 {
        let found = part();
        let word = word(&found, 0);
        let reader_first = round % 2 == 0;
        let before = word.load(Ordering::SeqCst);
        world.barrier()?;
        if world.rank() == last {
            if !reader_first {
                world.barrier()?;
            }
            window.lock_all(Assert::NONE)?;
            let first = word.load(Ordering::SeqCst);
            if reader_first {
                world.barrier()?;
                std::thread::sleep(WHILE);
            }
            let later = word.load(Ordering::SeqCst);
            window.unlock_all()?;
            let wanted = if reader_first { before } else { before + 2 };
            check_eq!((first, later), (wanted, wanted), "round {round}");
        } else {
            if reader_first {
                world.barrier()?;
            }
            if world.rank() == 0 {
                window.lock(LockKind::Exclusive, 0, Assert::NONE)?;
            }
            if !reader_first {
                world.barrier()?;
            }
            if world.rank() == 0 {
                word.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(WHILE);
                word.fetch_add(1, Ordering::SeqCst);
                window.unlock(0)?;
            }
        }
        world.barrier()?;
    }
    Ok(())
}

fn lock_all_protects_loads_and_stores(job: &Job) -> Outcome {
    let world = &sharing(job)?;
    for info in [Info::new(), noncontiguous()] {
        let window = Window::allocate_shared(world, 64, 8, &info)?;
        // A part needs not be found to be reached: it follows the one before.
        let first = window.shared_query(Some(0))?;
        excluded(world, &window, || first)?;
        window.free()?;
    }
    Ok(())
}

/// Writers of single parts and readers of all, in changing order.
fn lock_all_and_single_locks_do_not_wait_in_a_cycle(job: &Job) -> Outcome {
    let world = &sharing(job)?;
    let (me, ranks) = (world.rank(), world.size());
    let window = Window::allocate_shared(world, 64, 8, &Info::new())?;
    let parts: Vec<_> = (0..ranks)
        .map(|rank| window.shared_query(Some(rank)))
        .collect::<Result<_, _>>()?;
    for round in 0..100 {
        if (round + me) % 2 == 0 {
            let target = (round / 2 + me) % ranks;
            window.lock(LockKind::Exclusive, target, Assert::NONE)?;
            let (one, two) = (
                word(&parts[target as usize], 0),
                word(&parts[target as usize], 8),
            );
            let value = one.load(Ordering::Relaxed) + 1;
            one.store(value, Ordering::Relaxed);
            std::thread::yield_now();
            two.store(value, Ordering::Relaxed);
            window.unlock(target)?;
        } else {
            window.lock_all(Assert::NONE)?;
            for part in &parts {
                let [one, two] = [0, 8].map(|at| word(part, at).load(Ordering::Relaxed));
                check_eq!(one, two, "round {round}");
            }
            window.unlock_all()?;
        }
    }
    world.barrier()?;
    let written: u64 = parts
        .iter()
        .map(|part| word(part, 0).load(Ordering::Relaxed))
        .sum();
    check_eq!(written, 50 * u64::from(ranks));
    world.barrier()?;
    window.free()?;
    Ok(())
}

fn unchecked_lock_all_waits_for_nobody(job: &Job) -> Outcome {
    let world = &sharing(job)?;
    let window = Window::allocate_shared(world, 64, 8, &Info::new())?;
    if world.rank() == 0 {
        window.lock(LockKind::Exclusive, 0, Assert::NONE)?;
    }
    world.barrier()?;
    if world.rank() == 1 {
        window.lock_all(Assert::NO_CHECK)?;
        word(&window.shared_query(Some(0))?, 0).store(7, Ordering::SeqCst);
        window.unlock_all()?;
    }
    world.barrier()?;
    if world.rank() == 0 {
        check_eq!(
            word(&window.shared_query(None)?, 0).load(Ordering::SeqCst),
            7
        );
        window.unlock(0)?;
    }
    window.free()?;
    Ok(())
}

fn lock_all_protects_what_was_found(job: &Job) -> Outcome {
    let world = job.world();
    for memory in [Memory::Allocate, Memory::AllocMem] {
        let window = Exposed::open(job, memory, 64, 8)?;
        let found = window.shared_query(Some(0))?;
        excluded(world, &window, || found)?;
        window.close()?;
    }
    Ok(())
}

/// Before that, `lock_all` did not wait for who had locked the part.
fn a_part_found_under_lock_all_is_locked(job: &Job) -> Outcome {
    let world = job.world();
    let window = Exposed::open(job, Memory::Allocate, 64, 8)?;
    if world.rank() == 0 {
        window.lock(LockKind::Exclusive, 0, Assert::NONE)?;
    }
    world.barrier()?;
    if world.rank() > 0 {
        window.lock_all(Assert::NONE)?;
    }
    world.barrier()?;
    if world.rank() == 0 {
        std::thread::sleep(Duration::from_millis(60));
        word(&window.shared_query(Some(0))?, 0).store(3, Ordering::SeqCst);
        window.unlock(0)?;
    } else {
        for _ in 0..2 {
            let part = window.shared_query(Some(0))?;
            check_eq!(word(&part, 0).load(Ordering::SeqCst), 3);
        }
        window.unlock_all()?;
        // It was given back: else this would wait for ever.
        window.lock(LockKind::Exclusive, 0, Assert::NONE)?;
        window.unlock(0)?;
    }
    world.barrier()?;
    window.close()
}

/// Which way accumulates take does not depend on what else a rank has registered.
fn atomics_beside_windows_of_other_memory(job: &Job) -> Outcome {
    const ROUNDS: u64 = 20_000;
    let host = job.world().split_shared(0)?;
    let window = Window::allocate_shared(&host, 64, 8, &Info::new())?;
    let (me, last) = (host.rank(), host.size() - 1);
    window.lock_all(Assert::NONE)?;
    // One rank knows the way before the other memory is there, the others find it later.
    if me == last {
        fetch_and_op(&window, 0_u64, last, 0, Op::Sum)?;
    }
    let mut heap = vec![0_u64; 8];
    // SAFETY: freed before the vector.
    let other = unsafe { Window::create(&host, heap.as_mut_ptr().cast(), 64, 8, &Info::new())? };
    for _ in 0..ROUNDS {
        fetch_and_op(&window, 1_u64, last, 0, Op::Sum)?;
    }
    window.unlock_all()?;
    host.barrier()?;
    if me == last {
        let sum = word(&window.shared_query(Some(last))?, 0).load(Ordering::SeqCst);
        check_eq!(sum, ROUNDS * u64::from(host.size()));
    }
    other.free()?;
    window.free()?;
    Ok(())
}
