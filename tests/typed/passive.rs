//! Passive epochs: locks, and requests.

use std::mem;
use std::thread;
use std::time::Duration;

use transom::{
    Communicator, Complex, Epoch, ErrorClass, Info, Job, LockKind, Op, Passive, Result, ValueIndex,
    Window,
};

use crate::{Scenario, scenarios};

pub(crate) fn scenarios() -> Vec<Scenario> {
    scenarios![
        exclusive_locks_exclude: 4,
        shared_locks_let_atomics_in: 4,
        own_part_under_its_exclusive_lock: 3,
        own_part_needs_that_lock: 2,
        lock_all_reaches_everybody: 4,
        requests_give_their_buffer_back: 3,
        accumulates_of_many_kinds: 3,
        forgotten_locks_end_with_the_epoch: 3,
        no_locks_means_none: 2,
        kinds_of_epoch_alternate: 2,
        nested_epochs_do_not_wait_in_a_cycle: 4,
    ]
}

const ROUNDS: u64 = 200;

fn exclusive_locks_exclude(job: &Job) -> Result<()> {
    let world = job.world();
    let mut window = Window::<u64>::allocate(world, 2)?;
    window.passive(|epoch| {
        for _ in 0..ROUNDS {
            let lock = epoch.lock(1, LockKind::Exclusive)?;
            let mut pair = [0; 2];
            lock.get_blocking(0, &mut pair)?;
            assert_eq!(pair[1], 3 * pair[0]);
            lock.put_blocking(0, &[pair[0] + 1])?;
            lock.put_blocking(1, &[3 * (pair[0] + 1)])?;
            lock.unlock()?;
        }
        Ok(())
    })?;
    if world.rank() == 1 {
        let count = ROUNDS * u64::from(world.size());
        assert_eq!(window.local()?, [count, 3 * count]);
    }
    window.free()
}

fn shared_locks_let_atomics_in(job: &Job) -> Result<()> {
    let world = job.world();
    let mut window = Window::<u32>::create(world, vec![0; 3])?;
    let ones = [1, 2];
    window.passive(|epoch| {
        for _ in 0..ROUNDS {
            let lock = epoch.lock(0, LockKind::Shared)?;
            lock.fetch_add(0, 1)?;
            lock.accumulate(Op::Sum, 1, &ones)?;
            // Dropped, not unlocked.
        }
        Ok(())
    })?;
    if world.rank() == 0 {
        let count = ROUNDS as u32 * world.size();
        assert_eq!(window.local()?, [count, count, 2 * count]);
    }
    window.free()
}

fn own_part_under_its_exclusive_lock(job: &Job) -> Result<()> {
    let world = job.world();
    let mut window = Window::<u64>::allocate(world, 1)?;
    window.passive(|epoch| {
        for round in 0..ROUNDS {
            let mut own = epoch.lock(world.rank(), LockKind::Exclusive)?;
            own.put_blocking(0, &[own.fetch_add(0, 0)? + 1])?;
            own.local_mut()?[0] += 1;
            own.unlock()?;
            let other = (world.rank() + round as u32) % world.size();
            epoch.lock(other, LockKind::Exclusive)?.fetch_add(0, 1)?;
        }
        Ok(())
    })?;
    let total = world.allreduce(&[window.local()?[0]], Op::Sum)?;
    assert_eq!(total, [3 * ROUNDS * u64::from(world.size())]);
    window.free()
}

fn own_part_needs_that_lock(job: &Job) -> Result<()> {
    let me = job.world().rank();
    let mut window = Window::<u64>::allocate(job.world(), 1)?;
    window.passive(|epoch| {
        let mut lock = epoch.lock(me, LockKind::Shared)?;
        let error = lock.local_mut().unwrap_err();
        assert_eq!(error.class(), ErrorClass::RmaSync);
        assert_eq!(
            error.to_string(),
            format!(
                "local_mut: plain access needs an exclusive lock of this rank's own part, but \
                 this is a shared lock of rank {me}"
            )
        );
        lock.unlock()?;
        let mut lock = epoch.lock(1 - me, LockKind::Exclusive)?;
        assert!(lock.local_mut().is_err());
        lock.unlock()
    })?;
    window.free()
}

