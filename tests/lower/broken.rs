//! Allgathers that break their promises, and ranks that do not belong together.

use transom::raw::{Assert, Window};
use transom::{ErrorClass, ErrorKind, Info, Job, Misuse, PeerError, SystemError};

use crate::cases;
use crate::files::{Fault, Files};
use crate::started::{Case, Outcome, Rank, check, error_of};

pub(crate) const CASES: &[Case] = cases!["broken":
    3: an_allgather_that_fails,
    3: an_allgather_that_forgets_a_rank,
    3: an_allgather_that_cuts_a_block,
    3: ranks_that_mean_other_ranks,
    3: ranks_that_make_other_calls,
    3: a_rank_whose_arguments_are_wrong,
    2: an_allgather_of_others,
];

fn allocate(job: &Job, files: Files) -> transom::Result<Window> {
    let comm = job.communicator(job.world().group(), files)?;
    Window::allocate(&comm, 8, 8, &Info::new())
}

/// Rank 1 is told wrong things when the others think that there is a window: they hear of it in their
/// next call.
fn told_wrong(rank: &Rank, fault: Fault, is_it: fn(&ErrorKind) -> bool) -> Outcome {
    let job = rank.job()?;
    job.world().barrier()?;
    rank.meet()?;
    if rank.rank == 1 {
        let files = rank.files("broken").with(1, fault);
        let error = error_of(allocate(&job, files), "a window whose allgather failed")?;
        check(is_it(error.kind()), &error)?;
        check(error.operation() == "allocate", &error)?;
    } else {
        let window = allocate(&job, rank.files("broken"))?;
        let error = error_of(window.fence(Assert::NONE), "a fence without rank 1")?;
        let aborted = matches!(
            error.kind(),
            ErrorKind::Peer(PeerError::Aborted { rank: 1, .. })
        );
        check(aborted, &error)?;
    }
    let error = error_of(job.finish(), "the end of an aborted job")?;
    check(error.class() == ErrorClass::ProcAborted, &error)
}

fn an_allgather_that_fails(rank: &Rank) -> Outcome {
    told_wrong(rank, Fault::Fails, |kind| {
        matches!(kind, ErrorKind::System(SystemError::Allgather { .. }))
    })
}

fn an_allgather_that_forgets_a_rank(rank: &Rank) -> Outcome {
    told_wrong(rank, Fault::Forgets, |kind| {
        let misuse = Misuse::BlockCount { found: 2, size: 3 }.to_string();
        matches!(kind, ErrorKind::Misuse(found) if found.to_string() == misuse)
    })
}

fn an_allgather_that_cuts_a_block(rank: &Rank) -> Outcome {
    told_wrong(rank, Fault::Cuts, |kind| {
        matches!(
            kind,
            ErrorKind::Misuse(Misuse::BlockLength {
                rank: 0,
                found: 1,
                ..
            })
        )
    })
}

/// All find out, and nothing else is hurt.
fn disagree(rank: &Rank, call: impl FnOnce(&Job) -> transom::Result<()>) -> Outcome {
    let job = rank.job()?;
    let error = error_of(call(&job), "a call that ranks make differently")?;
    check(error.class() == ErrorClass::Arg, &error)?;
    let window = Window::allocate(job.world(), 8, 8, &Info::new())?;
    window.fence(Assert::NO_SUCCEED)?;
    window.free()?;
    Ok(job.finish()?)
}

fn ranks_that_mean_other_ranks(rank: &Rank) -> Outcome {
    disagree(rank, |job| {
        let members = if rank.rank == 1 { [2, 1, 0] } else { [0, 1, 2] };
        let group = job.world().group().include(&members)?;
        let comm = job.communicator(&group, rank.files("mixed"))?;
        let made = comm.barrier();
        // After that, they are out of step.
        let again = comm.barrier().map_err(|error| error.class());
        assert_eq!(again, Err(ErrorClass::Comm));
        made
    })
}

fn ranks_that_make_other_calls(rank: &Rank) -> Outcome {
    disagree(rank, |job| {
        let comm = job.communicator(job.world().group(), rank.files("mixed"))?;
        match rank.rank {
            2 => comm.bcast(&mut [0_u8], 1),
            _ => Window::allocate(&comm, 8, 8, &Info::new()).map(drop),
        }
    })
}

/// An error on all, after which all go on.
fn a_rank_whose_arguments_are_wrong(rank: &Rank) -> Outcome {
    let job = rank.job()?;
    let comm = job.communicator(job.world().group(), rank.files("host"))?;
    let unit = if rank.rank == 1 { 0 } else { 8 };
    let error = error_of(
        Window::allocate(&comm, 8, unit, &Info::new()),
        "a unit of 0",
    )?;
    check(error.class() == ErrorClass::Disp, &error)?;
    // Where all are refused alike, all are in step.
    comm.barrier()?;
    let error = error_of(comm.bcast(&mut [0_u8], 3), "a root that is none")?;
    check(error.class() == ErrorClass::Rank, &error)?;
    Ok(job.finish()?)
}

fn an_allgather_of_others(rank: &Rank) -> Outcome {
    let job = rank.job()?;
    let (group, me) = (job.world().group().clone(), rank.rank);
    let files = |rank, size| Files::new(std::path::Path::new("/nowhere"), "none", rank, size);
    let class =
        |files| error_of(job.communicator(&group, files), "a wrong rank").map(|e| e.class());
    check(
        class(files(me, 3))? == ErrorClass::Arg,
        "three ranks for two",
    )?;
    check(
        class(files(1 - me, 2))? == ErrorClass::Arg,
        "the other's rank",
    )?;
    check(
        class(files(2, 2))? == ErrorClass::Rank,
        "a rank beyond the group",
    )?;
    Ok(job.finish()?)
}
