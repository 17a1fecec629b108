//! Creating windows over every kind of memory, and freeing them.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use transom::raw::{Assert, Window};
use transom::{ErrorClass, Info, Job, LockKind};

use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::exposed::{Exposed, MEMORIES, Memory, pattern, patterned};
use crate::ops::{get, put};

pub(crate) const CASES: &[Case] = cases!["create":
    over_every_memory @ [1, 2, 3],
    over_the_stack @ [2, 3],
    over_a_static @ [2],
    with_size_zero @ [1, 3],
    with_sizes_and_units_that_differ @ [3],
    parts_that_differ_can_be_asked_for_until_the_window_is_freed @ [3],
    with_blocks_at_different_places @ [3],
    aligned_as_the_hint_says @ [2],
    two_windows_on_one_memory @ [2, 3],
    a_window_over_part_of_another @ [2],
    two_windows_at_once @ [2, 3],
    on_a_duplicate_of_the_world @ [3],
    on_parts_of_the_world_renumbered @ [5],
    on_this_rank_alone @ [2],
    freed_without_a_barrier @ [3],
    a_leaked_window_harms_nobody @ [2],
    the_window_says_what_it_is @ [3],
];

/// The adversarial device finds at the target that the memory is read-only, and its connection breaks
/// there; the others know at the origin.
pub(crate) const REFUSED_AT_ONCE: &[Case] = cases!["create":
    over_read_only_memory @ [1, 2],
];

/// Of which little is touched: for devices that do not keep all of it in memory.
pub(crate) const SPARSE: &[Case] = cases!["create":
    of_five_gibibytes @ [2],
];

/// Everybody puts its own pattern into its neighbour's memory and gets it back.
fn ring(window: &Exposed<'_>, len: usize, round: usize) -> Outcome {
    let (rank, ranks) = (window.rank(), window.ranks());
    let ahead = (rank + 1) % ranks;
    let behind = (rank + ranks - 1) % ranks;
    let mine = patterned(rank, len, round);
    window.fence(Assert::NONE)?;
    put(window, &mine, ahead, 0)?;
    window.fence(Assert::NONE)?;
    check_eq!(window.read(0, len), patterned(behind, len, round));
    let mut back = vec![0; len];
    get(window, &mut back, ahead, 0)?;
    window.fence(Assert::NONE)?;
    check_eq!(back, mine);
    Ok(())
}

fn over_every_memory(job: &Job) -> Outcome {
    for memory in MEMORIES {
        for size in [1, 13, 4096, 100_000] {
            let window = Exposed::open(job, memory, size, 1)?;
            check_eq!(window.bytes(), vec![0; size], "{memory:?} begins zeroed");
            ring(&window, size, 1)?;
            window.close()?;
        }
    }
    Ok(())
}

fn over_the_stack(job: &Job) -> Outcome {
    let world = job.world();
    let ahead = (world.rank() + 1) % world.size();
    let behind = (world.rank() + world.size() - 1) % world.size();
    for round in 0..3 {
        let before = [0x11_u8; 100];
        let mut array = [0_u8; 10_000];
        let after = [0x22_u8; 100];
        let (base, len) = (array.as_mut_ptr(), array.len());
        // SAFETY: the array outlives the window, and is only looked at through `base` meanwhile.
        let window = unsafe { Window::create(world, base, len, 1, &Info::new())? };
        let mine = patterned(world.rank(), len, round);
        window.fence(Assert::NONE)?;
        put(&window, &mine, ahead, 0)?;
        window.fence(Assert::NO_SUCCEED)?;
        window.free()?;
        check_eq!(array.to_vec(), patterned(behind, len, round));
        check_eq!(std::hint::black_box(before), [0x11; 100]);
        check_eq!(std::hint::black_box(after), [0x22; 100]);
    }
    Ok(())
}

fn over_a_static(job: &Job) -> Outcome {
    static WORDS: [AtomicU64; 100] = [const { AtomicU64::new(7) }; 100];
    let world = job.world();
    let base = WORDS.as_ptr().cast::<u8>().cast_mut();
    // SAFETY: statics live for ever; atomics expect others to write.
    let window = unsafe { Window::create(world, base, 800, 8, &Info::new())? };
    window.fence(Assert::NONE)?;
    let value = u64::from(world.rank()) + 100;
    put(&window, &value.to_ne_bytes(), 1 - world.rank(), 99)?;
    window.fence(Assert::NO_SUCCEED)?;
    window.free()?;
    check_eq!(WORDS[99].load(Ordering::Relaxed), 101 - value + 100);
    check_eq!(WORDS[98].load(Ordering::Relaxed), 7);
    Ok(())
}

