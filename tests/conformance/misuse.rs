//! Rules broken: the class of the error, the operands in its message, and a window that works on
//! as if nothing had been tried.

use std::ptr::{NonNull, null, null_mut};

use transom::raw::{Assert, Window};
use transom::{BasicType, Error, ErrorClass, Info, Job, LockKind, Op, Result};

use crate::case::{Case, Failure, Outcome, cases, check, check_eq};
use crate::exposed::{Exposed, MEMORIES, Memory};
use crate::ops::{accumulate, compare_and_swap, fetch_and_op, get, put};

pub(crate) const CASES: &[Case] = cases!["misuse":
    operations_outside_an_epoch @ [1, 2],
    operations_on_a_target_that_is_not_locked @ [2],
    unlock_without_lock @ [2],
    nested_locks_of_one_target @ [2],
    locks_inside_a_fence_epoch @ [2],
    fence_with_locks @ [2],
    lock_all_that_is_nested @ [2],
    flush_without_a_lock @ [2],
    free_with_a_lock @ [1],
    ranks_that_are_none @ [1, 3],
    displacements_past_the_end @ [2],
    displacements_that_overflow @ [2],
    counts_that_overflow @ [1],
    null_buffers @ [2],
    units_that_are_none @ [2],
    sizes_that_are_none @ [2],
    malformed_hints @ [2],
    unknown_hints_are_ignored @ [1],
    freeing_twice @ [1],
    one_rank_fails_in_create @ [1, 3, 5],
    several_ranks_fail_in_allocate @ [3],
    a_job_is_joined_once @ [1],
    memory_that_is_not_mapped @ [2, 3],
];

/// The call fails with this class, and its message contains all of `words`.
#[track_caller]
pub(crate) fn refused<T>(result: Result<T>, class: ErrorClass, words: &[&str]) -> Outcome {
    let Err(error) = result else {
        return Err(Failure::new(format_args!(
            "let through; wanted {class:?} {words:?}"
        )));
    };
    let message = error.to_string();
    if error.class() != class || !words.iter().all(|word| message.contains(word)) {
        return Err(Failure::new(format_args!(
            "{error:?}; wanted {class:?} {words:?}"
        )));
    }
    Ok(())
}

