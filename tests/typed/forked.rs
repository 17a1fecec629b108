//! A forked child is no rank: whatever it calls on a window is refused, and changes nothing.

use transom::{Error, ErrorKind, Group, Job, LockKind, Misuse, Op, Result, Window};

use crate::{Scenario, scenarios};

pub(crate) fn scenarios() -> Vec<Scenario> {
    scenarios![
        a_child_has_no_window: 2,
        a_child_has_no_epoch: 2,
        a_child_frees_nothing: 2,
    ]
}

/// Runs `calls` in a child, and returns the names of those that it was not refused.
fn let_in<const N: usize>(
    calls: impl FnOnce() -> [(&'static str, Option<Error>); N],
) -> Vec<usize> {
    // SAFETY: this process has one thread, or those of the library besides, which hold no lock that
    // the child takes: the allocator's are taken by `fork` itself.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mut wrong = 0_i32;
        for (place, (name, error)) in calls().into_iter().enumerate() {
            let kind = error.as_ref().map(Error::kind);
            if !matches!(kind, Some(ErrorKind::Misuse(Misuse::Forked))) {
                eprintln!("{name} in a child: {error:?}");
                wrong |= 1 << place;
            }
        }
        // SAFETY: ends the child at once, without the rank's destructors.
        unsafe { libc::_exit(wrong) };
    }
    assert!(child > 0, "fork");
    let mut status = 0;
    // SAFETY: waits for our own child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "{status:#x}");
    let wrong = libc::WEXITSTATUS(status);
    (0..N).filter(|place| wrong >> place & 1 != 0).collect()
}

/// A window of each kind, with `value` in all places.
fn windows<'c>(job: &'c Job, value: u64) -> Result<[Window<'c, u64>; 2]> {
    let created = Window::create(job.world(), vec![value; 1000])?;
    let mut allocated = Window::allocate(job.world(), 1000)?;
    allocated.local_mut()?.fill(value);
    Ok([created, allocated])
}

fn a_child_has_no_window(job: &Job) -> Result<()> {
    for mut window in windows(job, 3)? {
        let all = job.world().group();
        let wrong = let_in(|| {
            [
                ("local", window.local().err()),
                ("read_own", window.read_own(0..1).err()),
                ("local_mut", window.local_mut().map(|own| own.fill(9)).err()),
                ("fence", window.fence(|_| Ok(())).err()),
                ("passive", window.passive(|_| Ok(())).err()),
                ("exchange", window.exchange(all, all, |_| Ok(())).err()),
                (
                    "exchange with nobody",
                    window
                        .exchange(&Group::empty(), &Group::empty(), |_| Ok(()))
                        .err(),
                ),
                // Afterwards they fail for the same reason: the child has poisoned nothing.
                ("local", window.local().err()),
            ]
        });
        assert!(wrong.is_empty(), "{wrong:?}");
        assert_eq!(window.local()?, [3; 1000]);
        let (other, four) = (1 - job.world().rank(), [4]);
        window.fence(|epoch| epoch.target(other)?.put(999, &four))?;
        assert_eq!(window.into_vec()?[998..], [3, 4]);
    }
    Ok(())
}

fn a_child_has_no_epoch(job: &Job) -> Result<()> {
    let me = job.world().rank();
    for mut window in windows(job, 5)? {
        window.passive(|epoch| {
            let mut lock = epoch.lock(me, LockKind::Exclusive)?;
            lock.local_mut()?[0] = 6;
            let value = [7];
            let wrong = let_in(|| {
                [
                    ("local_mut", lock.local_mut().map(|own| own.fill(9)).err()),
                    ("put", lock.put_blocking(1, &value).err()),
                    ("fetch_add", lock.fetch_add(1, 1).err()),
                    ("load", lock.load(1).err()),
                    ("store", lock.store(1, 1).err()),
                    (
                        "accumulate_value",
                        lock.accumulate_value(Op::Sum, 1, 1).err(),
                    ),
                    ("get_vec", lock.get_vec(1, 1).err()),
                    ("put_own", lock.put_own(1..2, 2..3).err()),
                    (
                        "rput_notify_owned",
                        lock.rput_notify_owned(1, vec![1], 0).err(),
                    ),
                    ("flush", lock.flush().err()),
                    ("notifications", epoch.notifications(0).err()),
                    ("lock", epoch.lock(1 - me, LockKind::Shared).map(drop).err()),
                    ("lock_all", epoch.lock_all().map(drop).err()),
                ]
            });
            assert!(wrong.is_empty(), "{wrong:?}");
            lock.unlock()
        })?;
        assert_eq!(window.local()?[..2], [6, 5]);
        window.free()?;
    }
    Ok(())
}

fn a_child_frees_nothing(job: &Job) -> Result<()> {
    for window in windows(job, 8)? {
        let mut window = Some(window);
        for into_vec in [false, true] {
            let wrong = let_in(|| {
                let freed = window.take().map(|window| match into_vec {
                    true => window.into_vec().map(drop),
                    false => window.free(),
                });
                [("free", freed.and_then(Result::err))]
            });
            assert!(wrong.is_empty(), "{wrong:?}");
        }
        // Taken in the children only.
        let mut window = window.unwrap();
        let (other, value) = (1 - job.world().rank(), [1]);
        window.fence(|epoch| epoch.target(other)?.put(0, &value))?;
        assert_eq!(window.local()?[..2], [1, 8]);
        window.free()?;
    }
    Ok(())
}
