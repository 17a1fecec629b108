//! Put with notification.

use std::thread;

use transom::raw::{Assert, AtomicDomain, PROC_NULL, Progress, Window};
use transom::{ErrorClass, Info, Job, LockKind, Result};
use transom_testing::devices::{has_global_atomics, has_processor_atomics, is_soft};
use transom_testing::environment;

use crate::case::{Case, Failure, Outcome, cases, check, check_eq};
use crate::exposed::{Exposed, MEMORIES, Memory, patterned};
use crate::ops::put;
use crate::pscw::of;
use crate::refused::{refused, works};

pub(crate) const CASES: &[Case] = cases!["notify":
    data_is_there_when_the_counter_says_so @ [1, 2, 3],
    long_data_is_there @ [2],
    earlier_puts_are_there_too @ [2],
    requests_give_their_buffer_back @ [1, 2],
    every_kind_of_epoch @ [2],
    several_origins_raise_one_counter @ [3, 5],
    counters_are_told_apart @ [2],
    test_and_wait_agree @ [2],
    threads_notify_and_wait @ [2, 4],
    ranks_have_as_many_as_they_asked_for @ [3],
    windows_do_not_share_counters @ [2],
    counters_that_are_none @ [2],
    the_target_need_not_call_in @ [2],
];

/// From a copy that is kept for ever.
fn put_notify(window: &Window, bytes: &[u8], target: u32, disp: u64, counter: u32) -> Result<()> {
    let bytes = Vec::leak(bytes.to_vec());
    // SAFETY: the copy is kept.
    unsafe { window.put_notify(bytes.as_ptr(), bytes.len(), target, disp, counter) }
}

/// Round the ring; the target is in no epoch of its own, and answers with a put to its origin.
fn data_is_there_when_the_counter_says_so(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 16, 1)?;
        let (me, ranks) = (window.rank(), window.ranks());
        let (ahead, behind) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
        window.lock_all(Assert::NONE)?;
        for round in 1..=200_u64 {
            put_notify(&window, &round.to_ne_bytes(), ahead, 0, 0)?;
            window.wait_notify(0, round)?;
            check_eq!(window.read_u64(0), round, "{memory:?}");
            put_notify(&window, &round.to_ne_bytes(), behind, 8, 1)?;
            window.wait_notify(1, round)?;
            check_eq!(window.read_u64(8), round, "{memory:?}");
        }
        window.unlock_all()?;
        window.close()?;
    }
    Ok(())
}

fn long_data_is_there(job: &Job) -> Outcome {
    const LEN: usize = 300_000;
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, LEN, 1)?;
        for round in 0..5 {
            if window.rank() == 0 {
                window.wait_notify(3, round as u64 + 1)?;
                check!(window.bytes() == patterned(1, LEN, round), "{memory:?}");
            } else {
                window.lock(LockKind::Shared, 0, Assert::NONE)?;
                put_notify(&window, &patterned(1, LEN, round), 0, 0, 3)?;
                window.unlock(0)?;
            }
            job.world().barrier()?;
        }
        window.close()?;
    }
    Ok(())
}

fn earlier_puts_are_there_too(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 64 * 64, 1)?;
        for round in 1..=20 {
            if window.rank() == 0 {
                window.wait_notify(0, round)?;
                check!(
                    window.bytes() == patterned(1, 4096, round as usize),
                    "{memory:?}"
                );
            } else {
                let bytes = patterned(1, 4096, round as usize);
                window.lock_all(Assert::NONE)?;
                for (part, bytes) in (0..).zip(bytes.chunks(64)) {
                    put(&window, bytes, 0, 64 * part)?;
                }
                put_notify(&window, &[], 0, 0, 0)?;
                window.unlock_all()?;
            }
            job.world().barrier()?;
        }
        window.close()?;
    }
    Ok(())
}

/// The buffer is spoilt as soon as the request is complete.
fn requests_give_their_buffer_back(job: &Job) -> Outcome {
    for memory in MEMORIES {
        for len in [8, 100_000] {
            let window = Exposed::open(job, memory, len, 1)?;
            let ahead = (window.rank() + 1) % window.ranks();
            window.lock_all(Assert::NONE)?;
            for round in 1..=20_usize {
                let mut bytes = patterned(1, len, round);
                // SAFETY: kept until the request is complete.
                unsafe { window.rput_notify(bytes.as_ptr(), len, ahead, 0, 0)? }.wait()?;
                bytes.fill(0xff);
                std::hint::black_box(&bytes);
                window.wait_notify(0, round as u64)?;
                check!(window.bytes() == patterned(1, len, round), "{memory:?}");
                job.world().barrier()?;
            }
            window.unlock_all()?;
            window.close()?;
        }
    }
    Ok(())
}