fn lock_all_reaches_everybody(job: &Job) -> Result<()> {
    let world = job.world();
    for hints in [
        Info::new(),
        Info::new().with("transom_eager_lock_all", "true"),
    ] {
        let mut window = Window::<u64>::allocate_with(world, 1, &hints)?;
        window.passive(|epoch| {
            for _ in 0..ROUNDS {
                let lock = epoch.lock_all()?;
                for rank in 0..world.size() {
                    lock.target(rank)?.fetch_add(0, 1)?;
                }
                lock.flush()?;
                assert!(epoch.lock(0, LockKind::Shared).is_err());
                assert!(lock.target(world.size()).is_err());
                lock.unlock()?;
            }
            let last = epoch.lock_all()?;
            let one = vec![1];
            last.target(0)?.rput_owned(0, one)?.wait()?;
            mem::forget(last);
            Ok(())
        })?;
        // The locks are free again, and so is the window for another kind of epoch.
        let mut found = [0];
        window.fence(|epoch| epoch.target(1)?.get(0, &mut found))?;
        assert_eq!(found, [ROUNDS * u64::from(world.size())]);
        window.passive(|epoch| epoch.lock(1, LockKind::Exclusive)?.unlock())?;
        window.free()?;
    }
    Ok(())
}

fn requests_give_their_buffer_back(job: &Job) -> Result<()> {
    let world = job.world();
    let (me, next) = (world.rank(), (world.rank() + 1) % world.size());
    let mut window = Window::<u32>::allocate(world, 1000)?;
    window.local_mut()?.fill(me);
    let mut buffer = [0; 500];
    let mut unused = [0; 10];
    window.passive(|epoch| {
        let lock = epoch.lock(next, LockKind::Exclusive)?;
        let back = lock.rget(0, &mut buffer)?.wait()?;
        assert_eq!(*back, [next; 500]);
        back.fill(me + 100);
        let back = lock.rput(500, back)?.wait()?;
        back.fill(0);
        lock.flush()?;
        let mut request = lock.rget_owned(0, vec![0; 1000])?;
        let owned = loop {
            match request.test()? {
                Ok(owned) => break owned,
                Err(pending) => request = pending,
            }
        };
        assert_eq!((owned[499], owned[500]), (next, me + 100));
        let owned = lock.rput_owned(0, owned[500..501].to_vec())?.wait()?;
        assert_eq!(owned, [me + 100]);
        // Neither is of any consequence.
        drop(lock.rget_owned(0, vec![0; 10])?);
        mem::forget(lock.rget(0, &mut unused)?);
        let error = lock.rput_owned(999, vec![0; 2]).unwrap_err();
        assert_eq!(error.class(), ErrorClass::RmaRange);
        lock.unlock()
    })?;
    let left = (me + world.size() - 1) % world.size();
    let part = window.local()?;
    assert_eq!((part[0], part[1], part[500]), (left + 100, me, left + 100));
    window.free()
}

fn accumulates_of_many_kinds(job: &Job) -> Result<()> {
    let world = job.world();
    let (me, ranks) = (world.rank(), world.size());
    let mut bits = Window::<u8>::allocate(world, 4)?;
    let mine = [1 << me; 4];
    let mut before = [0; 4];
    let mut flipped = mine;
    let mut seen = [0xff; 4];
    bits.passive(|epoch| {
        let lock = epoch.lock(0, LockKind::Shared)?;
        lock.raccumulate(Op::Bor, 0, &mut flipped)?.wait()?;
        lock.get_accumulate(Op::Band, 0, &[0xff; 4], &mut before)?;
        let request = lock.rget_accumulate(Op::NoOp, 0, &mine, &mut seen)?;
        assert!(request.wait()?.iter().all(|seen| seen & 1 << me != 0));
        let error = lock.get_accumulate(Op::Sum, 0, &mine, vec![0; 3].leak());
        let error = error.expect_err("lengths differ");
        assert_eq!(error.class(), ErrorClass::Count, "{error}");
        let error = lock.accumulate(Op::Minloc, 0, &mine).expect_err("no pairs");
        assert_eq!(error.class(), ErrorClass::Op, "{error}");
        lock.unlock()
    })?;
    assert!(before.iter().all(|before| before & 1 << me != 0));
    if me == 0 {
        assert_eq!(bits.local()?, [(1_u8 << ranks) - 1; 4]);
    }
    bits.free()?;

    let mut best = Window::<ValueIndex<f32>>::allocate(world, 1)?;
    let found = [ValueIndex {
        value: 5.0,
        index: me as i32 + 1,
    }];
    best.fence(|epoch| epoch.target(0)?.accumulate(Op::Maxloc, 0, &found))?;
    if me == 0 {
        assert_eq!(best.local()?[0].value, 5.0);
        assert_eq!(best.local()?[0].index, 1);
    }
    best.free()?;

    let mut sum = Window::<Complex<f64>>::allocate(world, 1)?;
    let term = [Complex { re: 1.0, im: -2.0 }];
    sum.fence(|epoch| epoch.target(0)?.accumulate(Op::Sum, 0, &term))?;
    if me == 0 {
        let (re, im) = (f64::from(ranks), -2.0 * f64::from(ranks));
        assert_eq!(sum.local()?, [Complex { re, im }]);
    }
    sum.free()
}