/// Every operation, on one target and displacement.
pub(crate) fn each_operation(
    window: &Window,
    target: u32,
    disp: u64,
) -> [(&'static str, Result<()>); 7] {
    let mut word = [0; 8];
    // SAFETY: the word outlives the requests, which are complete or were refused.
    let requests = unsafe {
        [
            window.rput(word.as_ptr(), 8, target, disp),
            window.rget(word.as_mut_ptr(), 8, target, disp),
        ]
    };
    let [rput, rget] = requests.map(|request| request.and_then(|request| request.wait()));
    let (one, out) = (1_u64, word.as_mut_ptr());
    // SAFETY: as above.
    let fetched = unsafe {
        window.fetch_and_op(
            (&raw const one).cast(),
            out,
            BasicType::U64,
            target,
            disp,
            Op::Sum,
        )
    };
    // SAFETY: as above.
    let swapped = unsafe {
        let one = (&raw const one).cast();
        window.compare_and_swap(one, one, out, BasicType::U64, target, disp)
    };
    [
        ("put", put(window, &[0; 8], target, disp)),
        ("get", get(window, &mut [0; 8], target, disp)),
        ("put", rput),
        ("get", rget),
        ("fetch_and_op", fetched),
        ("compare_and_swap", swapped),
        (
            "accumulate",
            accumulate(window, &[1_u64], target, disp, Op::Sum),
        ),
    ]
}

#[track_caller]
fn each_refused(
    window: &Window,
    target: u32,
    disp: u64,
    class: ErrorClass,
    words: &[&str],
) -> Outcome {
    for (name, result) in each_operation(window, target, disp) {
        if let Err(error) = &result
            && !error.operation().contains(name)
        {
            return Err(Failure::new(format_args!(
                "{name} calls itself {}",
                error.operation()
            )));
        }
        refused(result, class, words)?;
    }
    Ok(())
}

/// Collective. All kinds of epoch work, and the memory is as `bytes` says before and after.
pub(crate) fn works(job: &Job, window: &Exposed<'_>) -> Outcome {
    let (me, ranks) = (window.rank(), window.ranks());
    let ahead = (me + 1) % ranks;
    job.world().barrier()?;
    let before = window.bytes();
    window.fence(Assert::NONE)?;
    let mut word = [0; 8];
    get(window, &mut word, ahead, 0)?;
    window.fence(Assert::NONE)?;
    put(window, &word, ahead, 0)?;
    window.fence(Assert::NO_SUCCEED)?;
    window.lock(LockKind::Exclusive, ahead, Assert::NONE)?;
    let old = fetch_and_op(window, 5_u64, ahead, 0, Op::Sum)?;
    compare_and_swap(window, old.wrapping_add(5), old, ahead, 0)?;
    window.unlock(ahead)?;
    window.lock_all(Assert::NONE)?;
    put(window, &word, ahead, 0)?;
    window.unlock_all()?;
    job.world().barrier()?;
    check!(window.bytes() == before, "the memory has changed");
    Ok(())
}

const NO_EPOCH: &[&str] = &["epoch", "fence, start, lock or lock_all"];

fn operations_outside_an_epoch(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 64, 1)?;
        for target in 0..window.ranks() {
            for (name, result) in each_operation(&window, target, 0) {
                refused(result, ErrorClass::RmaSync, &[name, "epoch"])?;
            }
        }
        window.fence(Assert::NONE)?;
        window.fence(Assert::NO_SUCCEED)?;
        refused(put(&window, &[1], 0, 0), ErrorClass::RmaSync, NO_EPOCH)?;
        window.lock(LockKind::Shared, 0, Assert::NONE)?;
        window.unlock(0)?;
        refused(put(&window, &[1], 0, 0), ErrorClass::RmaSync, NO_EPOCH)?;
        window.lock_all(Assert::NONE)?;
        put(&window, &[], 0, 0)?;
        window.unlock_all()?;
        refused(put(&window, &[1], 0, 0), ErrorClass::RmaSync, NO_EPOCH)?;
        refused(get(&window, &mut [1], 0, 0), ErrorClass::RmaSync, NO_EPOCH)?;
        check_eq!(window.bytes(), vec![0; 64]);
        works(job, &window)?;
        window.close()?;
    }
    Ok(())
}

fn operations_on_a_target_that_is_not_locked(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    for locked in 0..2 {
        let open = 1 - locked;
        window.lock(LockKind::Shared, locked, Assert::NONE)?;
        put(&window, &[0; 8], locked, 0)?;
        let rank = format!("rank {open} is not locked");
        for (_, result) in each_operation(&window, open, 0) {
            refused(result, ErrorClass::RmaSync, &[&rank])?;
        }
        refused(window.flush(open), ErrorClass::RmaSync, &["flush", &rank])?;
        refused(window.unlock(open), ErrorClass::RmaSync, &["unlock", &rank])?;
        put(&window, &[0; 8], locked, 0)?;
        window.unlock(locked)?;
    }
    works(job, &window)?;
    window.close()
}

fn unlock_without_lock(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    let class = ErrorClass::RmaSync;
    for target in 0..2 {
        let rank = format!("rank {target} is not locked");
        refused(window.unlock(target), class, &["unlock", &rank])?;
        window.lock(LockKind::Exclusive, target, Assert::NONE)?;
        window.unlock(target)?;
        refused(window.unlock(target), class, &["unlock", &rank])?;
    }
    refused(window.unlock_all(), class, &["unlock_all", "no epoch"])?;
    window.lock(LockKind::Shared, 1, Assert::NONE)?;
    refused(
        window.unlock_all(),
        class,
        &["unlock_all", "locks of single targets"],
    )?;
    window.unlock(1)?;
    window.lock_all(Assert::NONE)?;
    refused(window.unlock(1), class, &["unlock", "lock_all is in force"])?;
    put(&window, &[0; 8], 1, 0)?;
    refused(window.unlock(1), class, &["unlock", "lock_all is in force"])?;
    window.unlock_all()?;
    window.fence(Assert::NONE)?;
    put(&window, &[0; 8], 1, 0)?;
    refused(window.unlock(1), class, &["unlock", "fence"])?;
    refused(window.unlock_all(), class, &["unlock_all", "fence"])?;
    window.fence(Assert::NONE)?;
    works(job, &window)?;
    window.close()
}

