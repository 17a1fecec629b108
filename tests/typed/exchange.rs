//! Epochs between groups, and notifications.

use transom::{ErrorClass, Group, Job, LockKind, Op, Result, Window};

use crate::{Scenario, scenarios};

pub(crate) fn scenarios() -> Vec<Scenario> {
    scenarios![
        neighbours_exchange: 4,
        one_side_only: 3,
        every_operation_is_complete: 2,
        groups_of_strangers_begin_nothing: 3,
        exchanges_alternate_with_other_epochs: 3,
        notifications_order_puts: 2,
    ]
}

fn around(job: &Job, distance: u32) -> u32 {
    (job.world().rank() + distance) % job.world().size()
}

fn neighbours_exchange(job: &Job) -> Result<()> {
    let world = job.world();
    let (left, right) = (around(job, world.size() - 1), around(job, 1));
    let both = world.group().include(&[left, right])?;
    let mut window = Window::<u64>::allocate(world, 2)?;
    for round in 0..100 {
        let mine = |rank: u32| u64::from(rank) << 32 | round;
        let src = [mine(world.rank())];
        window.exchange(&both, &both, |epoch| {
            epoch.target(left)?.put(1, &src)?;
            epoch.target(right)?.put(0, &src)
        })?;
        assert_eq!(window.local()?, [mine(left), mine(right)]);
    }
    window.free()
}

/// Rank 0 collects from the others, which expose nothing.
fn one_side_only(job: &Job) -> Result<()> {
    let world = job.world();
    let (first, others) = (world.group().include(&[0])?, world.group().exclude(&[0])?);
    let mut window = Window::<u32>::create(world, vec![0; world.size() as usize])?;
    for round in 1..=50 {
        let src = [round];
        let me = world.rank();
        if me == 0 {
            window.exchange(&others, &Group::empty(), |_| Ok(()))?;
            assert_eq!(window.local()?[1..], vec![round; world.size() as usize - 1]);
        } else {
            window.exchange(&Group::empty(), &first, |epoch| {
                epoch.target(0)?.put(me as usize, &src)
            })?;
        }
    }
    window.free()
}

fn every_operation_is_complete(job: &Job) -> Result<()> {
    let world = job.world();
    let all = world.group();
    let other = around(job, 1);
    let mut window = Window::<u64>::allocate(world, 4)?;
    for round in 1..=20 {
        let (one, mut got) = ([1], [0]);
        window.local_mut()?[3] = round;
        window.exchange(all, all, |epoch| {
            let target = epoch.target(other)?;
            target.accumulate(Op::Sum, 0, &one)?;
            target.fetch_add(1, 2)?;
            target.get(3, &mut got)?;
            let mut now = [0];
            target.get_blocking(3, &mut now)?;
            assert_eq!(now, [round]);
            target.put_blocking(2, &[round])
        })?;
        assert_eq!(got, [round]);
        assert_eq!(window.local()?, [round, 2 * round, round, round]);
    }
    window.free()
}

fn groups_of_strangers_begin_nothing(job: &Job) -> Result<()> {
    let world = job.world();
    let alone = job.alone()?;
    let mut window = Window::<u8>::allocate(&alone, 1)?;
    let stranger = world.group().include(&[around(job, 1)])?;
    for (origins, targets) in [(&stranger, &Group::empty()), (&Group::empty(), &stranger)] {
        let refused = window.exchange(origins, targets, |_| Ok(())).unwrap_err();
        assert_eq!(refused.class(), ErrorClass::Group, "{refused}");
        assert_eq!(refused.operation(), "exchange");
    }
    let myself = alone.group();
    let value = [3];
    for (origins, targets) in [(myself, &Group::empty()), (&Group::empty(), myself)] {
        let refused = window.exchange(origins, targets, |_| Ok(())).unwrap_err();
        assert_eq!(refused.class(), ErrorClass::RmaSync, "{refused}");
    }
    window.exchange(myself, myself, |epoch| epoch.target(0)?.put(0, &value))?;
    assert_eq!(window.local()?, [3]);
    window.free()
}

fn exchanges_alternate_with_other_epochs(job: &Job) -> Result<()> {
    let world = job.world();
    let all = world.group();
    let next = around(job, 1);
    let mut window = Window::<u64>::allocate(world, 3)?;
    for round in 1..=30 {
        let src = [round];
        window.fence(|epoch| epoch.target(next)?.put(0, &src))?;
        window.exchange(all, all, |epoch| epoch.target(next)?.put(1, &src))?;
        window.passive(|epoch| {
            let lock = epoch.lock(next, LockKind::Exclusive)?;
            lock.put(2, &src)?;
            lock.unlock()
        })?;
        assert_eq!(window.local()?, [round; 3]);
    }
    window.free()
}

fn notifications_order_puts(job: &Job) -> Result<()> {
    let world = job.world();
    let (me, other) = (world.rank(), around(job, 1));
    let mut window = Window::<u64>::allocate(world, 2)?;
    let values: Vec<u64> = (1..=100).collect();
    window.passive(|epoch| {
        let all = epoch.lock_all()?;
        for (value, round) in values.chunks(1).zip(1..) {
            // The other may be one ahead, and nothing orders two puts to one place.
            let place = round as usize % 2;
            all.target(other)?.put_notify(place, value, 5)?;
            epoch.wait_notify(5, round)?;
            let mut got = [0];
            all.target(me)?.get_blocking(place, &mut got)?;
            assert_eq!(got, [round], "in round {round}");
            assert!(epoch.test_notify(5, round)?);
        }
        assert_eq!(epoch.notifications(5)?, 100);
        let beyond = all.target(other)?.put_notify(0, &[], 8).unwrap_err();
        assert_eq!(beyond.class(), ErrorClass::Arg, "{beyond}");
        Ok(())
    })?;
    window.free()
}
