//! Notifications behind buffers that are made inside the epoch.

use transom::{ErrorClass, Job, LockKind, Result, Window};

use crate::{Scenario, scenarios};

pub(crate) fn scenarios() -> Vec<Scenario> {
    scenarios![
        data_from_the_body_is_there_with_its_notification: 3,
        blocking_notifications_in_every_epoch: 2,
        no_such_counter_puts_nothing: 2,
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
        window.try_passive(|epoch| {
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
    window.try_fence(|epoch| {
        let value = [1];
        epoch.target(other)?.put_notify_blocking(0, &value, COME)?;
        epoch.wait_notify(COME, 1)
    })?;
    assert_eq!(window.local()?, [1]);
    window.try_exchange(all, all, |epoch| {
        let value = [2];
        epoch.target(other)?.put_notify_blocking(0, &value, COME)?;
        epoch.wait_notify(COME, 2)
    })?;
    assert_eq!(window.local()?, [2]);
    window.free()
}

fn no_such_counter_puts_nothing(job: &Job) -> Result<()> {
    let mut window = Window::<u64>::allocate(job.world(), 1)?;
    window.try_passive(|epoch| {
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
    window.try_passive(|epoch| {
        assert_eq!(epoch.notifications(COME)?, 0);
        Ok(())
    })?;
    window.free()
}
