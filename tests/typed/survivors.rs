//! Going on after a death.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::thread;

use transom::raw::{Assert, Window as RawWindow};
use transom::{
    Communicator, Error, ErrorKind, Info, Job, LockKind, Misuse, Op, PeerError, Result, Window,
};
use transom_testing::job::kill_oneself;

use crate::Scenario;

pub(crate) fn scenarios() -> Vec<Scenario> {
    let killed = |scenario: Scenario| scenario.exits(128 + libc::SIGKILL);
    vec![
        killed(Scenario::new("a_job_goes_on", 4, goes_on)),
        killed(Scenario::new("a_job_goes_on_twice", 5, goes_on_twice)).one_more(),
        killed(Scenario::new("a_rank_goes_on_alone", 3, goes_on_alone)).one_more(),
        killed(Scenario::new("rank_0_is_not_needed", 3, without_rank_0)),
        killed(Scenario::new("windows_of_all_kinds_go_on", 4, all_kinds)),
        killed(Scenario::new(
            "several_threads_call",
            4,
            several_threads_call,
        )),
        killed(Scenario::joining("a_rank_calls_late", 5, rank_0_calls_late)),
        killed(Scenario::joining(
            "too_few_ranks_call",
            4,
            rank_0_calls_late,
        )),
        Scenario::new("nobody_has_died", 2, nobody_has_died),
    ]
}

/// Ranks `dying` die once all others have come here, and the others get an error.
fn lose(world: &Communicator, dying: &[u32]) -> Result<()> {
    let mut window = Window::<u64>::allocate(world, 1)?;
    let others = u64::from(world.size()) - dying.len() as u64;
    let ended = window.passive(|epoch| {
        let everyone = epoch.lock_all()?;
        if dying.contains(&world.rank()) {
            // Another may die first.
            let own = everyone.target(world.rank())?;
            while own.load(0).is_ok_and(|come| come < others) {}
            kill_oneself();
        }
        for &rank in dying {
            everyone.target(rank)?.fetch_add(0, 1)?;
        }
        loop {
            world.barrier()?;
        }
    });
    let error: Error = ended
        .map(|()| world.rank())
        .expect_err("barriers go on until a death");
    assert!(matches!(error.kind(), ErrorKind::Peer(_)), "{error}");
    Ok(())
}

/// After these deaths, the ranks that are left.
fn survivors(world: &Communicator, dying: &[u32]) -> Result<Communicator> {
    lose(world, dying)?;
    let left: Vec<u32> = (0..world.size())
        .filter(|rank| !dying.contains(rank))
        .collect();
    let survivors = world.survivors()?;
    assert_eq!(survivors.former_ranks, left);
    let new = survivors.communicator;
    assert_eq!(new.size() as usize, left.len());
    assert_eq!(left[new.rank() as usize], world.rank());
    Ok(new)
}

/// Puts, atomics, accumulates and collectives among all ranks.
fn check(world: &Communicator) -> Result<()> {
    let (rank, size) = (world.rank(), world.size());
    let mut window = Window::<u64>::allocate(world, 4)?;
    let mine = [u64::from(rank) + 1];
    window.fence(|epoch| epoch.target((rank + 1) % size)?.put(0, &mine))?;
    let left = (rank + size - 1) % size;
    assert_eq!(window.local()?[0], u64::from(left) + 1);
    window.passive(|epoch| {
        let everyone = epoch.lock_all()?;
        for target in 0..size {
            let target = everyone.target(target)?;
            target.fetch_add(1, 1)?;
            target.accumulate_value(Op::Max, 2, u64::from(rank))?;
        }
        everyone.flush()
    })?;
    let own = window.local()?;
    assert_eq!(own[1..3], [u64::from(size), u64::from(size) - 1]);
    window.free()?;
    let sum = world.allreduce(&mine, Op::Sum)?;
    assert_eq!(sum, [(1..=u64::from(size)).sum::<u64>()]);
    Ok(())
}

fn goes_on(job: &Job) -> Result<()> {
    let world = job.world();
    let mut window = Window::<u64>::allocate(world, 10)?;
    let ours = [7; 10];
    window.fence(|epoch| epoch.target(world.rank())?.put(0, &ours))?;
    let new = survivors(world, &[2])?;
    check(&new)?;
    // The windows of before still can be read.
    assert_eq!(window.read_own(0..10)?, ours);
    let refused = window.try_into_session().map(|session| session.ranks());
    let (error, window) = refused.expect_err("rank 2 is dead");
    assert!(matches!(error.kind(), ErrorKind::Peer(_)), "{error}");
    assert_eq!(window.read_own(0..10)?, ours);
    let again = world.survivors().unwrap_err();
    assert!(
        matches!(is_misuse(&again), Misuse::SurvivorsTaken),
        "{again}"
    );
    let error = world.barrier().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Peer(_)), "{error}");
    check(&new)
}

fn goes_on_twice(job: &Job) -> Result<()> {
    let new = survivors(job.world(), &[0])?;
    check(&new)?;
    let newer = survivors(&new, &[1])?;
    check(&newer)
}

fn goes_on_alone(job: &Job) -> Result<()> {
    check(&survivors(job.world(), &[0, 2])?)
}

