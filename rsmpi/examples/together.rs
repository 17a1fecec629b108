//! rsmpi's collectives and Transom's windows in one program, which checks itself: `together CASE` under an MPI's
//! launcher, on two ranks or four. `ci/mpi rsmpi` runs all cases.

use std::error::Error;
use std::process::{abort, exit};

use mpi::Threading;
use mpi::collective::SystemOperation;
use mpi::environment::Universe;
use mpi::topology::{Color, InterCommunicator, SimpleCommunicator};
use mpi::traits::*;
use transom::{Job, LockKind, Op, ThreadLevel, Window};

type Outcome = Result<(), Box<dyn Error>>;

fn check(happened: bool, what: impl Into<String>) -> Outcome {
    match happened {
        true => Ok(()),
        false => Err(what.into().into()),
    }
}

/// Of a call that has to fail, with these words.
fn refused<T>(result: transom::Result<T>, words: &str) -> Outcome {
    match result {
        Ok(_) => Err(format!("no error that says: {words}").into()),
        Err(error) => check(error.to_string().contains(words), error.to_string()),
    }
}

fn initialized() -> Result<Universe, Box<dyn Error>> {
    mpi::initialize().ok_or_else(|| "MPI was initialized before".into())
}

fn next_to(rank: u32, size: u32) -> u32 {
    (rank + 1) % size
}

/// Both libraries compute the same, in turn.
fn windows() -> Outcome {
    let universe = initialized()?;
    let world = universe.world();
    let job = transom_rsmpi::job(&world)?;
    let (rank, size) = (job.world().rank(), job.world().size());
    check(i64::from(rank) == i64::from(world.rank()), "another rank")?;
    check(i64::from(size) == i64::from(world.size()), "another size")?;

    let mut window = Window::<u64>::allocate(job.world(), 2)?;
    for round in 1..=20 {
        let mine = [round * u64::from(rank + 1)];
        window.fence(|epoch| epoch.target(0)?.accumulate(Op::Sum, 0, &mine))?;
        window.fence(|epoch| epoch.target(next_to(rank, size))?.put(1, &mine))?;
        let before = u64::from((rank + size - 1) % size + 1);
        let found = window.local()?[1];
        check(found == round * before, format!("{found} was put"))?;
        let mut sum = 0;
        world.all_reduce_into(&mine[0], &mut sum, SystemOperation::sum());
        let mut accumulated = window.local()?[0];
        world.process_at_rank(0).broadcast_into(&mut accumulated);
        check(accumulated == sum, format!("{accumulated}, not {sum}"))?;
        world.barrier();
        window.local_mut()?.fill(0);
    }
    let tickets = window.passive(|epoch| {
        let lock = epoch.lock(0, LockKind::Shared)?;
        let mut tickets = Vec::new();
        for _ in 0..100 {
            tickets.push(lock.fetch_add(0, 1)?);
        }
        lock.unlock()?;
        Ok(tickets)
    })?;
    let mut all = vec![0; 100 * size as usize];
    world.all_gather_into(&tickets[..], &mut all[..]);
    all.sort_unstable();
    check(
        all.into_iter().eq(0..100 * u64::from(size)),
        "a ticket twice",
    )?;
    window.free()?;
    Ok(job.finish()?)
}

/// A wait in Transom lets MPI send what the other rank receives before it comes.
fn progress() -> Outcome {
    let universe = initialized()?;
    let world = universe.world();
    let job = transom_rsmpi::job(&world)?;
    let (rank, size) = (job.world().rank(), job.world().size());
    let sent = vec![rank; 4 << 20];
    for _ in 0..3 {
        if rank == 0 {
            mpi::request::scope(|scope| -> Outcome {
                let to = world.process_at_rank(1);
                let request = to.immediate_send(scope, &sent[..]);
                job.world().barrier()?;
                request.wait();
                Ok(())
            })?;
        } else {
            if rank == 1 {
                let mut received = vec![1; sent.len()];
                world.process_at_rank(0).receive_into(&mut received[..]);
                check(received.iter().all(|&from| from == 0), "another message")?;
            }
            job.world().barrier()?;
        }
    }
    check(size >= 2, "one rank")
}

