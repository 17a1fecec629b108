//! Jobs that begin over an allgather and end by a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use transom::lower::{Allgather, AllgatherError};
use transom::{ErrorClass, ErrorKind, Job, Misuse, PeerError, ThreadLevel};

use crate::cases;
use crate::files::{Fault, read, write};
use crate::started::{Case, Outcome, Rank, check, error_of};

pub(crate) const CASES: &[Case] = cases!["job":
    3: begins_and_ends,
    1: a_process_joins_once,
    2: a_start_that_fails_is_an_error,
    3: all_hear_of_one_that_cannot_start,
    2: aborts_reach_the_host,
    2: an_end_tells_of_an_abort,
];

fn begins_and_ends(rank: &Rank) -> Outcome {
    let job = rank.job()?;
    let world = job.world();
    check(
        (world.rank(), world.size()) == (rank.rank, rank.size),
        "who it is",
    )?;
    check(world.allgather(&[rank.rank])? == [0, 1, 2], "an allgather")?;
    let alone = job.alone()?;
    check(alone.size() == 1, "alone")?;
    drop(alone);
    world.barrier()?;
    Ok(job.finish()?)
}

fn a_process_joins_once(rank: &Rank) -> Outcome {
    struct Beyond;
    // SAFETY: no call returns anything.
    unsafe impl Allgather for Beyond {
        fn rank(&self) -> u32 {
            1
        }
        fn size(&self) -> u32 {
            1
        }
        fn allgather(&self, _: &[u8]) -> Result<Vec<Vec<u8>>, AllgatherError> {
            Err("nobody is asked".into())
        }
    }
    let error = error_of(Job::over(&Beyond, ThreadLevel::Serialized), "rank 1 of 1")?;
    check(error.class() == ErrorClass::Rank, &error)?;
    // Nobody has heard of it: it may try again.
    let job = rank.job()?;
    for again in [rank.job(), Job::init()] {
        let error = error_of(again, "joining twice")?;
        let taken = matches!(error.kind(), ErrorKind::Misuse(Misuse::JobTaken));
        check(taken, &error)?;
    }
    job.finish()?;
    error_of(rank.job(), "joining after the end")?;
    Ok(())
}

/// Those whose allgather works meet nobody who is not there.
fn a_start_that_fails_is_an_error(rank: &Rank) -> Outcome {
    if rank.rank == 0 {
        // In the last call, after which the other is through.
        let files = rank.files("start").with(2, Fault::Fails);
        let error = error_of(
            Job::over(&files, ThreadLevel::Serialized),
            "a start that failed",
        )?;
        write(&rank.folder.join("failed"), b"")?;
        check(error.class() == ErrorClass::Other, &error)?;
        return check(error.to_string().contains("the disk is full"), &error);
    }
    let job = rank.job()?;
    read(&rank.folder.join("failed"))?;
    let error = error_of(job.world().barrier(), "a barrier with one that never came")?;
    check(error.class() == ErrorClass::ProcAborted, &error)?;
    error_of(job.finish(), "the end of a job that was aborted")?;
    Ok(())
}

fn all_hear_of_one_that_cannot_start(rank: &Rank) -> Outcome {
    if rank.rank == 1 {
        // SAFETY: this process has one thread.
        unsafe { std::env::set_var("TRANSOM_DEVICE", "nonsense") };
    }
    let error = error_of(rank.job(), "a start without a device")?;
    check(error.to_string().contains("nonsense"), &error)?;
    let told = matches!(
        error.kind(),
        ErrorKind::Peer(PeerError::Failed { rank: 1, .. })
    );
    check(told == (rank.rank != 1), &error)
}

fn aborts_reach_the_host(rank: &Rank) -> Outcome {
    let job = rank.job()?;
    let told = Arc::new(AtomicI32::new(0));
    let code = told.clone();
    job.on_abort(move |exit, message| {
        if message == "enough" {
            code.store(exit, Ordering::Relaxed);
        }
    });
    job.world().barrier()?;
    rank.meet()?;
    if rank.rank == 0 {
        job.abort(7, "enough");
        return check(told.load(Ordering::Relaxed) == 7, "the hook was called");
    }
    let error = error_of(job.wait_until(None, || false), "a wait in an aborted job")?;
    check(
        told.load(Ordering::Relaxed) == 0,
        "who did not abort has no hook called",
    )?;
    let aborted = matches!(
        error.kind(),
        ErrorKind::Peer(PeerError::Aborted { rank: 0, .. })
    );
    check(aborted, &error)
}

fn an_end_tells_of_an_abort(rank: &Rank) -> Outcome {
    let job = rank.job()?;
    job.world().barrier()?;
    rank.meet()?;
    let told = rank.folder.join("told");
    if rank.rank == 0 {
        job.abort(1, "enough");
        write(&told, b"")?;
    } else {
        read(&told)?;
    }
    let error = error_of(job.finish(), "the end of a job that was aborted")?;
    check(error.operation() == "finish", &error)?;
    check(error.class() == ErrorClass::ProcAborted, &error)
}
