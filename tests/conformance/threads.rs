//! Several threads of a rank on one window.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use transom::raw::{Assert, AtomicDomain, Window};
use transom::{Info, Job, LockKind, Op};

use crate::case::{Case, Failure, Outcome, cases, check, check_eq};
use crate::dynamic::{addresses, attach, memory, read};
use crate::exposed::{Exposed, Memory, patterned};
use crate::ops::{accumulate, add_one, fetch_and_op, get, put};

pub(crate) const CASES: &[Case] = cases!["threads":
    operations_under_lock_all @ [2, 3],
    many_elements_at_once_beside_one @ [1, 2, 3],
    doubles_in_mapped_and_other_memory @ [2, 3],
    operations_in_a_fence_epoch @ [2],
    each_thread_locks_a_target_of_its_own @ [4],
    one_thread_gets_a_lock_that_two_want @ [2],
    a_window_for_each_thread @ [2],
];

const THREADS: usize = 4;

/// Runs `body` in several threads; the first failure counts.
fn together(body: impl Fn(usize) -> Outcome + Sync) -> Outcome {
    in_threads(THREADS, body)
}

fn in_threads(count: usize, body: impl Fn(usize) -> Outcome + Sync) -> Outcome {
    thread::scope(|scope| {
        let body = &body;
        let threads: Vec<_> = (0..count)
            .map(|number| scope.spawn(move || body(number)))
            .collect();
        threads
            .into_iter()
            .map(|thread| match thread.join() {
                Ok(outcome) => outcome,
                Err(_) => Err(Failure::new("a thread panicked")),
            })
            .fold(Ok(()), Outcome::and)
    })
}

fn operations_under_lock_all(job: &Job) -> Outcome {
    for memory in [Memory::Allocate, Memory::Heap] {
        let exposed = Exposed::open(job, memory, 64 * 1024, 1)?;
        let window: &Window = &exposed;
        let (me, ranks) = (window.rank() as usize, window.ranks());
        window.lock_all(Assert::NONE)?;
        together(|number| {
            let at = 1024 + (me * THREADS + number) * 2000;
            for round in 0..60 {
                for target in 0..ranks {
                    let bytes = patterned(me as u32, 1999, round + number);
                    put(window, &bytes, target, at as u64)?;
                    window.flush(target)?;
                    let mut back = vec![0; 1999];
                    get(window, &mut back, target, at as u64)?;
                    window.flush_all()?;
                    check!(back == bytes, "{memory:?}, thread {number}");
                    fetch_and_op(window, 1_u64, target, 0, Op::Sum)?;
                    accumulate(window, &[0.5_f64], target, 64, Op::Sum)?;
                    accumulate(window, &[1_u64], target, 129, Op::Sum)?;
                }
            }
            Ok(())
        })?;
        window.unlock_all()?;
        job.world().barrier()?;
        let count = 60 * THREADS as u64 * u64::from(ranks);
        check_eq!(exposed.read_u64(0), count, "{memory:?}");
        check_eq!(
            f64::from_bits(exposed.read_u64(64)),
            count as f64 / 2.0,
            "{memory:?}"
        );
        check_eq!(exposed.read_u64(129), count, "{memory:?}, misaligned");
        exposed.close()?;
    }
    Ok(())
}

/// Some threads add to doubles that others of their rank may reach by a mapping, and some to ones that they may not.
fn doubles_in_mapped_and_other_memory(job: &Job) -> Outcome {
    const ROUNDS: usize = 200;
    let window = Window::create_dynamic(job.world(), &Info::new())?;
    let bases = [job.alloc_mem(64, &Info::new())?.as_ptr(), memory(64)];
    let mut places = Vec::new();
    for base in bases {
        attach(&window, base, 64)?;
        places.push(addresses(job, base)?);
    }
    window.lock_all(Assert::NONE)?;
    together(|number| {
        for round in 0..ROUNDS {
            for target in 0..window.ranks() {
                let at = places[number % 2][target as usize];
                accumulate(&window, &[0.5_f64; 2], target, at, Op::Sum)?;
                if (round + number) % 7 == 0 {
                    window.flush(target)?;
                }
            }
        }
        Ok(())
    })?;
    window.unlock_all()?;
    job.world().barrier()?;
    let count = ROUNDS * THREADS / 2 * window.ranks() as usize;
    let sum = (count as f64 / 2.0).to_ne_bytes();
    for base in bases {
        check_eq!(read(base, 16), [sum, sum].concat());
    }
    window.free()?;
    Ok(())
}

