//! Fence.

use transom::raw::Assert;
use transom::{ErrorClass, Job, LockKind, Op};

use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::exposed::{ALIGNED, Exposed, MEMORIES, Memory};
use crate::ops::{accumulate, get, put};

pub(crate) const CASES: &[Case] = cases!["fence":
    put_is_visible @ [2, 3, 5],
    accumulates_are_complete @ [3],
    every_assertion @ [2, 3],
    alternates_with_locks @ [3],
    no_rank_runs_ahead @ [1, 2, 3, 5, 8],
    an_unused_epoch_is_none @ [2],
];

/// The first word of every rank goes round the ring, in many epochs.
fn put_is_visible(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 8, 1)?;
        let (me, ranks) = (window.rank(), window.ranks());
        let (ahead, behind) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
        window.fence(Assert::NONE)?;
        for round in 0..200_u64 {
            let value = (round << 8 | u64::from(me)).to_ne_bytes();
            put(&window, &value, ahead, 0)?;
            window.fence(Assert::NONE)?;
            check_eq!(
                window.read_u64(0),
                round << 8 | u64::from(behind),
                "{memory:?}"
            );
            window.fence(Assert::NONE)?;
        }
        window.close()?;
    }
    Ok(())
}

fn accumulates_are_complete(job: &Job) -> Outcome {
    for memory in ALIGNED {
        let window = Exposed::open(job, memory, 80, 8)?;
        let ranks = window.ranks();
        window.fence(Assert::NONE)?;
        let ones: Vec<u64> = (1..=10).collect();
        for _ in 0..50 {
            for target in 0..ranks {
                accumulate(&window, &ones, target, 0, Op::Sum)?;
            }
        }
        window.fence(Assert::NONE)?;
        for at in 0..10 {
            let wanted = 50 * u64::from(ranks) * (at as u64 + 1);
            check_eq!(window.read_u64(at * 8), wanted, "{memory:?}");
        }
        window.close()?;
    }
    Ok(())
}

fn every_assertion(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 16, 8)?;
    let (me, ranks) = (window.rank(), window.ranks());
    let (ahead, behind) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
    for round in 0..100_u64 {
        let value = (round * 10 + u64::from(me)).to_ne_bytes();
        window.fence(Assert::NO_PRECEDE)?;
        put(&window, &value, ahead, 0)?;
        window.fence(Assert::NO_STORE | Assert::NO_PUT)?;
        check_eq!(window.read_u64(0), round * 10 + u64::from(behind));
        let mut got = [0; 8];
        get(&window, &mut got, ahead, 0)?;
        window.fence(Assert::NO_SUCCEED | Assert::NO_STORE)?;
        check_eq!(got, value);
        let after = put(&window, &value, ahead, 0).unwrap_err();
        check_eq!(after.class(), ErrorClass::RmaSync, "{after}");
        window.fence(Assert::NO_PRECEDE | Assert::NO_SUCCEED)?;
        let after = put(&window, &value, ahead, 0).unwrap_err();
        check_eq!(after.class(), ErrorClass::RmaSync, "{after}");
    }
    window.close()
}

/// A fence whose epoch is not used gives way to a lock, and the other way round.
fn alternates_with_locks(job: &Job) -> Outcome {
    for memory in [Memory::Allocate, Memory::Heap] {
        let window = Exposed::open(job, memory, 16, 8)?;
        let (me, ranks) = (window.rank(), window.ranks());
        let ahead = (me + 1) % ranks;
        for round in 1..50_u64 {
            window.fence(Assert::NONE)?;
            put(&window, &round.to_ne_bytes(), ahead, 0)?;
            window.fence(Assert::NONE)?;
            window.lock(LockKind::Exclusive, ahead, Assert::NONE)?;
            put(&window, &(round + 1000).to_ne_bytes(), ahead, 1)?;
            window.unlock(ahead)?;
            window.fence(Assert::NONE)?;
            check_eq!(
                (window.read_u64(0), window.read_u64(8)),
                (round, round + 1000)
            );
            window.lock_all(Assert::NONE)?;
            let mut got = [0; 8];
            get(&window, &mut got, ahead, 1)?;
            window.unlock_all()?;
            check_eq!(u64::from_ne_bytes(got), round + 1000);
        }
        window.close()?;
    }
    Ok(())
}

/// Each rank counts rounds in everybody's memory: nobody may see a count from the future.
fn no_rank_runs_ahead(job: &Job) -> Outcome {
    let ranks = job.world().size();
    let window = Exposed::open(job, Memory::Allocate, 8 * ranks as usize, 8)?;
    let me = window.rank();
    window.fence(Assert::NONE)?;
    for round in 1..=300_u64 {
        for target in 0..ranks {
            put(&window, &round.to_ne_bytes(), target, me.into())?;
        }
        window.fence(Assert::NONE)?;
        for origin in 0..ranks as usize {
            check_eq!(window.read_u64(origin * 8), round, "from rank {origin}");
        }
        window.fence(Assert::NONE)?;
    }
    window.close()
}

fn an_unused_epoch_is_none(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 8, 8)?;
    window.fence(Assert::NONE)?;
    // Freeing after a fence without NO_SUCCEED is what most programs do.
    window.fence(Assert::NONE)?;
    window.lock_all(Assert::NONE)?;
    let nested = window.fence(Assert::NONE).unwrap_err();
    check!(nested.to_string().contains("lock_all"), "{nested}");
    window.unlock_all()?;
    window.fence(Assert::NONE)?;
    window.close()
}
