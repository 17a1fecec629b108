//! Sessions: opened, shared, ended in every way, and refused.

use std::sync::Arc;
use std::thread;

use transom::{
    Communicator, Error, ErrorKind, Info, Job, LockKind, Misuse, Op, PeerError, Result, Session,
    ThreadLevel, Window,
};

use crate::{Scenario, scenarios};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = scenarios![
        every_operation_of_a_session: 3,
        a_value_holds_its_session: 3,
        threads_share_a_session: 2,
        a_session_ends_by_every_collective_call: 3,
        one_rank_closes_early: 3,
        slices_and_exchanges_are_refused: 2,
        a_session_is_refused_without_locks: 2,
        bad_operands_leave_the_session_usable: 2,
        sessions_and_epochs_that_meet: 2,
        a_batch_gives_its_buffers_back: 3,
        lists_of_places: 3,
        a_batch_in_each_kind_of_epoch: 3,
        a_batch_that_fails_or_panics_is_complete: 2,
        notified_in_a_session: 2,
    ];
    all.extend([
        Scenario::leaving("a_session_behind_the_job", 2, behind_the_job),
        Scenario::joining("another_thread_of_serialized", 1, || {
            another_thread(ThreadLevel::Serialized)
        }),
        Scenario::joining("another_thread_of_multiple", 1, || {
            another_thread(ThreadLevel::Multiple)
        }),
        Scenario::new("a_rank_dies_in_a_session", 3, a_rank_dies).exits(9),
    ]);
    all
}

fn misuse(error: &Error) -> &Misuse {
    match error.kind() {
        ErrorKind::Misuse(misuse) => misuse,
        _ => panic!("{error}"),
    }
}

fn every_operation_of_a_session(job: &Job) -> Result<()> {
    let world = job.world();
    let (rank, size) = (world.rank(), world.size());
    let mut window = Window::<u64>::allocate(world, 16)?;
    let session = window.open()?;
    let next = (rank + 1) % size;
    session.put_blocking(next, 0, &[1, 2, 3])?;
    assert_eq!(session.get_vec(next, 0, 4)?, [1, 2, 3, 0]);
    let mut two = [0; 2];
    session.get_blocking(next, 1, &mut two)?;
    assert_eq!(two, [2, 3]);
    assert_eq!(session.get_value(next, 2)?, 3);
    session.store(next, 4, 7)?;
    assert_eq!(session.load(next, 4)?, 7);
    assert_eq!(session.fetch_and_op(next, Op::Replace, 4, 8)?, 7);
    assert_eq!(session.compare_swap(next, 4, 8, 9)?, 8);
    assert_eq!(session.compare_swap(next, 4, 8, 10)?, 9);
    session.accumulate_blocking(next, Op::Sum, 4, &[1, 1])?;
    // On one word of rank 0, which is also its own.
    session.fetch_add(0, 8, 5)?;
    session.comm().barrier()?;
    assert_eq!(session.load(0, 8)?, 5 * u64::from(size));
    assert_eq!((session.rank(), session.ranks()), (rank, size));
    assert_eq!(session.len_of(next)?, 16);
    window.close()?;
    let expected: &[u64] = &[1, 2, 3, 0, 10, 1];
    assert_eq!(window.local()?[..6], *expected);
    window.free()
}

/// Of a library: a value for each number, on the rank that it falls to.
struct Table {
    session: Session<'static, u64>,
}

impl Table {
    /// Collective.
    fn new(comm: &Communicator) -> Result<Self> {
        let window = Window::allocate(comm, 100)?.into_owned();
        let session = window.into_session()?;
        Ok(Self { session })
    }

    fn place(&self, key: u64) -> (u32, usize) {
        let ranks = u64::from(self.session.ranks());
        ((key % ranks) as u32, (key / ranks) as usize)
    }

    fn insert(&self, key: u64, value: u64) -> Result<()> {
        let (rank, at) = self.place(key);
        self.session.store(rank, at, value)
    }

    fn get(&self, key: u64) -> Result<u64> {
        let (rank, at) = self.place(key);
        self.session.load(rank, at)
    }
}

fn a_value_holds_its_session(job: &Job) -> Result<()> {
    let world = job.world();
    let table = {
        let comm = world.dup()?;
        Table::new(&comm)?
    };
    let mine = u64::from(world.rank()) * 20..(u64::from(world.rank()) + 1) * 20;
    for key in mine {
        table.insert(key, key + 1)?;
    }
    world.barrier()?;
    for key in 0..20 * u64::from(world.size()) {
        assert_eq!(table.get(key)?, key + 1);
    }
    table.session.free()
}

