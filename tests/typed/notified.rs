//! Notifications behind buffers that are made inside the epoch.

use transom::{ErrorClass, Job, LockKind, Result, Strided, Window};

use crate::{Scenario, scenarios};

pub(crate) fn scenarios() -> Vec<Scenario> {
    scenarios![
        data_from_the_body_is_there_with_its_notification: 3,
        blocking_notifications_in_every_epoch: 2,
        no_such_counter_puts_nothing: 2,
        columns_are_there_with_their_notification: 3,
        the_own_part_is_read_under_no_lock: 2,
    ]
}

const COME: u32 = 0;
const READ: u32 = 1;

fn data_from_the_body_is_there_with_its_notification(job: &Job) -> Result<()> {
    let world = job.world();
    let (rank, size) = (world.rank(), world.size());
    let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
    // Short messages are copied by a device, long ones are not.
    for len in [1, 50_000] {
        let mut window = Window::<u64>::allocate(world, len)?;
        window.passive(|epoch| {
            let everyone = epoch.lock_all()?;
            let mut message = vec![0; len];
            for round in 1..=30 {
                message.fill(round);
                let to = everyone.target(right)?;
                message = match round % 2 {
                    0 => to.rput_notify_owned(0, message, COME)?.wait()?,
                    _ => {
                        to.put_notify_blocking(0, &message, COME)?;
                        message
                    }
                };
                // It is this rank's again.
                message.fill(u64::MAX);
                epoch.wait_notify(COME, round)?;
                let found = everyone.target(rank)?.get_vec(0, len)?;
                assert!(found.iter().all(|&found| found == round));
                everyone.target(left)?.put_notify(0, &[], READ)?;
                epoch.wait_notify(READ, round)?;
            }
            // Dropped, it waits for its buffer.
            drop(
                everyone
                    .target(right)?
                    .rput_notify_owned(0, message, COME)?,
            );
            epoch.wait_notify(COME, 31)
        })?;
        assert_eq!(window.into_vec()?, vec![u64::MAX; len]);
    }
    Ok(())
}

fn blocking_notifications_in_every_epoch(job: &Job) -> Result<()> {
    let (all, other) = (job.world().group(), 1 - job.world().rank());
    let mut window = Window::<u64>::allocate(job.world(), 1)?;
    window.fence(|epoch| {
        let value = [1];
        epoch.target(other)?.put_notify_blocking(0, &value, COME)?;
        epoch.wait_notify(COME, 1)
    })?;
    assert_eq!(window.local()?, [1]);
    window.exchange(all, all, |epoch| {
        let value = [2];
        epoch.target(other)?.put_notify_blocking(0, &value, COME)?;
        epoch.wait_notify(COME, 2)
    })?;
    assert_eq!(window.local()?, [2]);
    window.free()
}

fn no_such_counter_puts_nothing(job: &Job) -> Result<()> {
    let mut window = Window::<u64>::allocate(job.world(), 1)?;
    window.passive(|epoch| {
        let lock = epoch.lock(1 - epoch.rank(), LockKind::Shared)?;
        let error = lock.rput_notify_owned(0, vec![1], 8).unwrap_err();
        let begins = format!("rput_notify: rank {} has no notification", lock.rank());
        assert!(error.to_string().starts_with(&begins), "{error}");
        let error = lock.put_notify_blocking(0, &[1], 8).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Arg, "{error}");
        let error = lock.rput_notify_owned(1, vec![1], COME).unwrap_err();
        assert_eq!(error.class(), ErrorClass::RmaRange, "{error}");
        lock.unlock()
    })?;
    assert_eq!(window.local()?, [0]);
    window.passive(|epoch| {
        assert_eq!(epoch.notifications(COME)?, 0);
        Ok(())
    })?;
    window.free()
}

fn columns_are_there_with_their_notification(job: &Job) -> Result<()> {
    const ROUNDS: usize = 20;
    const LEN: usize = 100;
    let world = job.world();
    let right = (world.rank() + 1) % world.size();
    // A column for each round: a matrix row by row.
    let column = |round| Strided {
        first: round,
        blocks: LEN,
        block_len: 1,
        stride: ROUNDS,
    };
    let sent: Vec<u64> = (0..ROUNDS * LEN)
        .map(|place| (1000 * place) as u64)
        .collect();
    let mut window = Window::<u64>::allocate(world, ROUNDS * LEN)?;
    window.passive(|epoch| {
        let to = epoch.lock(right, LockKind::Shared)?;
        for round in 0..ROUNDS {
            to.put_notify_strided(column(round), &sent, column(round), COME)?;
            epoch.wait_notify(COME, round as u64 + 1)?;
            let found = epoch.read_own(0..ROUNDS * LEN)?;
            assert!((0..LEN).all(|row| {
                let place = row * ROUNDS + round;
                found[place] == sent[place]
            }));
        }
        let refused = [
            to.put_notify_strided(0..1, &sent, 1..2, 8).unwrap_err(),
            to.put_notify_strided(0..1, &sent, 1..3, COME).unwrap_err(),
            to.put_notify_strided(ROUNDS * LEN..ROUNDS * LEN + 1, &sent, 1..2, COME)
                .unwrap_err(),
        ];
        let classes = [ErrorClass::Arg, ErrorClass::Count, ErrorClass::RmaRange];
        for (error, class) in refused.iter().zip(classes) {
            assert_eq!(error.class(), class, "{error}");
            assert_eq!(error.operation(), "put_notify_strided");
        }
        to.unlock()
    })?;
    assert_eq!(window.local()?, sent);
    window.fence(|epoch| {
        assert_eq!(epoch.notifications(COME)?, ROUNDS as u64);
        let nobody = epoch.target(None)?;
        nobody.put_notify_strided(0..1, &sent, 0..1, COME)?;
        epoch
            .target(right)?
            .put_notify_strided(0..2, &sent, 1..3, READ)?;
        epoch.wait_notify(READ, 1)?;
        assert_eq!(epoch.read_own(0..2)?, sent[1..3]);
        Ok(())
    })?;
    window.free()
}

fn the_own_part_is_read_under_no_lock(job: &Job) -> Result<()> {
    let (me, other) = (job.world().rank(), 1 - job.world().rank());
    // Of different lengths, rank 0's without elements.
    let mut window = Window::<u16>::allocate(job.world(), 3 * me as usize)?;
    window.local_mut()?.fill(7);
    window.passive(|epoch| {
        let len = epoch.len_of(me)?;
        assert_eq!(epoch.read_own(0..len)?, vec![7; len]);
        assert_eq!(epoch.read_own(len..len)?, []);
        for range in [len..len + 1, 0..usize::MAX, usize::MAX - 1..usize::MAX] {
            let error = epoch.read_own(range).unwrap_err();
            assert_eq!(error.class(), ErrorClass::RmaRange, "{error}");
            assert!(error.to_string().starts_with("read_own: "), "{error}");
        }
        let mut own = epoch.lock(me, LockKind::Exclusive)?;
        if let Some(last) = own.local_mut()?.last_mut() {
            *last = 9;
        }
        let error = epoch.read_own(0..0).unwrap_err();
        assert_eq!(error.class(), ErrorClass::RmaSync, "{error}");
        own.unlock()?;
        let mut expected = vec![7; len];
        expected.iter_mut().skip(2).for_each(|last| *last = 9);
        assert_eq!(epoch.read_own(0..len)?, expected);
        // The other rank's own lock is none of this one's.
        let lock = epoch.lock(other, LockKind::Shared)?;
        assert_eq!(epoch.read_own(0..len)?, expected);
        lock.unlock()
    })?;
    window.free()
}