/// Gets work; puts and accumulates are errors at their origin, the target's own included.
fn over_read_only_memory(job: &Job) -> Outcome {
    static TEXT: &[u8] = b"over the transom, without lifting a finger";
    let world = job.world();
    let base = TEXT.as_ptr().cast_mut();
    // SAFETY: the window layer finds out that nobody can write here.
    let window = unsafe { Window::create(world, base, TEXT.len(), 1, &Info::new())? };
    window.lock_all(Assert::NONE)?;
    for target in 0..world.size() {
        let mut bytes = vec![0; TEXT.len()];
        get(&window, &mut bytes, target, 0)?;
        window.flush(target)?;
        check_eq!(bytes, TEXT);
        let refused = put(&window, b"x", target, 1).and_then(|()| window.flush(target));
        let error = match refused {
            Err(error) => error,
            Ok(()) => {
                check!(false, "rank {target}'s read-only memory took a put");
                return Ok(());
            }
        };
        check_eq!(error.class(), ErrorClass::RmaRange, "{error}");
        let mut bytes = vec![0; TEXT.len()];
        get(&window, &mut bytes, target, 0)?;
        window.flush(target)?;
        check_eq!(bytes, TEXT, "after the refused put");
    }
    window.unlock_all()?;
    window.free()?;
    Ok(())
}

fn with_size_zero(job: &Job) -> Outcome {
    let world = job.world();
    for memory in MEMORIES {
        // Everybody's, then the middle one's only.
        for zero in [0..3, 1..2] {
            let size = |rank: u32| if zero.contains(&rank) { 0 } else { 64 };
            let window = Exposed::open(job, memory, size(world.rank()), 1)?;
            check_eq!(window.base().is_null(), size(world.rank()) == 0);
            window.fence(Assert::NONE)?;
            for target in 0..world.size() {
                check_eq!(window.size_of(target)?, size(target) as u64);
                put(&window, &[], target, 0)?;
                get(&window, &mut [], target, 0)?;
                let fits = put(&window, &[1], target, 0);
                check_eq!(fits.is_ok(), size(target) > 0, "one byte at rank {target}");
            }
            window.fence(Assert::NONE)?;
            window.close()?;
        }
    }
    // Null is a legal address for no bytes.
    // SAFETY: there is no memory.
    let window = unsafe { Window::create(world, null_mut(), 0, 1, &Info::new())? };
    window.fence(Assert::NONE)?;
    window.fence(Assert::NO_SUCCEED)?;
    window.free()?;
    Ok(())
}

fn with_sizes_and_units_that_differ(job: &Job) -> Outcome {
    let world = job.world();
    let rank = world.rank();
    let unit = |rank: u32| [1, 3, 16][rank as usize];
    let size = |rank: u32| [100, 5_000, 70_000][rank as usize];
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, size(rank), unit(rank))?;
        window.fence(Assert::NONE)?;
        let mut got = [[0; 16]; 3];
        for target in 0..3 {
            check_eq!(window.size_of(target)?, size(target) as u64);
            check_eq!(window.disp_unit_of(target)?, unit(target));
            let disp = u64::from(rank) * 2 + 1;
            put(&window, &[rank as u8 + 1], target, disp)?;
            // The target's unit counts, not ours, and its last byte can be reached.
            let last = (size(target) as u64 - 1) / unit(target);
            let rest = size(target) as u64 - last * unit(target);
            let mut bytes = [0; 17];
            let past = get(&window, &mut bytes[..rest as usize + 1], target, last);
            check!(past.is_err(), "rank {target}: one byte too much");
            get(
                &window,
                &mut got[target as usize][..rest as usize],
                target,
                last,
            )?;
        }
        window.fence(Assert::NONE)?;
        let mut wanted = vec![0; size(rank)];
        for origin in 0..3 {
            wanted[(origin * 2 + 1) * unit(rank) as usize] = origin as u8 + 1;
        }
        check!(window.bytes() == wanted, "{memory:?}");
        window.close()?;
    }
    Ok(())
}

