//! Functions that a body calls: what they have to say of lifetimes, and where `?` needs no type.

use transom::{
    Active, Epoch, ErrorClass, Exchange, Job, LockAll, LockKind, Op, Passive, Result, Target,
    Window,
};

use crate::{Scenario, scenarios};

pub(crate) fn scenarios() -> Vec<Scenario> {
    scenarios![
        functions_over_epochs: 3,
        one_question_mark_is_enough: 3,
        an_error_of_the_body_poisons_nothing: 2,
    ]
}

/// No lifetime is named.
fn count(epoch: &Epoch<'_, '_, u64, Passive>, rank: u32) -> Result<u64> {
    let lock = epoch.lock(rank, LockKind::Shared)?;
    let before = bump(&lock)?;
    lock.unlock()?;
    Ok(before)
}

fn bump(target: &Target<'_, u64, Passive>) -> Result<u64> {
    target.fetch_add(0, 1)
}

fn count_all(everyone: &LockAll<'_, u64>, ranks: u32) -> Result<()> {
    for rank in 0..ranks {
        let target = everyone.target(rank)?;
        bump(&target)?;
    }
    Ok(())
}

/// That for which the buffer is lent.
fn send<'op>(epoch: &Epoch<'op, '_, u64, Active>, src: &'op [u64]) -> Result<()> {
    let right = (epoch.rank() + 1) % epoch.ranks();
    assert_eq!(epoch.len_of(right)?, 2);
    assert_eq!(
        epoch.len_of(epoch.ranks()).unwrap_err().class(),
        ErrorClass::Rank
    );
    epoch.target(right)?.put(1, src)
}

/// Lifetimes that are left out altogether, as new users do.
#[allow(elided_lifetimes_in_paths, reason = "programs may leave them out")]
fn send_back<'op>(epoch: &Epoch<'op, '_, u64, Exchange>, to: u32, src: &'op [u64]) -> Result<()> {
    fn give(target: &Target<u64, Exchange>) -> Result<()> {
        target.accumulate_value(Op::Sum, 0, 100)
    }
    give(&epoch.target(to)?)?;
    epoch.target(to)?.accumulate(Op::Sum, 1, src)
}

fn functions_over_epochs(job: &Job) -> Result<()> {
    let world = job.world();
    let (rank, size) = (world.rank(), world.size());
    let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut window = Window::<u64>::allocate(world, 2)?;
    window.passive(|epoch| {
        assert!(count(epoch, right)? <= u64::from(size));
        count_all(&epoch.lock_all()?, epoch.ranks())
    })?;
    assert_eq!(window.local()?, [u64::from(size) + 1, 0]);
    let mine = [u64::from(rank)];
    window.fence(|epoch| send(epoch, &mine))?;
    assert_eq!(window.local()?[1], u64::from(left));
    let [to, from] = [left, right].map(|rank| world.group().include(&[rank]));
    window.exchange(&from?, &to?, |epoch| send_back(epoch, left, &mine))?;
    let sum = u64::from(left) + u64::from(right);
    assert_eq!(window.local()?, [u64::from(size) + 101, sum]);
    window.free()
}

fn one_question_mark_is_enough(job: &Job) -> Result<()> {
    let world = job.world();
    let me = world.rank();
    let mut window = Window::<u32>::allocate(world, 2)?;
    let mine = [me];
    let found = window.fence(|epoch| {
        epoch.target(0)?.accumulate(Op::Sum, 0, &mine)?;
        Ok("what the body returns")
    })?;
    assert_eq!(found, "what the body returns");
    let before = window.passive(|epoch| {
        let lock = epoch.lock(0, LockKind::Shared)?;
        let before = lock.fetch_add(1, 1)?;
        lock.unlock()?;
        Ok(before)
    })?;
    assert!(before < world.size());
    let all = world.group();
    let seen = window.exchange(all, all, |epoch| epoch.target(0)?.get_vec(0, 2))?;
    assert_eq!(seen, [(0..world.size()).sum(), world.size()]);
    window.free()
}

fn an_error_of_the_body_poisons_nothing(job: &Job) -> Result<()> {
    let mut window = Window::<u32>::allocate(job.world(), 1)?;
    let two = [1, 2];
    let past = window.fence(|epoch| epoch.target(1)?.put(0, &two));
    assert_eq!(past.unwrap_err().class(), ErrorClass::RmaRange);
    let nobody = window.passive(|epoch| epoch.lock(2, LockKind::Shared).map(drop));
    assert_eq!(nobody.unwrap_err().class(), ErrorClass::Rank);
    let all = job.world().group();
    let past = window.exchange(all, all, |epoch| epoch.target(1)?.put(1, &two[..1]));
    assert_eq!(past.unwrap_err().class(), ErrorClass::RmaRange);
    assert!(!window.is_poisoned());
    window.fence(|epoch| epoch.target(1)?.put(0, &two[1..]))?;
    if job.world().rank() == 1 {
        assert_eq!(window.local()?, [2]);
    }
    window.free()
}