/// One thread in MPI, the other in Transom.
fn threads() -> Outcome {
    let (universe, level) =
        mpi::initialize_with_threading(Threading::Multiple).ok_or("MPI was initialized before")?;
    check(level == Threading::Multiple, format!("{level:?}"))?;
    let world = universe.world();
    let job = transom_rsmpi::job(&world)?;
    std::thread::scope(|scope| -> Outcome {
        let there = scope
            .spawn(|| -> transom::Result<()> { (0..500).try_for_each(|_| job.world().barrier()) });
        for _ in 0..500 {
            SimpleCommunicator::world().barrier();
        }
        Ok(there.join().map_err(|_| "a panic")??)
    })
}

/// Ranks of a split, the last one first.
fn split() -> Outcome {
    let universe = initialized()?;
    let world = universe.world();
    let job = transom_rsmpi::job(&world)?;
    for _ in 0..3 {
        let key = -world.rank();
        let half = world.split_by_color_with_key(Color::with_value(world.rank() % 2), key);
        let half = half.ok_or("no communicator")?;
        let comm = transom_rsmpi::communicator(&job, &half)?;
        check(comm.rank().cast_signed() == half.rank(), "another rank")?;
        check(comm.size().cast_signed() == half.size(), "another size")?;
        drop(half);
        let last_of_half = world.size() - 2 + world.rank() % 2;
        let first = comm.group().world_rank(0).ok_or("no rank")?;
        check(
            first.cast_signed() == last_of_half,
            format!("{first} is first"),
        )?;
        let (rank, size) = (comm.rank(), comm.size());
        let mut window = Window::<u32>::allocate(&comm, 1)?;
        let mine = [job.world().rank()];
        window.fence(|epoch| epoch.target(next_to(rank, size))?.put(0, &mine))?;
        let sender = comm.group().world_rank((rank + size - 1) % size);
        check(
            Some(window.local()?[0]) == sender,
            format!("from another than {sender:?}"),
        )?;
        let sum = comm.allreduce(&[1_u32], Op::Sum)?;
        check(sum == [size], format!("{sum:?}"))?;
        window.free()?;
    }
    // A job of Transom's own communicators, too.
    let alike = job.world().split(Some(job.world().rank() % 2), 0)?;
    check(alike.is_some(), "no communicator")
}

/// Each half is a job of its own.
fn halves() -> Outcome {
    let universe = initialized()?;
    let world = universe.world();
    let half = world.split_by_color(Color::with_value(world.rank() % 2));
    let half = half.ok_or("no communicator")?;
    let job = transom_rsmpi::job(&half)?;
    check(
        job.world().size().cast_signed() == half.size(),
        "another size",
    )?;
    let mut window = Window::<u64>::allocate(job.world(), 1)?;
    window.fence(|epoch| epoch.target(0)?.accumulate(Op::Sum, 0, &[1]))?;
    let wanted = if half.rank() == 0 {
        u64::from(job.world().size())
    } else {
        0
    };
    check(window.local()?[0] == wanted, "another sum")?;
    window.free()?;
    refused(
        transom_rsmpi::communicator(&job, &world),
        "is not a rank of the job",
    )?;
    // Nobody is in the library any more.
    world.barrier();
    Ok(job.finish()?)
}

/// What a program may get wrong.
fn misuse() -> Outcome {
    refused(
        transom_rsmpi::job(&SimpleCommunicator::world()),
        "not initialized yet",
    )?;
    let universe = initialized()?;
    let world = universe.world();
    let half = world.split_by_color(Color::with_value(world.rank() % 2));
    let half = half.ok_or("no communicator")?;
    let two_groups = intercomm(&world, &half).ok_or("no inter-communicator")?;
    refused(transom_rsmpi::job(&two_groups), "two groups")?;
    let job = transom_rsmpi::job(&world)?;
    refused(transom_rsmpi::communicator(&job, &two_groups), "two groups")?;
    refused(transom_rsmpi::job(&world), "has a job already")?;
    check(
        job.world().allreduce(&[1_u32], Op::Sum)? == [job.world().size()],
        "out of step",
    )
}