fn threads_share_a_session(job: &Job) -> Result<()> {
    const ROUNDS: u64 = 500;
    let world = job.world();
    let window = Window::<u64>::allocate(world, 64)?.into_owned();
    let session = Arc::new(window.into_session()?);
    let other = 1 - world.rank();
    let threads: Vec<_> = (0..3_u64)
        .map(|number| {
            let session = Arc::clone(&session);
            thread::spawn(move || -> Result<()> {
                for round in 0..ROUNDS {
                    session.fetch_add(other, 0, 1)?;
                    session.fetch_add(0, 1, 1)?;
                    let at = 8 + 8 * number as usize;
                    let values = [round, round + number, number, round ^ number];
                    session.put_blocking(other, at, &values)?;
                    assert_eq!(session.get_vec(other, at, 4)?, values);
                }
                Ok(())
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap()?;
    }
    world.barrier()?;
    assert_eq!(session.load(world.rank(), 0)?, 3 * ROUNDS);
    assert_eq!(session.load(0, 1)?, 2 * 3 * ROUNDS);
    Arc::into_inner(session).unwrap().free()
}

fn a_session_ends_by_every_collective_call(job: &Job) -> Result<()> {
    let world = job.world();
    let size = u64::from(world.size());
    let mut window = Window::<u64>::allocate(world, 1)?;
    let mut expected = 0;
    for round in 0..8 {
        let session = window.open()?;
        session.fetch_add((world.rank() + round) % world.size(), 0, 1)?;
        expected += 1;
        match round {
            0 => window.close()?,
            1 => window.fence(|_| Ok(()))?,
            2 => window.passive(|_| Ok(()))?,
            // Opened twice.
            3 => {
                let _ = window.open()?;
                window.open()?.fetch_add(world.rank(), 0, 0)?;
                window.close()?;
            }
            4 => {
                let session = window.into_session()?;
                session.fetch_add(world.rank(), 0, 0)?;
                window = session.into_window();
                assert!(window.local().is_err());
                window.close()?;
            }
            // Closed without a session, and used again.
            5 => {
                window.close()?;
                window.close()?;
            }
            _ => {
                window.passive(|epoch| {
                    let lock = epoch.lock(0, LockKind::Exclusive)?;
                    lock.fetch_add(0, 0)?;
                    lock.unlock()
                })?;
            }
        }
        assert_eq!(window.local()?, [expected], "round {round}");
    }
    assert_eq!(world.allreduce(&[expected], Op::Sum)?, [8 * size]);
    window.open()?.fetch_add(0, 0, 1)?;
    let expected = if world.rank() == 0 { 8 + size } else { 8 };
    assert_eq!(window.into_vec()?, [expected]);
    Ok(())
}

fn one_rank_closes_early(job: &Job) -> Result<()> {
    let world = job.world();
    let mut window = Window::<u64>::allocate(world, 1)?;
    let session = window.open()?;
    if world.rank() != 0 {
        for _ in 0..1000 {
            session.fetch_add(0, 0, 1)?;
        }
    }
    // Rank 0 comes here long before the others.
    window.close()?;
    let expected = [if world.rank() == 0 { 2000 } else { 0 }];
    assert_eq!(window.local()?, expected);
    window.free()
}

fn slices_and_exchanges_are_refused(job: &Job) -> Result<()> {
    let world = job.world();
    let all = world.group().clone();
    let mut window = Window::<u64>::allocate(world, 1)?;
    window.open()?;
    let refused = |error: Error| {
        assert!(matches!(misuse(&error), Misuse::Epoch { .. }), "{error}");
        error.to_string()
    };
    let text = refused(window.local().map(drop).unwrap_err());
    assert_eq!(
        text,
        "local: it needs a window of which no rank is in a session, but a session was opened, which close, an \
         epoch or free ends"
    );
    refused(window.local_mut().map(drop).unwrap_err());
    refused(
        window
            .exchange(&all, &all, |_| -> Result<()> { unreachable!() })
            .unwrap_err(),
    );
    // And nothing is poisoned by that.
    window.close()?;
    window.exchange(&all, &all, |_| Ok(()))?;
    assert_eq!(window.local()?, [0]);
    window.free()
}

fn a_session_is_refused_without_locks(job: &Job) -> Result<()> {
    let info = Info::new().with("no_locks", "true");
    let mut window = Window::<u64>::allocate_with(job.world(), 1, &info)?;
    let error = window.open().map(drop).unwrap_err();
    assert!(matches!(misuse(&error), Misuse::NoLocks), "{error}");
    window.fence(|_| Ok(()))?;
    assert_eq!(window.local()?, [0]);
    window.free()
}

fn bad_operands_leave_the_session_usable(job: &Job) -> Result<()> {
    let world = job.world();
    let mut window = Window::<u64>::allocate(world, 4)?;
    let session = window.open()?;
    let error = session.store(7, 0, 1).unwrap_err();
    assert!(
        matches!(misuse(&error), Misuse::RankOutOfRange { rank: 7, size: 2 }),
        "{error}"
    );
    let past = [
        session.fetch_add(1, 4, 1).map(drop),
        session.put_blocking(1, 3, &[1, 2]),
        session.get_vec(0, usize::MAX, 2).map(drop),
        session.batch(|batch| batch.target(1)?.put(4, &[1])),
    ];
    for done in past {
        let error = done.unwrap_err();
        assert!(matches!(misuse(&error), Misuse::PastEnd { .. }), "{error}");
    }
    let error = session
        .batch(|batch| batch.target(9).map(drop))
        .unwrap_err();
    assert!(
        matches!(misuse(&error), Misuse::RankOutOfRange { rank: 9, .. }),
        "{error}"
    );
    session.store(1 - world.rank(), 0, 5)?;
    window.close()?;
    assert_eq!(window.local()?, [5, 0, 0, 0]);
    window.free()
}

fn sessions_and_epochs_that_meet(job: &Job) -> Result<()> {
    let world = job.world();
    let mut first = Window::<u64>::allocate(world, 1)?;
    let mut second = Window::<u64>::allocate(world, 1)?;
    // Two at once, of two windows.
    let one = first.open()?;
    second.open()?.store(0, 0, 1)?;
    one.store(0, 0, 1)?;
    first.close()?;
    // One rank opens a session, the other an epoch: an error for both.
    let met = match world.rank() {
        0 => second.open().map(drop),
        _ => second.fence(|_| Ok(())),
    };
    let error = met.unwrap_err();
    let told = match error.kind() {
        ErrorKind::Misuse(Misuse::Mismatch { ours, theirs, .. }) => {
            let mut both = [ours.as_str(), theirs.as_str()];
            both.sort_unstable();
            both == ["fence", "open"]
        }
        ErrorKind::Peer(PeerError::Aborted { .. } | PeerError::Failed { .. }) => true,
        _ => false,
    };
    assert!(told, "{error}");
    assert!(second.is_poisoned());
    assert!(matches!(
        misuse(&second.open().map(drop).unwrap_err()),
        Misuse::Poisoned
    ));
    Ok(())
}

fn a_batch_gives_its_buffers_back(job: &Job) -> Result<()> {
    let world = job.world();
    let (rank, size) = (world.rank(), world.size());
    let mut window = Window::<u64>::allocate(world, 32)?;
    let session = window.open()?;
    let mut mine = [u64::from(rank); 4];
    let mut firsts = vec![9; size as usize];
    // Computed, lent, changed, and lent again.
    for round in 0..3 {
        mine.fill(10 * u64::from(rank) + round);
        session.batch(|batch| {
            for target in 0..size {
                batch.target(target)?.put(4 * rank as usize, &mine)?;
            }
            batch.target(0)?.accumulate(Op::Sum, 16, &mine[..1])
        })?;
        world.barrier()?;
        let count = session.batch(|batch| {
            for (target, first) in (0..).zip(firsts.chunks_mut(1)) {
                let from = (target + 1) % size;
                batch.target(target)?.get(4 * from as usize, first)?;
            }
            Ok(size)
        });
        assert_eq!(count?, size);
        let expected: Vec<u64> = (0..size)
            .map(|target| 10 * u64::from((target + 1) % size) + round)
            .collect();
        assert_eq!(firsts, expected);
        world.barrier()?;
    }
    let sum: u64 = (0..u64::from(size)).map(|rank| 30 * rank + 3).sum();
    assert_eq!(session.load(0, 16)?, sum);
    window.free()
}

fn lists_of_places(job: &Job) -> Result<()> {
    const LEN: usize = 500;
    let world = job.world();
    let (rank, size) = (world.rank(), world.size());
    let mut window = Window::<u64>::allocate(world, LEN)?;
    let session = window.open()?;
    // Each rank writes the elements of its own residue, on all ranks, backwards.
    let places: Vec<(u32, usize)> = (0..size)
        .flat_map(|target| (0..LEN).rev().map(move |at| (target, at)))
        .filter(|&(_, at)| at % size as usize == rank as usize)
        .collect();
    let values: Vec<u64> = (0..).take(places.len()).collect();
    session.put_indexed(&places, &values)?;
    let mut read = vec![0; places.len()];
    session.get_indexed(&places, &mut read)?;
    assert_eq!(read, values);
    world.barrier()?;
    // All add to few elements, some of them several times in one list.
    let hot: Vec<(u32, usize)> = (0..90).map(|i| (i % size, (i % 7) as usize)).collect();
    let before: Vec<u64> =
        (hot.iter().map(|&(rank, at)| session.load(rank, at))).collect::<Result<_>>()?;
    world.barrier()?;
    let ones = vec![1; hot.len()];
    session.accumulate_indexed(Op::Sum, &hot, &ones)?;
    let mut old = vec![0; hot.len()];
    session.get_accumulate_indexed(Op::Sum, &hot, &ones, &mut old)?;
    world.barrier()?;
    for (&(rank, at), before) in hot.iter().zip(before) {
        let times = hot.iter().filter(|&&place| place == (rank, at)).count() as u64;
        assert_eq!(
            session.load(rank, at)?,
            before + 2 * times * u64::from(size)
        );
    }
    for (index, &(rank, at)) in hot.iter().enumerate() {
        let earlier = hot[..index]
            .iter()
            .zip(&old)
            .filter(|&(&place, _)| place == (rank, at));
        assert!(
            earlier
                .into_iter()
                .all(|(_, &earlier)| earlier < old[index])
        );
    }
    // Nothing is transferred where a place is wrong, and the error says which.
    world.barrier()?;
    let wrong = [(0, 0), (rank, LEN), (0, 1)];
    let error = session.put_indexed(&wrong, &[9; 3]).unwrap_err();
    assert!(error.to_string().contains("place 1"), "{error}");
    let error = session
        .put_indexed(&[(transom::raw::PROC_NULL, 0)], &[9])
        .unwrap_err();
    assert!(
        matches!(misuse(&error), Misuse::RankOutOfRange { .. }),
        "{error}"
    );
    let error = session.put_indexed(&[(0, 0)], &[9; 3]).unwrap_err();
    assert!(
        matches!(
            misuse(&error),
            Misuse::LengthsDiffer {
                origin: 3,
                other: 1,
                ..
            }
        ),
        "{error}"
    );
    let first = session.load(0, 0)?;
    assert_ne!(first, 9);
    window.close()?;
    window.passive(|epoch| {
        let all = epoch.lock_all()?;
        let mut read = [0];
        all.batch(|batch| batch.get_indexed(&[(0, 0)], &mut read))?;
        assert_eq!(read, [first]);
        all.unlock()
    })?;
    window.free()
}

fn a_batch_in_each_kind_of_epoch(job: &Job) -> Result<()> {
    let world = job.world();
    let (rank, size) = (world.rank(), world.size());
    let next = (rank + 1) % size;
    let mut window = Window::<u64>::allocate(world, 4)?;
    window.fence(|epoch| {
        let made_inside = vec![u64::from(rank) + 1; 2];
        epoch
            .target(next)?
            .batch(|target| target.put(0, &made_inside))?;
        let mut read = [0; 2];
        epoch
            .target(next)?
            .batch(|target| target.get(0, &mut read))?;
        assert_eq!(read, [u64::from(rank) + 1; 2]);
        Ok(())
    })?;
    window.passive(|epoch| {
        let lock = epoch.lock(next, LockKind::Exclusive)?;
        let mut read = [0];
        lock.batch(|target| {
            target.get(1, &mut read)?;
            target.put(2, &[7])
        })?;
        assert_eq!(read, [u64::from(rank) + 1]);
        lock.unlock()
    })?;
    window.passive(|epoch| {
        let all = epoch.lock_all()?;
        let mut read = vec![0; size as usize];
        all.batch(|batch| {
            for (target, into) in (0..).zip(read.chunks_mut(1)) {
                batch.target(target)?.get(2, into)?;
            }
            Ok(())
        })?;
        assert_eq!(read, vec![7; size as usize]);
        // Nobody's part is in a batch as elsewhere.
        all.batch(|batch| batch.target(None)?.put(0, &[1]))?;
        all.unlock()
    })?;
    window.free()
}

fn a_batch_that_fails_or_panics_is_complete(job: &Job) -> Result<()> {
    let world = job.world();
    let mut window = Window::<u64>::allocate(world, 1 << 16)?;
    let session = window.open()?;
    let other = 1 - world.rank();
    let put = vec![3; 1 << 16];
    let error = session
        .batch(|batch| -> Result<()> {
            batch.target(other)?.put(0, &put)?;
            batch.target(other)?.put(1, &put)
        })
        .unwrap_err();
    assert!(matches!(misuse(&error), Misuse::PastEnd { .. }), "{error}");
    assert_eq!(session.get_value(other, (1 << 16) - 1)?, 3);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let put = vec![4; 1 << 16];
        session.batch(|batch| -> Result<()> {
            batch.target(other)?.put(0, &put)?;
            panic!("in the body")
        })
    }));
    assert!(panicked.is_err());
    // The buffer is gone, and the session goes on.
    session.store(other, 0, 5)?;
    assert_eq!(session.load(other, 0)?, 5);
    window.free()
}