fn nested_locks_of_one_target(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    use LockKind::{Exclusive, Shared};
    // By one rank at a time: what is refused must not wait.
    for turn in 0..2 {
        job.world().barrier()?;
        if window.rank() != turn {
            continue;
        }
        for (first, second) in [(Shared, Shared), (Shared, Exclusive), (Exclusive, Shared)] {
            for assert in [Assert::NONE, Assert::NO_CHECK] {
                window.lock(first, 1, assert)?;
                let nested = window.lock(second, 1, Assert::NONE);
                refused(
                    nested,
                    ErrorClass::RmaSync,
                    &["lock", "rank 1 is locked already"],
                )?;
                refused(
                    window.lock_all(assert),
                    ErrorClass::RmaSync,
                    &["lock_all", "locks"],
                )?;
                put(&window, &[0; 8], 1, 0)?;
                window.unlock(1)?;
            }
        }
    }
    works(job, &window)?;
    window.close()
}

fn locks_inside_a_fence_epoch(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    window.fence(Assert::NONE)?;
    put(&window, &[0; 8], 0, 0)?;
    let class = ErrorClass::RmaSync;
    for kind in [LockKind::Shared, LockKind::Exclusive] {
        refused(
            window.lock(kind, 1, Assert::NONE),
            class,
            &["lock", "fence epoch is open"],
        )?;
    }
    refused(
        window.lock_all(Assert::NONE),
        class,
        &["lock_all", "fence epoch is open"],
    )?;
    refused(window.flush(0), class, &["flush", "fence epoch is open"])?;
    refused(
        window.flush_all(),
        class,
        &["flush_all", "fence epoch is open"],
    )?;
    put(&window, &[0; 8], 1, 0)?;
    window.fence(Assert::NONE)?;
    works(job, &window)?;
    window.close()
}

fn fence_with_locks(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    let class = ErrorClass::RmaSync;
    window.lock(LockKind::Shared, 0, Assert::NONE)?;
    for assert in [
        Assert::NONE,
        Assert::NO_PRECEDE,
        Assert::NO_PRECEDE | Assert::NO_SUCCEED,
    ] {
        refused(
            window.fence(assert),
            class,
            &["fence", "locks of single targets"],
        )?;
    }
    put(&window, &[0; 8], 0, 0)?;
    window.unlock(0)?;
    window.lock_all(Assert::NONE)?;
    refused(
        window.fence(Assert::NONE),
        class,
        &["fence", "lock_all is in force"],
    )?;
    put(&window, &[0; 8], 1, 0)?;
    window.unlock_all()?;
    works(job, &window)?;
    window.close()
}

fn lock_all_that_is_nested(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    let class = ErrorClass::RmaSync;
    for assert in [Assert::NONE, Assert::NO_CHECK] {
        window.lock_all(assert)?;
        refused(
            window.lock_all(Assert::NONE),
            class,
            &["lock_all", "lock_all is in force"],
        )?;
        refused(
            window.lock_all(Assert::NO_CHECK),
            class,
            &["lock_all is in force"],
        )?;
        for target in 0..2 {
            let nested = window.lock(LockKind::Shared, target, Assert::NONE);
            refused(nested, class, &["lock_all is in force"])?;
            put(&window, &[0; 8], target, 0)?;
        }
        window.unlock_all()?;
        refused(window.unlock_all(), class, &["unlock_all"])?;
    }
    works(job, &window)?;
    window.close()
}

fn flush_without_a_lock(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    let class = ErrorClass::RmaSync;
    for target in 0..2 {
        refused(window.flush(target), class, &["flush", "no epoch"])?;
        refused(
            window.flush_local(target),
            class,
            &["flush_local", "no epoch"],
        )?;
    }
    refused(window.flush_all(), class, &["flush_all", "no epoch"])?;
    refused(
        window.flush_local_all(),
        class,
        &["flush_local_all", "no epoch"],
    )?;
    refused(window.sync(), class, &["sync", "no epoch"])?;
    works(job, &window)?;
    window.close()
}

