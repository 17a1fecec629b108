//! The flush family, sync and requests.

use transom::raw::Assert;
use transom::{ErrorClass, Job, LockKind};

use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::exposed::{Exposed, MEMORIES, Memory, patterned};
use crate::ops::{get, put};

pub(crate) const CASES: &[Case] = cases!["flush":
    a_flushed_put_is_there @ [3],
    flush_all_covers_every_target @ [4],
    a_message_through_memory @ [2],
    requests_complete @ [2, 3],
    requests_of_no_bytes @ [2],
    requests_need_a_passive_epoch @ [2],
];

/// Rank 0 puts into rank 1 and flushes; rank 2 then gets it from there.
fn a_flushed_put_is_there(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 5000, 1)?;
        window.lock_all(Assert::NONE)?;
        for round in 0..30 {
            let bytes = patterned(0, 5000, round);
            if window.rank() == 0 {
                put(&window, &bytes, 1, 0)?;
                match round % 2 {
                    0 => window.flush(1)?,
                    _ => window.flush_all()?,
                }
            }
            job.world().barrier()?;
            if window.rank() == 2 {
                let mut back = vec![0; 5000];
                get(&window, &mut back, 1, 0)?;
                match round % 2 {
                    0 => window.flush_local(1)?,
                    _ => window.flush_local_all()?,
                }
                check!(back == bytes, "{memory:?}, round {round}");
            }
            job.world().barrier()?;
            if window.rank() == 1 {
                window.sync()?;
                check!(
                    window.bytes() == bytes,
                    "{memory:?}, round {round}, at the target"
                );
            }
            job.world().barrier()?;
        }
        window.unlock_all()?;
        window.close()?;
    }
    Ok(())
}

fn flush_all_covers_every_target(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Heap, 4 * 100, 100)?;
    let me = window.rank();
    window.lock_all(Assert::NONE)?;
    let bytes = patterned(me, 100, 0);
    for target in 0..4 {
        put(&window, &bytes, target, me.into())?;
    }
    window.flush_all()?;
    job.world().barrier()?;
    window.sync()?;
    let wanted: Vec<u8> = (0..4)
        .flat_map(|origin| patterned(origin, 100, 0))
        .collect();
    check!(window.bytes() == wanted);
    window.unlock_all()?;
    window.close()
}

/// Data, a flush, then a flag: who polls the flag finds the data.
fn a_message_through_memory(job: &Job) -> Outcome {
    for memory in [Memory::Allocate, Memory::Heap] {
        let window = Exposed::open(job, memory, 8 + 1024, 1)?;
        let (me, other) = (window.rank(), 1 - window.rank());
        window.lock_all(Assert::NONE)?;
        for round in 1..=100_u64 {
            let data = patterned(me, 1024, round as usize);
            if round % 2 == u64::from(me) {
                put(&window, &data, other, 8)?;
                window.flush(other)?;
                put(&window, &round.to_ne_bytes(), other, 0)?;
                window.flush(other)?;
            } else {
                let mut flag = [0; 8];
                while u64::from_ne_bytes(flag) != round {
                    get(&window, &mut flag, me, 0)?;
                    window.flush(me)?;
                    std::thread::yield_now();
                }
                let mut seen = vec![0; 1024];
                get(&window, &mut seen, me, 8)?;
                window.flush(me)?;
                check!(
                    seen == patterned(other, 1024, round as usize),
                    "round {round}"
                );
            }
        }
        window.unlock_all()?;
        window.close()?;
    }
    Ok(())
}

fn requests_complete(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 300_000, 1)?;
        let target = (window.rank() + 1) % window.ranks();
        window.lock(LockKind::Shared, target, Assert::NONE)?;
        for len in [1, 8, 5000, 300_000] {
            let bytes = patterned(window.rank(), len, len);
            let mut origin = bytes.clone();
            let mut back = vec![0; len];
            // SAFETY: both buffers outlive their requests, which are waited for.
            unsafe {
                window.rput(origin.as_ptr(), len, target, 0)?.wait()?;
                // The buffer is this rank's again, and the data need not have arrived.
                origin.fill(0);
                window.flush(target)?;
                window.rget(back.as_mut_ptr(), len, target, 0)?.wait()?;
                check!(back == bytes, "{memory:?}, {len} bytes, waited for");
                back.fill(0);
                let mut request = window.rget(back.as_mut_ptr(), len, target, 0)?;
                while !request.test()? {
                    std::thread::yield_now();
                }
                check!(request.test()?, "complete is complete");
                request.wait()?;
            }
            check!(back == bytes, "{memory:?}, {len} bytes");
        }
        // Several under way at once, waited for in another order.
        let parts = patterned(1, 4000, 1);
        let requests: Vec<_> = (0..40)
            // SAFETY: `parts` outlives the requests.
            .map(|i| unsafe {
                window.rput(parts.as_ptr().add(i * 100), 100, target, i as u64 * 100)
            })
            .collect::<Result<_, _>>()?;
        for request in requests.into_iter().rev() {
            request.wait()?;
        }
        window.unlock(target)?;
        job.world().barrier()?;
        check!(window.read(0, 4000) == parts, "{memory:?}");
        window.close()?;
    }
    Ok(())
}

fn requests_of_no_bytes(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 8, 8)?;
    window.lock_all(Assert::NONE)?;
    let (none, nowhere) = (std::ptr::null(), std::ptr::null_mut());
    // SAFETY: no bytes.
    unsafe {
        window.rput(none, 0, 0, 1)?.wait()?;
        window.rget(nowhere, 0, 1, 0)?.wait()?;
    }
    window.unlock_all()?;
    window.close()
}

fn requests_need_a_passive_epoch(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 8, 8)?;
    let mut word = [0; 8];
    let mut refused = || -> Outcome {
        // SAFETY: refused, or complete at once.
        let errors = unsafe {
            [
                window.rput(word.as_ptr(), 8, 0, 0).err(),
                window.rget(word.as_mut_ptr(), 8, 0, 0).err(),
            ]
        };
        for (error, operation) in errors.into_iter().zip(["put", "get"]) {
            let Some(error) = error else {
                check!(false, "r{operation} went ahead");
                continue;
            };
            check_eq!(error.class(), ErrorClass::RmaSync, "{error}");
            check!(error.operation().contains(operation), "{error}");
        }
        Ok(())
    };
    refused()?;
    window.fence(Assert::NONE)?;
    refused()?;
    window.fence(Assert::NO_SUCCEED)?;
    window.close()
}