/// Whatever the hints: a rank that is free to go on must not take away what others still ask for.
fn parts_that_differ_can_be_asked_for_until_the_window_is_freed(job: &Job) -> Outcome {
    let world = job.world();
    let rank = world.rank();
    let (size, unit) = (
        |rank: u32| 100 * rank as usize,
        |rank: u32| u64::from(rank) + 1,
    );
    for hint in ["true", "false"] {
        let info = Info::new().with("no_locks", hint);
        for _ in 0..50 {
            let window =
                Exposed::over(job, world, Memory::Allocate, size(rank), unit(rank), &info)?;
            window.fence(Assert::NONE)?;
            window.fence(Assert::NO_SUCCEED)?;
            // The others are not slower than the last rank, which asks them before any access.
            if rank == 2 {
                std::thread::yield_now();
            }
            for target in 0..3 {
                check_eq!(window.size_of(target)?, size(target) as u64);
                check_eq!(window.disp_unit_of(target)?, unit(target));
            }
            window.close()?;
        }
    }
    Ok(())
}

/// Each rank has another number of windows of its own, so that those of all stand behind them.
fn with_blocks_at_different_places(job: &Job) -> Outcome {
    let alone = job.alone()?;
    let own = |_| Window::allocate(&alone, 8, 1, &Info::new());
    let own = (0..job.world().rank())
        .map(own)
        .collect::<Result<Vec<_>, _>>()?;
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 1000, 1)?;
        ring(&window, 1000, 3)?;
        let target = (window.rank() + 1) % window.ranks();
        window.lock(LockKind::Exclusive, target, Assert::NONE)?;
        put(&window, &[7], target, 0)?;
        window.unlock(target)?;
        window.fence(Assert::NONE)?;
        check_eq!(window.bytes()[0], 7);
        window.close()?;
    }
    own.into_iter().try_for_each(Window::free)?;
    Ok(())
}

fn aligned_as_the_hint_says(job: &Job) -> Outcome {
    let world = job.world();
    for align in [1_usize, 64, 4096, 1 << 16, 2 << 20, 1 << 30] {
        let info = Info::new().with("mpi_minimum_memory_alignment", align.to_string());
        for size in [1, 5000] {
            let window = Window::allocate(world, size, 1, &info)?;
            check!(
                window.base().addr().is_multiple_of(align.max(64)),
                "{align}"
            );
            let memory = job.alloc_mem(size, &info)?;
            check!(memory.addr().get().is_multiple_of(align.max(64)), "{align}");
            window.fence(Assert::NONE)?;
            put(&window, &[9], 1 - world.rank(), size as u64 - 1)?;
            window.fence(Assert::NO_SUCCEED)?;
            // SAFETY: inside the window.
            check_eq!(unsafe { window.base().add(size - 1).read() }, 9);
            window.free()?;
            // SAFETY: in no window.
            unsafe { job.free_mem(memory)? };
        }
    }
    Ok(())
}

/// Sparse: only what is touched takes memory.
fn of_five_gibibytes(job: &Job) -> Outcome {
    const SIZE: usize = 5 << 30;
    let world = job.world();
    let (rank, other) = (world.rank(), 1 - world.rank());
    let places = [
        0,
        (4 << 30) - 5,
        (4 << 30) + 104,
        (4 << 30) + 12_344,
        SIZE - 11,
    ];
    for unit in [1, 8] {
        let window = Window::allocate(world, SIZE, unit, &Info::new())?;
        check_eq!(window.size_of(other)?, SIZE as u64);
        window.lock_all(Assert::NONE)?;
        for (round, at) in places.into_iter().enumerate() {
            let disp = (at / unit as usize) as u64;
            let bytes = patterned(rank, 11, round);
            put(&window, &bytes, other, disp)?;
            window.flush(other)?;
            let mut back = vec![0; 11];
            get(&window, &mut back, other, disp)?;
            window.flush(other)?;
            check_eq!(back, bytes, "at {at}");
        }
        let last = (SIZE / unit as usize - 1) as u64;
        let past = put(&window, &[0; 9], other, last);
        check!(past.is_err(), "past the end");
        window.unlock_all()?;
        world.barrier()?;
        for (round, at) in places.into_iter().enumerate() {
            let at = at - at % unit as usize;
            for i in 0..11 {
                // SAFETY: inside the window; nobody writes any more.
                let found = unsafe { window.base().add(at + i).read() };
                check_eq!(found, pattern(other, i, round), "byte {i} at {at}");
            }
        }
        window.free()?;
    }
    Ok(())
}

