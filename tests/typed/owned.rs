//! Windows that share their communicator, and what happens when things go in another order.

use std::time::{Duration, Instant};

use transom::{
    Communicator, Error, ErrorKind, Job, LockKind, Misuse, OwnedWindow, PeerError, Result, Window,
};

use crate::{Scenario, scenarios};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = scenarios![
        a_value_holds_its_window: 3,
        a_window_outlives_its_communicator: 2,
        owned_and_borrowed_are_one_type: 2,
    ];
    all.extend([
        Scenario::leaving(
            "left_before_the_window_is_freed",
            2,
            left_before_it_is_freed,
        ),
        Scenario::leaving("one_rank_leaves_with_its_window", 3, one_rank_leaves),
        Scenario::leaving("left_inside_an_epoch", 2, left_inside_an_epoch),
        Scenario::leaving("dropped_behind_the_job", 2, dropped_behind_the_job),
    ]);
    all
}

/// How long a rank may take to hear of another's failure.
const HEARD_WITHIN: Duration = Duration::from_secs(20);

/// Of a library: each rank has a ring of places, into which all may push.
struct Queue {
    window: OwnedWindow<u64>,
    places: u64,
}

impl Queue {
    /// Collective.
    fn new(comm: &Communicator, places: u64) -> Result<Self> {
        let window = Window::allocate(comm, 1 + places as usize)?.into_owned();
        Ok(Self { window, places })
    }

    /// Collective.
    fn push_all(&mut self, rank: u32, values: &[u64]) -> Result<()> {
        let places = self.places;
        self.window.passive(|epoch| {
            let lock = epoch.lock(rank, LockKind::Shared)?;
            for &value in values {
                let place = lock.fetch_add(0, 1)? % places;
                lock.store(1 + place as usize, value)?;
            }
            lock.unlock()
        })
    }

    /// Collective.
    fn into_values(self) -> Result<Vec<u64>> {
        let mut values = self.window.into_vec()?;
        let len = values.remove(0);
        values.truncate(len as usize);
        values.sort_unstable();
        Ok(values)
    }
}

fn a_value_holds_its_window(job: &Job) -> Result<()> {
    let world = job.world();
    let (rank, size) = (world.rank(), world.size());
    let mut queue = Queue::new(world, 100)?;
    let values: Vec<u64> = (0..10).map(|value| 10 * u64::from(rank) + value).collect();
    queue.push_all((rank + 1) % size, &values)?;
    queue.push_all(0, &values)?;
    let mut expected: Vec<u64> = (0..10)
        .map(|value| 10 * u64::from((rank + size - 1) % size) + value)
        .collect();
    if rank == 0 {
        expected.extend(0..10 * u64::from(size));
        expected.sort_unstable();
    }
    assert_eq!(queue.into_values()?, expected);
    Ok(())
}

fn a_window_outlives_its_communicator(job: &Job) -> Result<()> {
    let mut window = {
        let comm = job.world().dup()?;
        Window::<u64>::create(&comm, vec![1, 2])?.into_owned()
    };
    let other = 1 - window.rank();
    window.fence(|epoch| epoch.target(other)?.put_own(0..1, 1..2))?;
    // The communicator is still there.
    assert_eq!(window.comm().allgather(window.local()?)?, [2, 2, 2, 2]);
    let second = Window::<u8>::allocate(window.comm(), 1)?.into_owned();
    window.free()?;
    second.free()
}

fn sum(window: &mut Window<'_, u64>) -> Result<u64> {
    window.fence(|epoch| Ok(epoch.target(0)?.get_vec(0, 2)?.iter().sum()))
}

fn owned_and_borrowed_are_one_type(job: &Job) -> Result<()> {
    let mut borrowed = Window::create(job.world(), vec![1, 2])?;
    assert_eq!(sum(&mut borrowed)?, 3);
    let mut owned = borrowed.into_owned();
    assert_eq!(sum(&mut owned)?, 3);
    let both = [owned, Window::create(job.world(), vec![3, 4])?];
    both.into_iter().try_for_each(Window::free)
}