fn every_kind_of_epoch(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Heap, 32, 8)?;
    let other = 1 - window.rank();
    let group = of(&window, &[other])?;
    let mut count = 0;
    let mut step = |value: u64| -> Outcome {
        let place = value % 10;
        put_notify(&window, &value.to_ne_bytes(), other, place, 7)?;
        count += 1;
        window.wait_notify(7, count)?;
        check_eq!(window.read_u64(8 * place as usize), value);
        Ok(())
    };
    for round in 1..=20 {
        window.fence(Assert::NONE)?;
        step(round * 10)?;
        window.fence(Assert::NO_SUCCEED)?;
        window.post(&group, Assert::NONE)?;
        window.start(&group, Assert::NONE)?;
        step(round * 10 + 1)?;
        window.complete()?;
        window.wait()?;
        window.lock(LockKind::Shared, other, Assert::NONE)?;
        step(round * 10 + 2)?;
        window.unlock(other)?;
        window.lock_all(Assert::NONE)?;
        step(round * 10 + 3)?;
        window.unlock_all()?;
        job.world().barrier()?;
    }
    window.close()
}

fn several_origins_raise_one_counter(job: &Job) -> Outcome {
    let ranks = job.world().size();
    let window = Exposed::open(job, Memory::Allocate, 8 * ranks as usize, 8)?;
    let me = window.rank();
    window.lock_all(Assert::NONE)?;
    for round in 1..=50_u64 {
        for target in 0..ranks {
            put_notify(&window, &round.to_ne_bytes(), target, me.into(), 2)?;
        }
        window.wait_notify(2, round * u64::from(ranks))?;
        for origin in 0..ranks as usize {
            check!(window.read_u64(8 * origin) >= round, "from rank {origin}");
        }
        // Else a fast rank's next notification would stand for a slow one's last.
        job.world().barrier()?;
    }
    window.unlock_all()?;
    check_eq!(window.notifications(2)?, 50 * u64::from(ranks));
    window.close()
}

fn counters_are_told_apart(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 8, 1)?;
    let other = 1 - window.rank();
    window.fence(Assert::NONE)?;
    for counter in 0..8 {
        for _ in 0..=counter {
            put_notify(&window, &[counter as u8], other, counter.into(), counter)?;
        }
    }
    window.fence(Assert::NO_SUCCEED)?;
    for counter in 0..8 {
        check_eq!(window.notifications(counter)?, u64::from(counter) + 1);
    }
    check_eq!(window.bytes(), (0..8).collect::<Vec<u8>>());
    window.close()
}

fn test_and_wait_agree(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 8, 8)?;
    for round in 1..=20_u64 {
        if window.rank() == 0 {
            check!(!window.test_notify(0, round)?, "the origin waits");
            job.world().barrier()?;
            while !window.test_notify(0, round)? {
                thread::yield_now();
            }
            window.wait_notify(0, round)?;
            window.wait_notify(0, 0)?;
            check_eq!(window.notifications(0)?, round);
            check_eq!(window.read_u64(0), round);
        } else {
            job.world().barrier()?;
            window.lock(LockKind::Exclusive, 0, Assert::NONE)?;
            put_notify(&window, &round.to_ne_bytes(), 0, 0, 0)?;
            window.unlock(0)?;
        }
    }
    window.close()
}