fn two_windows_on_one_memory(job: &Job) -> Outcome {
    let world = job.world();
    let ahead = (world.rank() + 1) % world.size();
    for memory in MEMORIES {
        let first = Exposed::open(job, memory, 10_000, 1)?;
        let base = first.base();
        // SAFETY: the memory is freed after both windows.
        let second = unsafe { Window::create(world, base, 10_000, 10, &Info::new())? };
        first.lock(LockKind::Exclusive, ahead, Assert::NONE)?;
        put(&first, &[5; 10], ahead, 500)?;
        first.unlock(ahead)?;
        second.lock(LockKind::Exclusive, ahead, Assert::NONE)?;
        let mut seen = [0; 10];
        get(&second, &mut seen, ahead, 50)?;
        put(&second, &[6; 10], ahead, 51)?;
        second.unlock(ahead)?;
        check_eq!(seen, [5; 10]);
        world.barrier()?;
        second.free()?;
        // The memory is still the first window's.
        first.lock(LockKind::Shared, ahead, Assert::NONE)?;
        get(&first, &mut seen, ahead, 510)?;
        first.unlock(ahead)?;
        check_eq!(seen, [6; 10], "{memory:?} after the second window is gone");
        world.barrier()?;
        first.close()?;
    }
    Ok(())
}

fn a_window_over_part_of_another(job: &Job) -> Outcome {
    let world = job.world();
    let other = 1 - world.rank();
    for memory in MEMORIES {
        let whole = Exposed::open(job, memory, 30_000, 1)?;
        let base = whole.base().wrapping_add(10_001);
        // SAFETY: part of memory that is freed after both windows.
        let part = unsafe { Window::create(world, base, 5_000, 1, &Info::new())? };
        part.fence(Assert::NONE)?;
        put(&part, &patterned(world.rank(), 5_000, 0), other, 0)?;
        part.fence(Assert::NO_SUCCEED)?;
        let mut wanted = vec![0; 30_000];
        wanted[10_001..15_001].copy_from_slice(&patterned(other, 5_000, 0));
        check!(whole.bytes() == wanted, "{memory:?}");
        part.free()?;
        ring(&whole, 30_000, 2)?;
        whole.close()?;
    }
    Ok(())
}

fn two_windows_at_once(job: &Job) -> Outcome {
    let windows: Vec<_> = MEMORIES
        .iter()
        .map(|&memory| Exposed::open(job, memory, 300, 1))
        .collect::<Result<_, _>>()?;
    let ahead = (job.world().rank() + 1) % job.world().size();
    let behind = (job.world().rank() + job.world().size() - 1) % job.world().size();
    // Epochs of different windows overlap, and each window keeps its own state.
    let [first, second, third, fourth] = &windows[..] else {
        unreachable!()
    };
    first.fence(Assert::NONE)?;
    second.lock(LockKind::Shared, ahead, Assert::NONE)?;
    third.lock_all(Assert::NONE)?;
    put(first, &[1; 300], ahead, 0)?;
    put(second, &[2; 300], ahead, 0)?;
    put(third, &[3; 300], ahead, 0)?;
    check!(
        put(fourth, &[4], ahead, 0).is_err(),
        "no epoch is open there"
    );
    third.unlock_all()?;
    first.fence(Assert::NONE)?;
    second.unlock(ahead)?;
    job.world().barrier()?;
    for (window, byte) in windows.iter().zip([1, 2, 3, 0]) {
        check_eq!(window.bytes(), vec![byte; 300], "from rank {behind}");
    }
    // Freed in another order than created.
    for window in windows.into_iter().rev() {
        window.close()?;
    }
    Ok(())
}

fn on_a_duplicate_of_the_world(job: &Job) -> Outcome {
    let comm = job.world().dup()?;
    let window = Exposed::over(job, &comm, Memory::Allocate, 1000, 1, &Info::new())?;
    // The window has a context of its own: the communicator may go first.
    drop(comm);
    ring(&window, 1000, 3)?;
    window.close()
}