/// The error leaks the window, so the next one must be all right.
fn free_with_a_lock(job: &Job) -> Outcome {
    let class = ErrorClass::RmaSync;
    let new = || Window::allocate(job.world(), 64, 1, &Info::new());
    let window = new()?;
    window.lock(LockKind::Exclusive, 0, Assert::NONE)?;
    refused(window.free(), class, &["free", "locks of single targets"])?;
    let window = new()?;
    window.lock_all(Assert::NONE)?;
    refused(window.free(), class, &["free", "lock_all is in force"])?;
    let window = new()?;
    window.fence(Assert::NONE)?;
    put(&window, &[1], 0, 0)?;
    refused(window.free(), class, &["free", "fence epoch is open"])?;
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    works(job, &window)?;
    window.close()
}

fn ranks_that_are_none(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    let ranks = window.ranks();
    let class = ErrorClass::Rank;
    for rank in [ranks, ranks + 1, u32::MAX] {
        let named = format!("rank {rank} ");
        let legal = format!("0 to {}", ranks - 1);
        let words: &[&str] = &[&named, &legal];
        refused(
            window.lock(LockKind::Shared, rank, Assert::NONE),
            class,
            words,
        )?;
        refused(window.unlock(rank), class, words)?;
        refused(window.flush(rank), class, words)?;
        window.lock_all(Assert::NONE)?;
        each_refused(&window, rank, 0, class, words)?;
        refused(window.flush(rank), class, words)?;
        refused(window.flush_local(rank), class, words)?;
        window.unlock_all()?;
        refused(window.size_of(rank), class, words)?;
    }
    works(job, &window)?;
    window.close()
}

fn displacements_past_the_end(job: &Job) -> Outcome {
    for memory in MEMORIES {
        for unit in [1, 8, 24] {
            let size = 240;
            let window = Exposed::open(job, memory, size, unit)?;
            window.write(0, &[3; 240]);
            job.world().barrier()?;
            let end = size as u64 / u64::from(unit);
            window.lock_all(Assert::NONE)?;
            for target in 0..2 {
                for disp in [end, end + 1, 1 << 40] {
                    let words = [
                        format!("displacement {disp} "),
                        format!("unit {unit} "),
                        "8 bytes".to_owned(),
                        format!("rank {target}'s window of 240 bytes"),
                    ];
                    let words = words.each_ref().map(String::as_str);
                    each_refused(&window, target, disp, ErrorClass::RmaRange, &words)?;
                }
                // The last bytes are legal, one more is not.
                let last = end - 1;
                let rest = vec![3; unit as usize];
                put(&window, &rest, target, last)?;
                let long = put(&window, &vec![9; unit as usize + 1], target, last);
                refused(
                    long,
                    ErrorClass::RmaRange,
                    &[&format!("{} bytes", unit + 1)],
                )?;
                let all = get(&window, &mut vec![0; 241], target, 0);
                refused(all, ErrorClass::RmaRange, &["241 bytes"])?;
                let bulk = accumulate(&window, &[1_i32; 61], target, 0, Op::Sum);
                refused(bulk, ErrorClass::RmaRange, &["244 bytes"])?;
                let floats = accumulate(&window, &[1_f64; 31], target, 0, Op::Sum);
                refused(floats, ErrorClass::RmaRange, &["248 bytes"])?;
                // No bytes at the end are legal, beyond it not.
                put(&window, &[], target, end)?;
                let beyond = put(&window, &[], target, end + 1);
                refused(beyond, ErrorClass::RmaRange, &["0 bytes"])?;
            }
            window.unlock_all()?;
            job.world().barrier()?;
            check!(window.bytes() == vec![3; 240], "{memory:?}");
            works(job, &window)?;
            window.close()?;
        }
    }
    Ok(())
}

