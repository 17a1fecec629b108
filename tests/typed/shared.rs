//! Windows whose parts are loaded from in place.

use transom::{
    AbortCause, ErrorClass, ErrorKind, Job, LockKind, Misuse, Op, PeerError, Result, Window,
};

use crate::{Scenario, scenarios};

pub(crate) fn scenarios() -> Vec<Scenario> {
    scenarios![
        parts_are_read_where_they_are: 3,
        stores_and_loads_take_turns: 2,
        operations_of_other_epochs_are_seen: 3,
        other_windows_have_no_loads: 2,
        loads_and_passive_do_not_meet: 3,
        loads_and_fence_do_not_meet: 2,
    ]
}

/// Of different lengths, one of them none; the last more than a page.
fn len(rank: u32) -> usize {
    [3, 0, 1000][rank as usize % 3]
}

fn parts_are_read_where_they_are(job: &Job) -> Result<()> {
    let host = job.world().split_shared(0)?;
    let mut window = Window::<[u32; 3]>::allocate_shared(&host, len(host.rank()))?;
    for (at, element) in (0..).zip(window.local_mut()?) {
        assert_eq!(*element, [0; 3]);
        *element = [host.rank(), at, at * at];
    }
    let read = window.loads(|epoch| {
        let mut read = 0;
        for rank in 0..epoch.ranks() {
            let part = epoch.part(rank)?;
            assert_eq!(part.len(), len(rank));
            assert_eq!(epoch.len_of(rank)?, len(rank));
            for (at, element) in (0..).zip(part) {
                assert_eq!(*element, [rank, at, at * at]);
            }
            read += part.len();
        }
        let error = epoch.part(epoch.ranks()).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Rank, "{error}");
        Ok(read)
    })?;
    assert_eq!(read, (0..host.size()).map(len).sum());
    let own = window.into_vec()?;
    assert_eq!(own.len(), len(host.rank()));
    Ok(())
}

fn stores_and_loads_take_turns(job: &Job) -> Result<()> {
    let host = job.world().split_shared(0)?;
    let (me, other) = (host.rank(), 1 - host.rank());
    let mut window = Window::<u64>::allocate_shared(&host, 5000)?;
    for round in 1..=200 {
        window.local_mut()?.fill(2 * round + u64::from(me));
        window.loads(|epoch| {
            let expected = 2 * round + u64::from(other);
            assert!(epoch.part(other)?.iter().all(|found| *found == expected));
            Ok(())
        })?;
    }
    window.free()
}

fn operations_of_other_epochs_are_seen(job: &Job) -> Result<()> {
    let host = job.world().split_shared(0)?;
    let (rank, size) = (host.rank(), host.size());
    let mut window = Window::<u64>::allocate_shared(&host, 2)?;
    for round in 1..=20 {
        let value = [round];
        window.fence(|epoch| epoch.target((rank + 1) % size)?.put(0, &value))?;
        window.passive(|epoch| {
            let lock = epoch.lock(0, LockKind::Shared)?;
            lock.accumulate_value(Op::Sum, 1, 1)?;
            lock.unlock()
        })?;
        window.loads(|epoch| {
            for other in 0..size {
                assert_eq!(epoch.part(other)?[0], round);
            }
            assert_eq!(epoch.part(0)?[1], round * u64::from(size));
            Ok(())
        })?;
    }
    window.free()
}

fn other_windows_have_no_loads(job: &Job) -> Result<()> {
    let mut window = Window::<u64>::allocate(job.world(), 2)?;
    let error = window.loads(|_| Ok(())).unwrap_err();
    assert_eq!(error.class(), ErrorClass::RmaFlavor, "{error}");
    let words = "loads: it needs a window of allocate_shared, but this one was made by allocate";
    assert_eq!(error.to_string(), words);
    // Nothing has begun.
    assert!(!window.is_poisoned());
    window.free()
}

/// Nobody has a part in hand that another rank writes to.
fn loads_and_passive_do_not_meet(job: &Job) -> Result<()> {
    let host = job.world().split_shared(0)?;
    let mut window = Window::<u64>::allocate_shared(&host, 1)?;
    let error = match host.rank() {
        1 => window
            .passive(|_| -> Result<()> { unreachable!() })
            .unwrap_err(),
        _ => window
            .loads(|_| -> Result<()> { unreachable!() })
            .unwrap_err(),
    };
    // Where a rank hears first that another has found it out, it is told that.
    let told = match error.kind() {
        ErrorKind::Misuse(Misuse::Mismatch { .. }) => true,
        ErrorKind::Peer(PeerError::Aborted { cause, .. }) => *cause == AbortCause::EpochFailed,
        _ => false,
    };
    assert!(told, "{error}");
    assert!(window.is_poisoned() && window.local_mut().is_err());
    Ok(())
}

fn loads_and_fence_do_not_meet(job: &Job) -> Result<()> {
    let host = job.world().split_shared(0)?;
    let mut window = Window::<u64>::allocate_shared(&host, 1)?;
    let (error, ours, theirs) = match host.rank() {
        1 => {
            let error = window
                .fence(|_| -> Result<()> { unreachable!() })
                .unwrap_err();
            (error, "fence", "loads")
        }
        _ => {
            let error = window
                .loads(|_| -> Result<()> { unreachable!() })
                .unwrap_err();
            (error, "loads", "fence")
        }
    };
    let words = format!("{ours} here, {theirs} there");
    assert!(error.to_string().ends_with(&words), "{error}");
    Ok(())
}
