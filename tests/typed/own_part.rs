//! Puts whose origin is this rank's own part.

use transom::{Block2d, ErrorClass, Job, LockKind, Result, Strided, Window};

use crate::{Scenario, scenarios};

pub(crate) fn scenarios() -> Vec<Scenario> {
    scenarios![
        parts_go_round_the_ring: 3,
        columns_become_halos: 2,
        into_the_own_part_both_may_overlap: 1,
        what_is_lent_is_not_read: 2,
        regions_outside_the_part_are_refused: 2,
    ]
}

fn parts_go_round_the_ring(job: &Job) -> Result<()> {
    let world = job.world();
    let (rank, size) = (world.rank(), world.size());
    let right = (rank + 1) % size;
    for len in [1, 3, 40_000] {
        // Each rank writes to the half that it does not read.
        let mut window = Window::<u64>::allocate(world, 2 * len)?;
        window.local_mut()?[..len].fill(u64::from(rank));
        for round in 0..2 * size {
            let (from, to) = match round % 2 {
                0 => (0..len, len..2 * len),
                _ => (len..2 * len, 0..len),
            };
            let all = world.group();
            match round % 3 {
                0 => window.fence(|epoch| epoch.target(right)?.put_own(to, from))?,
                1 => window.passive(|epoch| {
                    let lock = epoch.lock(right, LockKind::Shared)?;
                    lock.put_own(to, from)?;
                    lock.unlock()
                })?,
                _ => window.exchange(all, all, |epoch| epoch.target(right)?.put_own(to, from))?,
            }
        }
        // Twice round.
        assert_eq!(window.local()?[..len], vec![u64::from(rank); len]);
        window.free()?;
    }
    Ok(())
}

fn columns_become_halos(job: &Job) -> Result<()> {
    const WIDTH: usize = 6;
    const ROWS: usize = 200;
    let world = job.world();
    let (rank, other) = (world.rank(), 1 - world.rank());
    let column = |column| Block2d {
        width: WIDTH,
        row: 0,
        column,
        rows: ROWS,
        columns: 1,
    };
    let mut window = Window::<f64>::allocate(world, WIDTH * ROWS)?;
    for (row, cells) in (0..).zip(window.local_mut()?.chunks_mut(WIDTH)) {
        cells.fill(f64::from(1000 * rank + row));
    }
    window.fence(|epoch| {
        let neighbour = epoch.target(other)?;
        neighbour.put_own(column(0), column(WIDTH - 2))?;
        neighbour.put_own(column(WIDTH - 1), column(1))
    })?;
    for (row, cells) in (0..).zip(window.local()?.chunks(WIDTH)) {
        let (mine, theirs) = (f64::from(1000 * rank + row), f64::from(1000 * other + row));
        assert_eq!(cells, [theirs, mine, mine, mine, mine, theirs]);
    }
    window.free()
}

fn into_the_own_part_both_may_overlap(job: &Job) -> Result<()> {
    let mut window = Window::<u32>::create(job.world(), (0..10).collect())?;
    window.fence(|epoch| epoch.target(0)?.put_own(1..9, 0..8))?;
    assert_eq!(window.local()?, [0, 0, 1, 2, 3, 4, 5, 6, 7, 9]);
    window.passive(|epoch| {
        let lock = epoch.lock(0, LockKind::Shared)?;
        let even = Strided {
            first: 0,
            blocks: 4,
            block_len: 1,
            stride: 2,
        };
        lock.put_own(2..6, even)?;
        lock.put_own(0..0, 3..3)?;
        lock.unlock()
    })?;
    assert_eq!(window.local()?, [0, 0, 0, 1, 3, 5, 5, 6, 7, 9]);
    window.free()
}

fn what_is_lent_is_not_read(job: &Job) -> Result<()> {
    const LEN: usize = 20_000;
    let (me, other) = (job.world().rank(), 1 - job.world().rank());
    let mut window = Window::<u64>::allocate(job.world(), 2 * LEN)?;
    window.local_mut()?[..LEN].fill(1);
    window.passive(|epoch| {
        if me == 0 {
            let there = epoch.lock(other, LockKind::Exclusive)?;
            there.put_own(LEN..2 * LEN, 0..LEN)?;
            let mut own = epoch.lock(me, LockKind::Exclusive)?;
            // What it changes is not what is put.
            let part = own.local_mut()?;
            part[..LEN].fill(2);
            let error = there.put_own(0..1, 0..1).unwrap_err();
            assert_eq!(error.class(), ErrorClass::RmaSync);
            assert_eq!(
                error.to_string(),
                "put_own: it reads this rank's own part, but local_mut lends that until its lock is \
                 unlocked"
            );
            // The slice is a buffer like any other.
            there.put_blocking(0, &part[..1])?;
            own.unlock()?;
            there.put_own(1..2, 1..2)?;
            there.unlock()?;
        }
        Ok(())
    })?;
    if me == 1 {
        let part = window.local()?;
        assert_eq!(part[..3], [2, 2, 1]);
        assert!(part[LEN..].iter().all(|&put| put == 1));
    }
    window.free()
}

fn regions_outside_the_part_are_refused(job: &Job) -> Result<()> {
    let other = 1 - job.world().rank();
    let mut window = Window::<u64>::allocate(job.world(), 4)?;
    window.fence(|epoch| {
        let target = epoch.target(other)?;
        let error = target.put_own(0..2, 3..5).unwrap_err();
        assert!(error.to_string().starts_with("put_own: "), "{error}");
        let error = target.put_own(3..5, 0..2).unwrap_err();
        assert_eq!(error.class(), ErrorClass::RmaRange, "{error}");
        let error = target.put_own(0..1, 0..2).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Count, "{error}");
        assert!(target.put_own(0..2, usize::MAX - 1..usize::MAX).is_err());
        Ok(())
    })?;
    assert_eq!(window.local()?, [0; 4]);
    window.free()
}