fn displacements_that_overflow(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 64, 16)?;
        window.lock_all(Assert::NONE)?;
        for target in 0..2 {
            // Times the unit, these are past 2^64, or wrap to 0, or end there.
            for disp in [u64::MAX, 1 << 60, (1 << 60) + 1, (1 << 60) - 1, 1 << 63] {
                let words = [format!("displacement {disp} "), "unit 16 ".to_owned()];
                let words = words.each_ref().map(String::as_str);
                each_refused(&window, target, disp, ErrorClass::RmaRange, &words)?;
            }
        }
        window.unlock_all()?;
        works(job, &window)?;
        window.close()?;
    }
    Ok(())
}

fn counts_that_overflow(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 64, 1)?;
        let word = [0_u8; 8];
        window.lock_all(Assert::NONE)?;
        for count in [usize::MAX, usize::MAX / 8 + 1, usize::MAX / 16 + 1] {
            // SAFETY: refused.
            let result =
                unsafe { window.accumulate(word.as_ptr(), count, BasicType::F64, 0, 0, Op::Sum) };
            refused(result, ErrorClass::Count, &[&count.to_string(), "8 bytes"])?;
        }
        for len in [usize::MAX, isize::MAX as usize, usize::MAX - 7] {
            // SAFETY: refused.
            let results = unsafe {
                [
                    window.put(word.as_ptr(), len, 0, 8),
                    window.get(word.as_ptr().cast_mut(), len, 0, 8),
                ]
            };
            for result in results {
                refused(result, ErrorClass::RmaRange, &[&len.to_string()])?;
            }
        }
        window.unlock_all()?;
        works(job, &window)?;
        window.close()?;
    }
    Ok(())
}

fn null_buffers(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 64, 1)?;
        window.lock_all(Assert::NONE)?;
        let mut word = [0_u8; 8];
        let (ty, other, this) = (BasicType::I64, word.as_mut_ptr(), word.as_ptr());
        for target in 0..2 {
            // SAFETY: refused.
            let results = unsafe {
                [
                    window.put(null(), 8, target, 0),
                    window.get(null_mut(), 8, target, 0),
                    window.accumulate(null(), 1, ty, target, 0, Op::Sum),
                    window.fetch_and_op(null(), other, ty, target, 0, Op::Sum),
                    window.fetch_and_op(this, null_mut(), ty, target, 0, Op::Sum),
                    window.compare_and_swap(null(), this, other, ty, target, 0),
                    window.compare_and_swap(this, null(), other, ty, target, 0),
                    window.compare_and_swap(this, this, null_mut(), ty, target, 0),
                    window.rput(null(), 8, target, 0).map(|_| ()),
                    window.rget(null_mut(), 8, target, 0).map(|_| ()),
                ]
            };
            for result in results {
                refused(result, ErrorClass::Buffer, &["null", "8 bytes"])?;
            }
            // SAFETY: no bytes.
            unsafe {
                window.put(null(), 0, target, 0)?;
                window.get(null_mut(), 0, target, 0)?;
                window.accumulate(null(), 0, ty, target, 0, Op::Sum)?;
            }
        }
        window.unlock_all()?;
        check_eq!(window.bytes(), vec![0; 64]);
        works(job, &window)?;
        window.close()?;
    }
    // SAFETY: refused.
    let created = unsafe { Window::create(job.world(), null_mut(), 10, 1, &Info::new()) };
    refused(created, ErrorClass::Buffer, &["create", "null", "10 bytes"])
}

fn units_that_are_none(job: &Job) -> Outcome {
    let mut bytes = [0_u8; 8];
    for unit in [0, 1 << 31, u32::MAX] {
        let words: &[&str] = &[&format!("unit {unit} "), "1 to 2147483647"];
        let allocated = Window::allocate(job.world(), 8, unit, &Info::new());
        refused(allocated, ErrorClass::Disp, words)?;
        // SAFETY: refused.
        let created =
            unsafe { Window::create(job.world(), bytes.as_mut_ptr(), 8, unit, &Info::new()) };
        refused(created, ErrorClass::Disp, words)?;
    }
    let window = Exposed::open(job, Memory::Allocate, 8, i32::MAX as u32)?;
    works(job, &window)?;
    window.close()
}