fn without_rank_0(job: &Job) -> Result<()> {
    check(&survivors(job.world(), &[0])?)
}

fn all_kinds(job: &Job) -> Result<()> {
    let new = survivors(job.world(), &[1])?;
    let (rank, size) = (new.rank(), new.size());

    // Over the program's own memory, from memory of the failed job.
    let mut window = Window::create(&new, vec![0_u64; 5000])?;
    let mut block = job.alloc::<u64>(5000)?;
    block.fill(u64::from(rank) + 1);
    window.fence(|epoch| epoch.target((rank + 1) % size)?.put(0, &block))?;
    let left = u64::from((rank + size - 1) % size) + 1;
    assert!(window.local()?.iter().all(|&element| element == left));
    window.free()?;

    // Among some of them.
    let half = new.split(Some(rank % 2), 0)?;
    check(&half.expect("each has a colour"))?;
    check(&new.split_shared(0)?)?;

    // Untyped.
    let window = RawWindow::allocate(&new, 64, 8, &Info::new())?;
    window.fence(Assert::NONE)?;
    window.fence(Assert::NO_SUCCEED)?;
    window.lock(LockKind::Exclusive, 0, Assert::NONE)?;
    window.unlock(0)?;
    window.free()
}

/// On communicators that number the ranks differently. One call of each rank has a result, whichever it is.
fn several_threads_call(job: &Job) -> Result<()> {
    const THREADS: u32 = 4;
    let world = job.world();
    let (rank, size) = (world.rank(), world.size());
    let reversed = world.split(Some(0), (size - rank) as i32)?;
    let reversed = reversed.expect("each has a colour");
    lose(world, &[2])?;
    let calls: Vec<_> = thread::scope(|scope| {
        let call = |thread| match thread % 2 {
            0 => (world, scope.spawn(|| world.survivors())),
            _ => (&reversed, scope.spawn(|| reversed.survivors())),
        };
        let threads: Vec<_> = (0..THREADS).map(call).collect();
        let ended = threads
            .into_iter()
            .map(|(called, thread)| (called, thread.join().unwrap()));
        ended.collect()
    });
    let mut result = None;
    for (called, ended) in calls {
        match ended {
            Ok(survivors) => {
                let in_world = |&former: &u32| match called.rank() == rank {
                    true => former,
                    false => size - 1 - former,
                };
                let left: Vec<_> = survivors.former_ranks.iter().map(in_world).collect();
                assert_eq!(left, [0, 1, 3]);
                assert!(result.replace(survivors.communicator).is_none());
            }
            Err(error) => assert!(
                matches!(is_misuse(&error), Misuse::SurvivorsTaken),
                "{error}"
            ),
        }
    }
    check(&result.expect("one of the calls"))
}

/// The last rank dies. Rank 0 calls after the others have an answer.
fn rank_0_calls_late() -> Result<()> {
    // SAFETY: the process has no other thread yet.
    unsafe { std::env::set_var("TRANSOM_SURVIVORS_TIMEOUT", "2") };
    let job = Job::init()?;
    let world = job.world();
    let (rank, size) = (world.rank(), world.size());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = world.bcast_value(listener.local_addr().unwrap().port(), 0)?;
    lose(world, &[size - 1])?;
    let early = size - 2;
    let can_go_on = 2 * early > size;
    let mut lines = Vec::new();
    if rank == 0 {
        lines.extend((0..early).map(|_| listener.accept().unwrap()));
    }
    let ended = world.survivors();
    let mut line = (rank != 0).then(|| TcpStream::connect(("127.0.0.1", port)).unwrap());
    match ended {
        Ok(survivors) => {
            assert!(can_go_on && rank != 0);
            assert!(survivors.former_ranks.into_iter().eq(1..=early));
            check(&survivors.communicator)?;
        }
        Err(error) => {
            let is_right = match error.kind() {
                ErrorKind::Peer(PeerError::Excluded { .. }) => can_go_on && rank == 0,
                ErrorKind::Peer(PeerError::Missing { .. }) => !can_go_on,
                _ => false,
            };
            assert!(is_right, "{error}");
        }
    }
    // Until rank 0 has an answer: it could go on if all others had ended.
    if let Some(line) = &mut line {
        assert_eq!(line.read(&mut [0]).unwrap(), 0);
    }
    let again = world.survivors().unwrap_err();
    let is_final = matches!(is_misuse(&again), Misuse::SurvivorsTaken);
    assert!(is_final, "{again}");
    Ok(())
}

fn nobody_has_died(job: &Job) -> Result<()> {
    let world = job.world();
    let error = world.survivors().unwrap_err();
    assert!(matches!(is_misuse(&error), Misuse::NoDeath), "{error}");
    let error = job.alone()?.survivors().unwrap_err();
    let is_some = matches!(is_misuse(&error), Misuse::NotAllRanks { ranks: 1, size: 2 });
    assert!(is_some, "{error}");
    world.barrier()
}

fn is_misuse(error: &Error) -> &Misuse {
    match error.kind() {
        ErrorKind::Misuse(misuse) => misuse,
        _ => panic!("{error}"),
    }
}