/// The two halves, as two groups.
fn intercomm(world: &SimpleCommunicator, half: &SimpleCommunicator) -> Option<InterCommunicator> {
    // SAFETY: a handle that the call replaces.
    let mut raw = unsafe { mpi::ffi::RSMPI_COMM_NULL };
    let leader_of_others = 1 - world.rank() % 2;
    // SAFETY: both communicators are alive, and the result is nobody else's.
    unsafe {
        mpi::ffi::MPI_Intercomm_create(
            half.as_raw(),
            0,
            world.as_raw(),
            leader_of_others,
            7,
            &raw mut raw,
        );
        InterCommunicator::try_from_raw(raw)
    }
}

/// MPI ends before the job does.
fn order() -> Outcome {
    let universe = initialized()?;
    let world = universe.world();
    let job = transom_rsmpi::job(&world)?;
    let comm = transom_rsmpi::communicator(&job, &world)?;
    let mut window = Window::<u32>::allocate(job.world(), 1)?;
    drop(universe);
    let (rank, size) = (job.world().rank(), job.world().size());
    let mine = [rank + 1];
    window.fence(|epoch| epoch.target(next_to(rank, size))?.put(0, &mine))?;
    check(
        window.local()?[0] == (rank + size - 1) % size + 1,
        "another number",
    )?;
    window.free()?;
    let error = comm.barrier().expect_err("MPI has ended").to_string();
    // The first rank whose part fails ends the job for the others.
    let is_right = error.contains("MPI_Finalize") || error.contains("could not take its part");
    check(is_right, error)?;
    drop(comm);
    refused(transom_rsmpi::communicator(&job, &world), "MPI_Finalize")?;
    refused(transom_rsmpi::job(&world), "MPI_Finalize")?;
    drop(job);
    Ok(())
}

/// A job that another way started.
fn stranger() -> Outcome {
    let universe = initialized()?;
    let world = universe.world();
    struct Host;
    // SAFETY: the one block is what the one rank passed.
    unsafe impl transom::lower::Allgather for Host {
        fn rank(&self) -> u32 {
            0
        }
        fn size(&self) -> u32 {
            1
        }
        fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, transom::lower::AllgatherError> {
            Ok(vec![mine.to_vec()])
        }
    }
    let job = Job::over(&Host, ThreadLevel::Serialized)?;
    refused(
        transom_rsmpi::communicator(&job, &world),
        "not made by transom_rsmpi::job",
    )
}

/// Rank 1 dies, and the others are told.
fn dies() -> Outcome {
    let universe = initialized()?;
    let world = universe.world();
    let job = transom_rsmpi::job(&world)?;
    job.world().barrier()?;
    if world.rank() == 1 {
        abort();
    }
    let error = job.world().barrier().err().ok_or("no error")?;
    println!("rank {}: {error}", world.rank());
    // No MPI_Finalize, which would wait for rank 1; nor MPI_Abort, which would cut the line off.
    exit(3)
}

/// [`Job::abort`] ends the program of all ranks.
fn aborts() -> Outcome {
    let universe = initialized()?;
    let world = universe.world();
    let job = transom_rsmpi::job(&world)?;
    job.world().barrier()?;
    if world.rank() == 1 {
        job.abort(7, "no more");
    }
    // In MPI, where no error reaches them.
    world.barrier();
    Err("a barrier without rank 1".into())
}

fn main() -> Outcome {
    let case = std::env::args().nth(1).unwrap_or_default();
    match case.as_str() {
        "windows" => windows(),
        "progress" => progress(),
        "threads" => threads(),
        "split" => split(),
        "halves" => halves(),
        "misuse" => misuse(),
        "order" => order(),
        "stranger" => stranger(),
        "dies" => dies(),
        "aborts" => aborts(),
        _ => Err(format!("no case {case:?}").into()),
    }
    .inspect(|()| println!("passed"))
}