fn sizes_that_are_none(job: &Job) -> Outcome {
    for size in [usize::MAX, isize::MAX as usize + 1] {
        let allocated = Window::allocate(job.world(), size, 1, &Info::new());
        refused(allocated, ErrorClass::Size, &[&size.to_string()])?;
    }
    for size in [isize::MAX as usize, 1 << 62, 1 << 50] {
        let allocated = Window::allocate(job.world(), size, 1, &Info::new());
        refused(allocated, ErrorClass::NoMem, &["allocate"])?;
        refused(
            job.alloc_mem(size, &Info::new()),
            ErrorClass::NoMem,
            &["alloc_mem"],
        )?;
    }
    let window = Exposed::open(job, Memory::Allocate, 8, 1)?;
    works(job, &window)?;
    window.close()
}

fn memory_that_is_not_mapped(job: &Job) -> Outcome {
    let world = job.world();
    // A page, one behind it that is gone, and one that nobody may use; far from where the kernel puts
    // new mappings by itself, so that the gap stays.
    let far = 0x2000_0000_0000_usize as *mut libc::c_void;
    // SAFETY: a new mapping, of which a part is unmapped again.
    let page = unsafe {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let pages = libc::mmap(far, 3 * 4096, prot, flags, -1, 0).cast::<u8>();
        assert!(!pages.is_null());
        libc::munmap(pages.add(4096).cast(), 4096);
        libc::mprotect(pages.add(8192).cast(), 4096, libc::PROT_NONE);
        pages
    };
    let last = world.size() - 1;
    for (base, len) in [
        (page, 4097),
        (page.wrapping_add(4096), 1),
        (page.wrapping_add(8192), 8),
        (0x10 as *mut u8, 16),
        (usize::MAX as *mut u8, 100),
        (page, isize::MAX as usize),
        (0xffff_8000_0000_0000_usize as *mut u8, 64),
    ] {
        // The last rank's memory alone is bad.
        let mut good = [0_u8; 8];
        let (base, len) = if world.rank() == last {
            (base, len)
        } else {
            (good.as_mut_ptr(), 8)
        };
        // SAFETY: what is not mapped is refused.
        let created = unsafe { Window::create(world, base, len, 1, &Info::new()) };
        let named = at_fault(world.rank(), last);
        let error = created.err().ok_or_else(|| {
            Failure::new(format_args!("{len} bytes at {base:p} were let through"))
        })?;
        check!(error.to_string().contains(&named), "{error}");
        check_eq!(error.class(), ErrorClass::Base, "{error}");
    }
    // SAFETY: the mapped page, which is unmapped below.
    let window = unsafe { Window::create(world, page, 4096, 1, &Info::new())? };
    window.fence(Assert::NONE)?;
    put(&window, &[1], 0, 4095)?;
    window.fence(Assert::NO_SUCCEED)?;
    window.free()?;
    // SAFETY: our own mapping, in no window.
    unsafe { libc::munmap(page.cast(), 3 * 4096) };
    Ok(())
}

fn malformed_hints(job: &Job) -> Outcome {
    let world = job.world();
    let class = ErrorClass::InfoValue;
    for (key, value) in [
        ("mpi_minimum_memory_alignment", "24"),
        ("mpi_minimum_memory_alignment", "0"),
        ("mpi_minimum_memory_alignment", "-4096"),
        ("mpi_minimum_memory_alignment", "4 KiB"),
        ("mpi_minimum_memory_alignment", ""),
        ("mpi_minimum_memory_alignment", "9223372036854775808"),
        ("no_locks", "yes"),
        ("no_locks", "TRUE"),
        ("transom_eager_lock_all", "1"),
    ] {
        let info = Info::new().with(key, value);
        let quoted = format!("{value:?}");
        let words: &[&str] = &[key, &quoted, "legal"];
        refused(Window::allocate(world, 8, 1, &info), class, words)?;
        if key.contains("alignment") {
            refused(job.alloc_mem(8, &info), class, words)?;
        }
    }
    let info = Info::new().with("transom_adopt", "never");
    let mut word = [0_u8; 8];
    // SAFETY: refused.
    let created = unsafe { Window::create(world, word.as_mut_ptr(), 8, 1, &info) };
    refused(
        created,
        class,
        &["transom_adopt", "\"never\"", "true, false"],
    )?;
    let window = Exposed::open(job, Memory::Allocate, 8, 1)?;
    works(job, &window)?;
    window.close()
}