fn forgotten_locks_end_with_the_epoch(job: &Job) -> Result<()> {
    let world = job.world();
    let mut window = Window::<u64>::allocate(world, 1)?;
    for round in 0..20 {
        let src = [round + 1];
        window.passive(|epoch| {
            if round % 3 == u64::from(world.rank()) {
                let lock = epoch.lock(0, LockKind::Exclusive)?;
                lock.put(0, &src)?;
                mem::forget(lock);
                let error = epoch.lock(0, LockKind::Shared).map(|_| ()).unwrap_err();
                assert_eq!(error.class(), ErrorClass::RmaSync);
                mem::forget(epoch.lock(1, LockKind::Shared)?);
            }
            Ok(())
        })?;
        window.passive(|epoch| epoch.lock(0, LockKind::Exclusive)?.unlock())?;
        if world.rank() == 0 {
            assert_eq!(window.local()?, src);
        }
    }
    window.free()
}

fn no_locks_means_none(job: &Job) -> Result<()> {
    let hints = Info::new().with("no_locks", "true");
    let mut window = Window::<u64>::allocate_with(job.world(), 1, &hints)?;
    let error = window
        .passive(|epoch| epoch.lock(0, LockKind::Shared).map(|_| ()))
        .unwrap_err();
    assert_eq!(error.class(), ErrorClass::RmaSync);
    assert!(
        window
            .passive(|epoch| epoch.lock_all().map(|_| ()))
            .is_err()
    );
    window.free()
}

fn kinds_of_epoch_alternate(job: &Job) -> Result<()> {
    let other = 1 - job.world().rank();
    let mut window = Window::<u64>::allocate(job.world(), 2)?;
    for round in 0..100 {
        let src = [round];
        window.fence(|epoch| epoch.target(other)?.put(0, &src))?;
        assert_eq!(window.local()?[0], round);
        window.passive(|epoch| epoch.lock(other, LockKind::Shared)?.put(1, &src))?;
        assert_eq!(window.local()?[1], round);
    }
    window.free()
}

/// Ranks 0 and 1 hold a lock of a window each and ask for the other's, in which rank 2 or 3 waits for them.
fn nested_epochs_do_not_wait_in_a_cycle(job: &Job) -> Result<()> {
    let world = job.world();
    let mut first = Window::<u64>::allocate(world, 1)?;
    let mut second = Window::<u64>::create(world, vec![0])?;
    first.passive(|outer| {
        second.passive(|inner| match world.rank() % 2 {
            0 => cross(world, outer, inner),
            _ => cross(world, inner, outer),
        })
    })?;
    if world.rank() == 3 {
        assert_eq!([first.local()?, second.local()?], [[2], [2]]);
    }
    first.free()?;
    second.free()
}

fn cross(
    world: &Communicator,
    held: &Epoch<'_, '_, u64, Passive>,
    asked: &Epoch<'_, '_, u64, Passive>,
) -> Result<()> {
    let writers_wait = || -> Result<()> {
        world.barrier()?;
        thread::sleep(Duration::from_millis(50));
        Ok(())
    };
    for eager in [true, false] {
        if world.rank() > 1 {
            world.barrier()?;
            let lock = held.lock(3, LockKind::Exclusive)?;
            lock.fetch_add(0, 1)?;
            lock.unlock()?;
        } else if eager {
            let lock = held.lock(3, LockKind::Shared)?;
            writers_wait()?;
            drop(asked.lock(3, LockKind::Shared)?);
            lock.unlock()?;
        } else {
            let (held, asked) = (held.lock_all()?, asked.lock_all()?);
            held.target(3)?.fetch_add(0, 0)?;
            writers_wait()?;
            asked.target(3)?.fetch_add(0, 0)?;
        }
        world.barrier()?;
    }
    Ok(())
}
