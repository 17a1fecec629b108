//! Deques: every task is done once, by whoever has time; parts that are full, threads, and ranks that die.

use std::thread;
use std::time::Duration;

use transom::{ErrorKind, Job, Op};
use transom_collections::{Deque, Error, Result};

use crate::{Scenario, scenarios};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = scenarios![
        every_task_is_done_once: [1, 2, 4, 8],
        tasks_move_to_ranks_without: [3],
        threads_share_a_deque: [2],
        full_and_wrong_deques: [2],
    ];
    all.push(Scenario::new("a_rank_dies_with_tasks", &[3], a_rank_dies).exits(9));
    all
}

/// A task is a range of numbers, which is halved until it is short: so each number has to come up once.
fn every_task_is_done_once(job: &Job) -> Result<()> {
    const NUMBERS: u64 = 3000;
    let world = job.world();
    let tasks = Deque::<[u64; 2]>::new(world, 64)?;
    for round in 0..3 {
        if world.rank() == round % world.size() {
            tasks.push(&[0, NUMBERS])?;
        }
        world.barrier()?;
        let mut seen = vec![0_u64; NUMBERS as usize];
        while let Some(task) = tasks.next()? {
            let [start, end] = *task;
            if end - start > 5 {
                let middle = start + (end - start) / 3;
                tasks.push(&[start, middle])?;
                tasks.push(&[middle, end])?;
            } else {
                (start..end).for_each(|number| seen[number as usize] += 1);
            }
        }
        let all = world.allreduce(&seen, Op::Sum)?;
        assert!(all.iter().all(|&times| times == 1), "{all:?}");
        assert!(tasks.try_next()?.is_none());
        world.barrier()?;
    }
    tasks.free()
}

fn tasks_move_to_ranks_without(job: &Job) -> Result<()> {
    let world = job.world();
    let tasks = Deque::<u32>::new(world, 100)?;
    if world.rank() == 1 {
        (0..100).try_for_each(|task| tasks.push(&task))?;
        assert_eq!(tasks.len_of(1)?, 100);
    }
    world.barrier()?;
    let mut done = 0;
    while let Some(task) = tasks.next()? {
        assert!(*task < 100);
        done += 1;
        // What takes its time is left to others.
        if world.rank() == 1 {
            thread::sleep(Duration::from_millis(3));
        }
    }
    let all = world.allgather(&[done])?;
    assert_eq!(all.iter().sum::<u64>(), 100);
    assert!(all[0] + all[2] > 0, "{all:?}");
    tasks.free()
}

fn threads_share_a_deque(job: &Job) -> Result<()> {
    let world = job.world();
    let tasks = Deque::<u64>::new(world, 500)?;
    if world.rank() == 0 {
        tasks.push(&9)?;
    }
    world.barrier()?;
    let done = thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| -> Result<u64> {
                    let mut done = 0;
                    while let Some(task) = tasks.next()? {
                        for _ in 0..if *task > 0 { 2 } else { 0 } {
                            tasks.push(&(*task - 1))?;
                        }
                        done += 1;
                    }
                    Ok(done)
                })
            })
            .collect();
        (threads.into_iter())
            .map(|thread| thread.join().unwrap())
            .sum::<Result<u64>>()
    })?;
    assert_eq!(world.allreduce(&[done], Op::Sum)?, [(1 << 10) - 1]);
    tasks.free()
}

fn full_and_wrong_deques(job: &Job) -> Result<()> {
    let world = job.world();
    let error = Deque::<u64>::new(world, 3 + world.rank() as usize)
        .err()
        .unwrap();
    assert!(matches!(error, Error::RanksDiffer { .. }), "{error}");
    let error = Deque::<u64>::new(world, 0).err().unwrap();
    assert!(matches!(error, Error::BadArgument { .. }), "{error}");
    let tasks = Deque::<u64>::new(world, 3)?;
    let mine = u64::from(world.rank()) * 10;
    (0..3).try_for_each(|task| tasks.push(&(mine + task)))?;
    let error = tasks.push(&7).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "Deque::push: the part of rank {} is full: it has room for 3",
            world.rank()
        )
    );
    world.barrier()?;
    let mut sum = 0;
    while let Some(task) = tasks.next()? {
        sum += *task;
    }
    assert_eq!(world.allreduce(&[sum], Op::Sum)?, [1 + 2 + 10 + 11 + 12]);
    tasks.free()
}

fn a_rank_dies(job: &Job) -> Result<()> {
    let world = job.world();
    let tasks = Deque::<u64>::new(world, 10)?;
    if world.rank() == 0 {
        (0..3).try_for_each(|task| tasks.push(&task))?;
    }
    world.barrier()?;
    if world.rank() == 2 {
        let _task = tasks.next();
        std::process::exit(9);
    }
    let died = loop {
        match tasks.next() {
            Ok(Some(_)) => {}
            // It died before it had a task.
            Ok(None) => {
                assert!(world.barrier().is_err());
                return Ok(());
            }
            Err(error) => break error,
        }
    };
    let is_told =
        matches!(&died, Error::Transom(error) if matches!(error.kind(), ErrorKind::Peer(_)));
    assert!(is_told, "{died}");
    assert!(tasks.free().is_err());
    Ok(())
}