fn unknown_hints_are_ignored(job: &Job) -> Outcome {
    let info = Info::new()
        .with("cb_nodes", "perhaps")
        .with("no_locks", "true")
        .with("no_locks", "false");
    let window = Exposed::over(job, job.world(), Memory::Allocate, 8, 1, &info)?;
    works(job, &window)?;
    window.close()
}

fn freeing_twice(job: &Job) -> Outcome {
    let mut local = 0_u64;
    let memory = job.alloc_mem(100, &Info::new())?;
    let inside = memory.map_addr(|address| address.saturating_add(8));
    for wrong in [inside, NonNull::from(&mut local).cast()] {
        let address = format!("{:#x}", wrong.addr());
        // SAFETY: refused.
        let freed = unsafe { job.free_mem(wrong) };
        refused(freed, ErrorClass::Base, &["free_mem", &address])?;
    }
    // SAFETY: in no window; and then refused.
    let (first, second) = unsafe { (job.free_mem(memory), job.free_mem(memory)) };
    first?;
    let address = format!("{:#x}", memory.addr());
    refused(second, ErrorClass::Base, &["free_mem", &address])?;
    let again = job.alloc_mem(0, &Info::new())?;
    // SAFETY: in no window.
    unsafe { job.free_mem(again)? };
    Ok(())
}

/// What an error of a collective says of the rank at fault: that rank gets its own error.
fn at_fault(me: u32, culprit: u32) -> String {
    if me == culprit {
        String::new()
    } else {
        format!("rank {culprit} failed")
    }
}

/// Every other rank gets an error that names the one that failed, with its words and class; the
/// next creation works.
fn one_rank_fails_in_create(job: &Job) -> Outcome {
    let world = job.world();
    let mut word = [0_u8; 8];
    for culprit in 0..world.size() {
        let bad = world.rank() == culprit;
        let named = at_fault(world.rank(), culprit);
        let unit = if bad { 0 } else { 4 };
        // SAFETY: refused.
        let created = unsafe { Window::create(world, word.as_mut_ptr(), 8, unit, &Info::new()) };
        refused(created, ErrorClass::Disp, &["create", &named, "unit 0"])?;
        let size = if bad { 1 << 62 } else { 100 };
        let allocated = Window::allocate(world, size, 4, &Info::new());
        refused(allocated, ErrorClass::NoMem, &["allocate", &named])?;
        let info = Info::new().with("no_locks", if bad { "maybe" } else { "true" });
        let allocated = Window::allocate(world, 8, 4, &info);
        refused(
            allocated,
            ErrorClass::InfoValue,
            &["allocate", &named, "\"maybe\""],
        )?;
        let window = Exposed::open(job, Memory::Heap, 8, 1)?;
        works(job, &window)?;
        window.close()?;
    }
    Ok(())
}

fn several_ranks_fail_in_allocate(job: &Job) -> Outcome {
    let world = job.world();
    let unit = [8, 0, u32::MAX][world.rank() as usize];
    let allocated = Window::allocate(world, 8, unit, &Info::new());
    // To those that are not at fault, the lowest is named.
    let words: &[&str] = match world.rank() {
        0 => &["rank 1 failed", "unit 0"],
        1 => &["unit 0"],
        _ => &["unit 4294967295"],
    };
    refused(allocated, ErrorClass::Disp, words)?;
    let window = Exposed::open(job, Memory::Allocate, 8, 1)?;
    works(job, &window)?;
    window.close()
}

fn a_job_is_joined_once(job: &Job) -> Outcome {
    let again: std::result::Result<Job, Error> = Job::init();
    refused(again, ErrorClass::Other, &["one", "already"])?;
    check_eq!(job.world().allgather(&[1_u8])?, [1]);
    Ok(())
}
