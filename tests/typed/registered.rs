//! Memory of the program that is registered for operations.

use std::mem;

use transom::{Job, LockKind, Result, Window};

use crate::{Scenario, scenarios};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = scenarios![
        vectors_are_put_from_and_got_into: 2,
        borrowed_buffers_are_registered_for_a_closure: 2,
        registrations_end_before_their_operations: 2,
        nothing_is_registered_twice_or_for_ever: 1,
    ];
    all.push(Scenario::leaving(
        "registrations_outlive_the_job",
        2,
        registrations_outlive_the_job,
    ));
    all
}

const LEN: usize = 300_000;

fn numbers(first: u64) -> Vec<u64> {
    (first..first + LEN as u64).collect()
}

/// The bytes that are registered with an adapter; 0 on other devices.
fn registered_bytes(job: &Job) -> u64 {
    let usage = job.device_usage().filter(|usage| usage.queue_pairs > 0);
    usage.map_or(0, |usage| usage.registered_bytes)
}

fn other(job: &Job) -> u32 {
    (job.world().rank() + 1) % job.world().size()
}

fn vectors_are_put_from_and_got_into(job: &Job) -> Result<()> {
    let mut window = Window::<u64>::allocate(job.world(), LEN)?;
    let (me, other) = (job.world().rank(), other(job));
    let mut source = job.register(numbers(me.into()))?;
    let mut found = job.register(vec![0; LEN])?;
    for round in 0..3 {
        source[0] = round;
        window.fence(|epoch| epoch.target(other)?.put(0, &source))?;
        assert_eq!(window.local()?[0], round);
        assert!(window.local()?[1..] == numbers(other.into())[1..]);
        window.fence(|epoch| epoch.target(other)?.get(0, &mut found))?;
        assert!(*found == *source, "round {round}");
    }
    assert_eq!(source.into_vec()[1..], numbers(me.into())[1..]);
    window.free()
}

fn borrowed_buffers_are_registered_for_a_closure(job: &Job) -> Result<()> {
    let mut window = Window::<u64>::allocate(job.world(), LEN)?;
    let other = other(job);
    let source = numbers(job.world().rank().into());
    let mut found = vec![0; LEN];
    let before = registered_bytes(job);
    job.while_registered(&source, |source| {
        job.while_registered_mut(&mut found, |found| {
            if before > 0 {
                assert!(registered_bytes(job) >= before + 2 * 8 * LEN as u64);
            }
            window.passive(|epoch| {
                let lock = epoch.lock(other, LockKind::Exclusive)?;
                lock.put_blocking(0, source)?;
                lock.get_blocking(0, found)?;
                lock.unlock()
            })
        })
    })?;
    assert!(found == source);
    window.free()
}

/// The device goes on using a registration that has ended until the operations are complete.
fn registrations_end_before_their_operations(job: &Job) -> Result<()> {
    let mut window = Window::<u64>::allocate(job.world(), LEN)?;
    let other = other(job);
    let source = numbers(job.world().rank().into());
    window.fence(|epoch| {
        let target = epoch.target(other)?;
        job.while_registered(&source, |source| target.put(0, source))
    })?;
    assert!(window.local()? == numbers(other.into()));
    window.free()
}

fn nothing_is_registered_twice_or_for_ever(job: &Job) -> Result<()> {
    let before = registered_bytes(job);
    let bytes = 8 * LEN as u64;
    let registered = job.register(numbers(0))?;
    if before > 0 {
        assert_eq!(registered_bytes(job), before + bytes);
    }
    assert!(*registered.into_vec() == numbers(0));
    drop(job.register(numbers(0))?);
    let empty = job.register(Vec::<u64>::new())?;
    assert!(empty.is_empty());
    assert_eq!(registered_bytes(job), before);
    // A vector that is forgotten keeps its memory, so that no other one is mistaken for it.
    mem::forget(job.register(vec![1_u8; 1 << 16])?);
    let mut window = Window::<u8>::allocate(job.world(), 1 << 16)?;
    let bytes = vec![2; 1 << 16];
    window.fence(|epoch| epoch.target(0)?.put(0, &bytes))?;
    assert!(window.local()?.iter().all(|&byte| byte == 2));
    window.free()
}

fn registrations_outlive_the_job(job: Job) -> Result<()> {
    let rank = job.world().rank();
    let registered = job.register(numbers(rank.into()))?;
    let dropped_after = job.register(numbers(7))?;
    job.world().barrier()?;
    job.finish()?;
    assert!(registered.into_vec() == numbers(rank.into()));
    drop(dropped_after);
    Ok(())
}