#[track_caller]
fn assert_left(error: &Error) {
    assert!(
        matches!(error.kind(), ErrorKind::Misuse(Misuse::JobLeft)),
        "{error}"
    );
}

fn left_before_it_is_freed(job: Job) -> Result<()> {
    let all = job.world().group().clone();
    let mut window = Window::<u64>::create(job.world(), vec![7])?.into_owned();
    let unfreed = Window::<u64>::create(job.world(), vec![7])?.into_owned();
    window.fence(|epoch| epoch.target(0)?.store(0, 8))?;
    let expected = [if window.rank() == 0 { 8 } else { 7 }];
    job.finish()?;
    assert_left(
        &window
            .fence(|_| -> Result<()> { unreachable!() })
            .unwrap_err(),
    );
    assert_left(
        &window
            .passive(|_| -> Result<()> { unreachable!() })
            .unwrap_err(),
    );
    let error = window.exchange(&all, &all, |_| -> Result<()> { unreachable!() });
    assert_left(&error.unwrap_err());
    // What was there can still be read.
    assert_eq!(window.local()?, expected);
    assert_eq!(window.local_mut()?, expected);
    assert!(!window.is_poisoned());
    let error = window.free().unwrap_err();
    assert_eq!(
        error.to_string(),
        "free: this process has left its job; windows are used and freed before that"
    );
    assert_left(&unfreed.into_vec().unwrap_err());
    Ok(())
}

fn one_rank_leaves(job: Job) -> Result<()> {
    let rank = job.world().rank();
    let mut window = Window::<u64>::allocate(job.world(), 1)?.into_owned();
    window.fence(|epoch| epoch.target(1)?.accumulate_value(transom::Op::Sum, 0, 1))?;
    let begun = Instant::now();
    if rank == 1 {
        job.finish()?;
        assert_left(&window.fence(|_| Ok(())).unwrap_err());
        assert_eq!(window.local()?, [3]);
        return Ok(());
    }
    let error = window
        .fence(|_| -> Result<()> { unreachable!() })
        .unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Peer(_)), "{error}");
    assert!(begun.elapsed() < HEARD_WITHIN, "{:?}", begun.elapsed());
    assert!(window.is_poisoned());
    Ok(())
}

fn left_inside_an_epoch(job: Job) -> Result<()> {
    let begun = Instant::now();
    let mut window = Window::<u64>::allocate(job.world(), 1)?.into_owned();
    let first = window.rank() == 0;
    let mut job = Some(job);
    let closed = window.fence(|_| {
        if first {
            drop(job.take());
        }
        Ok(())
    });
    let error = closed.unwrap_err();
    match error.kind() {
        ErrorKind::Misuse(Misuse::JobLeft) => assert!(first),
        ErrorKind::Peer(PeerError::Left { rank: 0 } | PeerError::Aborted { .. }) => assert!(!first),
        _ => panic!("{error}"),
    }
    assert!(begun.elapsed() < HEARD_WITHIN, "{:?}", begun.elapsed());
    if first {
        assert!(window.fence(|_| Ok(())).is_err());
    }
    Ok(())
}

fn dropped_behind_the_job(job: Job) -> Result<()> {
    /// Fields are dropped in the order in which they stand here.
    struct Program {
        job: Job,
        window: OwnedWindow<u64>,
    }
    let window = Window::allocate(job.world(), 4)?.into_owned();
    let mut program = Program { job, window };
    let (rank, size) = (program.job.world().rank(), program.job.world().size());
    let window = &mut program.window;
    window.fence(|epoch| epoch.target((rank + 1) % size)?.store(0, rank.into()))?;
    assert_eq!(window.local()?[0], u64::from((rank + size - 1) % size));
    drop(program);
    Ok(())
}