/// Ranks 4, 2, 0 and 3, 1: numbered backwards.
fn on_parts_of_the_world_renumbered(job: &Job) -> Outcome {
    let world = job.world();
    let me = world.rank();
    let comm = world.split(Some(me % 2), -(me as i32))?.expect("a colour");
    let members: &[u32] = if me.is_multiple_of(2) {
        &[4, 2, 0]
    } else {
        &[3, 1]
    };
    check_eq!(comm.size() as usize, members.len());
    check_eq!(members[comm.rank() as usize], me);
    for memory in MEMORIES {
        let window = Exposed::over(job, &comm, memory, 500, 1, &Info::new())?;
        check_eq!(window.ranks() as usize, members.len());
        for (rank, &member) in (0..).zip(members) {
            check_eq!(window.group().world_rank(rank), Some(member));
            check_eq!(window.group().rank_of_world(member), Some(rank));
        }
        ring(&window, 500, 4)?;
        window.fence(Assert::NO_PRECEDE | Assert::NO_SUCCEED)?;
        // Locks name the holder by rank of the world: exclusion across parts must not mix up.
        let target = window.ranks() - 1;
        for _ in 0..20 {
            window.lock(LockKind::Exclusive, target, Assert::NONE)?;
            let mut bytes = [0; 8];
            get(&window, &mut bytes, target, 100)?;
            window.flush(target)?;
            let next = u64::from_ne_bytes(bytes).wrapping_add(1).to_ne_bytes();
            put(&window, &next, target, 100)?;
            window.unlock(target)?;
        }
        comm.barrier()?;
        if window.rank() == target {
            let base = u64::from_ne_bytes(
                patterned((target + window.ranks() - 1) % window.ranks(), 500, 4)[100..108]
                    .try_into()
                    .expect("eight"),
            );
            let wanted = base.wrapping_add(20 * members.len() as u64);
            check_eq!(window.read_u64(100), wanted);
        }
        window.close()?;
    }
    Ok(())
}

fn on_this_rank_alone(job: &Job) -> Outcome {
    let alone = job.alone()?;
    check_eq!((alone.rank(), alone.size()), (0, 1));
    for memory in MEMORIES {
        let window = Exposed::over(job, &alone, memory, 700, 1, &Info::new())?;
        ring(&window, 700, 5)?;
        window.close()?;
    }
    Ok(())
}

/// With `no_locks` on all ranks, `free` need not wait.
fn freed_without_a_barrier(job: &Job) -> Outcome {
    let info = Info::new().with("no_locks", "true");
    for round in 0..50 {
        for memory in [Memory::Allocate, Memory::Heap] {
            let window = Exposed::over(job, job.world(), memory, 100, 1, &info)?;
            let error = window.lock(LockKind::Shared, 0, Assert::NONE).unwrap_err();
            check_eq!(error.class(), ErrorClass::RmaSync, "{error}");
            check!(error.to_string().contains("no_locks"), "{error}");
            let error = window.lock_all(Assert::NONE).unwrap_err();
            check!(error.to_string().contains("no_locks"), "{error}");
            ring(&window, 100, round)?;
            window.fence(Assert::NO_SUCCEED)?;
            window.close()?;
        }
    }
    Ok(())
}

fn a_leaked_window_harms_nobody(job: &Job) -> Outcome {
    for round in 0..20 {
        let memory = Box::leak(vec![0_u8; 5000].into_boxed_slice());
        let base = memory.as_mut_ptr();
        // SAFETY: leaked.
        drop(unsafe { Window::create(job.world(), base, 5000, 1, &Info::new())? });
        drop(Window::allocate(job.world(), 5000, 1, &Info::new())?);
        let window = Exposed::open(job, Memory::Heap, 5000, 1)?;
        ring(&window, 5000, round)?;
        window.close()?;
        // SAFETY: leaked memory is still there.
        check!((0..5000).all(|at| unsafe { base.add(at).read() } == 0));
    }
    Ok(())
}

fn the_window_says_what_it_is(job: &Job) -> Outcome {
    let world = job.world();
    let window = Exposed::open(job, Memory::Heap, 48, 4)?;
    check_eq!((window.size(), window.disp_unit()), (48, 4));
    check_eq!((window.rank(), window.ranks()), (world.rank(), 3));
    check_eq!(window.group(), world.group());
    check_eq!(window.size_of(3).unwrap_err().class(), ErrorClass::Rank);
    check_eq!(
        window.disp_unit_of(9).unwrap_err().class(),
        ErrorClass::Rank
    );
    window.close()
}