/// Pairs of threads of neighbouring ranks play ping-pong, each on a counter of its own.
fn threads_notify_and_wait(job: &Job) -> Outcome {
    let exposed = Exposed::open(job, Memory::Heap, 4 * 8, 8)?;
    let window: &Window = &exposed;
    let (me, other) = (window.rank(), window.rank() ^ 1);
    window.lock_all(Assert::NONE)?;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..4_u32)
            .map(|number| {
                scope.spawn(move || -> Result<()> {
                    for round in 1..=50_u64 {
                        let bytes = round.to_ne_bytes();
                        if me < other {
                            put_notify(window, &bytes, other, number.into(), number)?;
                            window.wait_notify(number, round)?;
                        } else {
                            window.wait_notify(number, round)?;
                            put_notify(window, &bytes, other, number.into(), number)?;
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| match thread.join() {
                Ok(result) => result.map_err(Failure::from),
                Err(_) => Err(Failure::new("a thread panicked")),
            })
    })?;
    window.unlock_all()?;
    for number in 0..4 {
        check_eq!(exposed.read_u64(8 * number), 50);
    }
    exposed.close()
}

fn ranks_have_as_many_as_they_asked_for(job: &Job) -> Outcome {
    let counters = |rank: u32| 100 * rank;
    let me = job.world().rank();
    let info = Info::new().with("transom_notification_counters", counters(me).to_string());
    let window = Exposed::over(job, job.world(), Memory::Allocate, 8, 8, &info)?;
    window.fence(Assert::NONE)?;
    for target in 0..window.ranks() {
        if let Some(last) = counters(target).checked_sub(1) {
            put_notify(&window, &[], target, 0, last)?;
        }
        let beyond = put_notify(&window, &[1], target, 0, counters(target));
        let (rank, counter) = (format!("rank {target}"), counters(target).to_string());
        refused(beyond, ErrorClass::Arg, &["put_notify", &rank, &counter])?;
    }
    window.fence(Assert::NO_SUCCEED)?;
    if let Some(last) = counters(me).checked_sub(1) {
        check_eq!(window.notifications(last)?, 3);
    }
    check_eq!(window.read_u64(0), 0, "a put that was refused");
    window.close()
}

fn windows_do_not_share_counters(job: &Job) -> Outcome {
    for _ in 0..10 {
        let one = Exposed::open(job, Memory::Allocate, 8, 8)?;
        let two = Exposed::open(job, Memory::Allocate, 8, 8)?;
        let other = 1 - one.rank();
        for window in [&one, &two] {
            check_eq!(window.notifications(0)?, 0, "a counter that is used again");
            window.fence(Assert::NONE)?;
        }
        put_notify(&one, &[1; 8], other, 0, 0)?;
        one.wait_notify(0, 1)?;
        check_eq!(two.notifications(0)?, 0);
        for window in [&one, &two] {
            window.fence(Assert::NO_SUCCEED)?;
        }
        one.close()?;
        two.close()?;
    }
    Ok(())
}

fn counters_that_are_none(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    let (me, other) = (window.rank(), 1 - window.rank());
    let words = |operation: &'static str| [operation, "no notification counter 8", "it has 8"];
    let class = ErrorClass::Arg;
    refused(window.notifications(8), class, &words("notifications"))?;
    refused(window.wait_notify(8, 0), class, &words("wait_notify"))?;
    refused(window.test_notify(8, 0), class, &words("test_notify"))?;
    let closed = put_notify(&window, &[1], other, 0, 0);
    refused(closed, ErrorClass::RmaSync, &["put_notify", "epoch"])?;
    window.fence(Assert::NONE)?;
    refused(
        put_notify(&window, &[1], other, 0, 8),
        class,
        &words("put_notify"),
    )?;
    let range = ErrorClass::RmaRange;
    refused(
        put_notify(&window, &[1], other, 64, 0),
        range,
        &["put_notify", "64"],
    )?;
    let rank = ErrorClass::Rank;
    refused(
        put_notify(&window, &[1], 2, 0, 0),
        rank,
        &["put_notify", "rank 2"],
    )?;
    // SAFETY: refused.
    let null = unsafe { window.put_notify(std::ptr::null(), 4, other, 0, 0) };
    refused(null, ErrorClass::Buffer, &["put_notify"])?;
    // SAFETY: refused.
    let requested = unsafe { window.rput_notify([1].as_ptr(), 1, other, 0, 0) };
    let words = ["rput_notify", "lock"];
    refused(requested.map(drop), ErrorClass::RmaSync, &words)?;
    window.fence(Assert::NO_SUCCEED)?;
    window.lock_all(Assert::NONE)?;
    for (target, disp, counter, class) in
        [(other, 0, 8, class), (other, 64, 0, range), (2, 0, 0, rank)]
    {
        // SAFETY: refused.
        let put = unsafe { window.rput_notify([1].as_ptr(), 1, target, disp, counter) };
        refused(put.map(drop), class, &["rput_notify"])?;
    }
    // SAFETY: to nobody.
    unsafe { window.rput_notify([1].as_ptr(), 1, PROC_NULL, 0, 8)? }.wait()?;
    window.unlock_all()?;
    check_eq!(window.notifications(0)?, 0, "on rank {me}");
    works(job, &window)?;
    window.close()
}

/// What the window promises, and that it is so: the target sleeps in its program meanwhile.
fn the_target_need_not_call_in(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 16, 1)?;
        let device = environment::own_device();
        if is_soft(&device) {
            let mapped = !device.contains("map=off") && !device.contains("adversarial");
            let by_origins = memory == Memory::Allocate || !device.contains("cma=off");
            let wanted = match mapped && by_origins {
                true => Progress::Always,
                false => Progress::TargetThread,
            };
            check_eq!(window.progress(), wanted, "{memory:?}");
            let shares_host = matches!(memory, Memory::Allocate | Memory::AllocMem)
                && environment::all_are_neighbours();
            let domain = match has_processor_atomics(&device) || shares_host {
                true => AtomicDomain::Cpu,
                false if has_global_atomics(&device) => AtomicDomain::Global,
                false => AtomicDomain::Device,
            };
            check_eq!(window.atomic_domain(), domain, "{memory:?}");
        }
        if window.rank() == 0 {
            // Nothing of the library is called until the other says by other means that it is done.
            // SAFETY: a byte of the window's memory; that it changes is what is awaited.
            while unsafe { window.base().add(8).read_volatile() } == 0 {
                std::hint::spin_loop();
            }
            check_eq!(window.notifications(0)?, 1, "{memory:?}");
            check_eq!(window.read_u64(0), 5, "{memory:?}");
        } else {
            window.lock(LockKind::Exclusive, 0, Assert::NONE)?;
            put_notify(&window, &5_u64.to_ne_bytes(), 0, 0, 0)?;
            window.flush(0)?;
            put(&window, &[1], 0, 8)?;
            window.unlock(0)?;
        }
        window.close()?;
    }
    Ok(())
}