/// For a while, every thread adds to all elements at once and to one after the other, by each kind of single atomic, in
/// turns. Of seventy threads, some are too many to have a mark.
fn many_elements_at_once_beside_one(job: &Job) -> Outcome {
    const ELEMENTS: usize = 512;
    const WHILE: Duration = Duration::from_millis(100);
    for threads in [4, 70] {
        let exposed = Exposed::open(job, Memory::Allocate, ELEMENTS * 8, 8)?;
        let window: &Window = &exposed;
        // By a device each element goes for itself.
        let many = match window.atomic_domain() {
            AtomicDomain::Cpu => ELEMENTS,
            _ => 32,
        };
        let ones = vec![1_u64; many];
        let added = AtomicU64::new(0);
        window.lock_all(Assert::NONE)?;
        job.world().barrier()?;
        let begun = Instant::now();
        in_threads(threads, |number| {
            let mut own = 0;
            let goes_on = |round: &usize| *round < 3 || begun.elapsed() < WHILE;
            for round in (0..).take_while(goes_on) {
                let target = (round / 64) as u32 % window.ranks();
                let (at_once, singles) = match (round + number) % 3 {
                    0 => (10, 2),
                    1 => (1, 30),
                    _ => (0, 90),
                };
                for _ in 0..at_once {
                    accumulate(window, &ones, target, 0, Op::Sum)?;
                    own += many;
                }
                for single in 0..singles {
                    let at = ((round + number) * 7 + single) as u64 % many as u64;
                    add_one(window, single as u64, target, at, 1_u64, |seen| seen + 1)?;
                    own += 1;
                }
                window.flush(target)?;
            }
            added.fetch_add(own as u64, Ordering::Relaxed);
            Ok(())
        })?;
        window.unlock_all()?;
        job.world().barrier()?;
        let held: u64 = (0..many).map(|at| exposed.read_u64(at * 8)).sum();
        let sums = (job.world()).allreduce(&[added.into_inner(), held], Op::Sum)?;
        check_eq!(sums[1], sums[0], "{threads} threads");
        exposed.close()?;
    }
    Ok(())
}

fn operations_in_a_fence_epoch(job: &Job) -> Outcome {
    for memory in [Memory::Allocate, Memory::Heap] {
        let exposed = Exposed::open(job, memory, THREADS * 100, 1)?;
        let window: &Window = &exposed;
        let other = 1 - window.rank();
        window.fence(Assert::NONE)?;
        for round in 0..100 {
            together(|number| {
                let bytes = patterned(other, 100, round * 7 + number);
                // The epoch is entered by all threads at once.
                put(window, &bytes, other, number as u64 * 100)?;
                Ok(())
            })?;
            window.fence(Assert::NONE)?;
            let wanted: Vec<u8> = (0..THREADS)
                .flat_map(|number| patterned(window.rank(), 100, round * 7 + number))
                .collect();
            check!(exposed.bytes() == wanted, "{memory:?}, round {round}");
            window.fence(Assert::NONE)?;
        }
        exposed.close()?;
    }
    Ok(())
}

fn each_thread_locks_a_target_of_its_own(job: &Job) -> Outcome {
    let exposed = Exposed::open(job, Memory::Allocate, 8, 1)?;
    let window: &Window = &exposed;
    together(|number| {
        let target = number as u32;
        for _ in 0..60 {
            window.lock(LockKind::Exclusive, target, Assert::NONE)?;
            let mut bytes = [0; 8];
            get(window, &mut bytes, target, 0)?;
            window.flush(target)?;
            let next = (u64::from_ne_bytes(bytes) + 1).to_ne_bytes();
            put(window, &next, target, 0)?;
            window.unlock(target)?;
        }
        Ok(())
    })?;
    job.world().barrier()?;
    check_eq!(exposed.read_u64(0), 60 * 4);
    // No count of locks has gone wrong: a fence is allowed again.
    window.fence(Assert::NONE)?;
    exposed.close()
}

/// Of threads that lock one target, one gets it and the others an error; then it is free again.
fn one_thread_gets_a_lock_that_two_want(job: &Job) -> Outcome {
    let exposed = Exposed::open(job, Memory::Allocate, 8, 8)?;
    let window: &Window = &exposed;
    let other = 1 - window.rank();
    together(|_| {
        for _ in 0..2000 {
            match window.lock(LockKind::Exclusive, other, Assert::NONE) {
                Ok(()) => {
                    fetch_and_op(window, 1_u64, other, 0, Op::Sum)?;
                    window.unlock(other)?;
                }
                Err(error) => check!(error.to_string().contains("locked already"), "{error}"),
            }
        }
        Ok(())
    })?;
    window.lock(LockKind::Exclusive, other, Assert::NONE)?;
    let count = fetch_and_op(window, 0_u64, other, 0, Op::NoOp)?;
    check!((1..=2000 * THREADS as u64).contains(&count), "{count}");
    window.unlock(other)?;
    window.fence(Assert::NONE)?;
    exposed.close()
}

/// Threads create, use and free windows on communicators of their own, all at once.
fn a_window_for_each_thread(job: &Job) -> Outcome {
    let comms: Vec<_> = (0..THREADS)
        .map(|_| job.world().dup())
        .collect::<Result<_, _>>()?;
    together(|number| {
        for round in 0..30 {
            let memory = [Memory::Allocate, Memory::Heap][(round + number) % 2];
            let info = transom::Info::new();
            let window = Exposed::over(job, &comms[number], memory, 777, 1, &info)?;
            let other = 1 - window.rank();
            let bytes = patterned(window.rank(), 777, number + round);
            window.fence(Assert::NONE)?;
            put(&window, &bytes, other, 0)?;
            window.fence(Assert::NO_SUCCEED)?;
            check!(window.bytes() == patterned(other, 777, number + round));
            window.close()?;
        }
        Ok(())
    })
}