fn notified_in_a_session(job: &Job) -> Result<()> {
    let info = Info::new().with("transom_notification_counters", "1");
    let mut window = Window::<u64>::allocate_with(job.world(), 4, &info)?;
    let session = window.open()?;
    let other = 1 - session.rank();
    session.put_notify_blocking(other, 0, &[11, 12], 0)?;
    session.wait_notify(0, 1)?;
    assert_eq!(session.notifications(0)?, 1);
    assert_eq!(session.get_vec(session.rank(), 0, 2)?, [11, 12]);
    window.free()
}

fn behind_the_job(job: Job) -> Result<()> {
    let window = Window::<u64>::allocate(job.world(), 4)?.into_owned();
    let session = window.into_session()?;
    session.store(1, 0, 3)?;
    job.world().barrier()?;
    job.finish()?;
    let error = session.fetch_add(0, 0, 1).unwrap_err();
    assert!(matches!(misuse(&error), Misuse::JobLeft), "{error}");
    let error = session.free().unwrap_err();
    assert!(matches!(misuse(&error), Misuse::JobLeft), "{error}");
    Ok(())
}

fn a_rank_dies(job: &Job) -> Result<()> {
    let world = job.world();
    let mut window = Window::<u64>::allocate(world, 4)?;
    let session = window.open()?;
    session.store((world.rank() + 1) % world.size(), 0, 1)?;
    world.barrier()?;
    if world.rank() == 2 {
        // Its flags of the barrier arrive before what it reads behind them, and else may die with it.
        for other in 0..2 {
            session.load(other, 0)?;
        }
        std::process::exit(9);
    }
    // A loop of any operation ends with an error, as does the end of the session.
    let mut both = [0; 2];
    let operations: [&mut dyn FnMut() -> Result<()>; 5] = [
        &mut || session.compare_swap(2, 0, 7, 8).map(drop),
        &mut || session.get_value(2, 0).map(drop),
        &mut || session.get_indexed(&[(0, 0), (2, 0)], &mut both),
        &mut || session.load(2, 0).map(drop),
        &mut || session.put_blocking(2, 0, &[1]),
    ];
    for repeat in operations {
        let died = loop {
            if let Err(error) = repeat() {
                break error;
            }
        };
        assert!(matches!(died.kind(), ErrorKind::Peer(_)), "{died}");
    }
    let error = window.close().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Peer(_)), "{error}");
    assert!(window.is_poisoned());
    Ok(())
}

fn another_thread(level: ThreadLevel) -> Result<()> {
    let job = Job::init_thread(level)?;
    let mut window = Window::<u64>::allocate(job.world(), 1)?;
    let session = window.open()?;
    let elsewhere = thread::scope(|scope| {
        let thread = scope.spawn(|| session.fetch_add(0, 0, 1).map(drop));
        thread.join().unwrap()
    });
    match level {
        ThreadLevel::Multiple => elsewhere?,
        ThreadLevel::Serialized => {
            let error = elsewhere.unwrap_err();
            assert!(matches!(misuse(&error), Misuse::OtherThread), "{error}");
        }
    }
    session.fetch_add(0, 0, 1)?;
    window.free()
}
