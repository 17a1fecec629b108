//! The target of `None`, which is nobody.

use transom::raw::PROC_NULL;
use transom::{ErrorClass, Job, Op, Result, Strided, Target, Window};

use crate::{Scenario, scenarios};

pub(crate) fn scenarios() -> Vec<Scenario> {
    scenarios![
        operations_on_nobody_take_place_nowhere: 2,
        requests_of_nobody_are_complete: 2,
        a_line_has_ends: 3,
    ]
}

/// In an epoch of any kind.
fn all_on<'op, M>(
    nobody: &Target<'op, u64, M>,
    src: &'op [u64; 2],
    [dst, fetched, column]: &'op mut [[u64; 2]; 3],
) -> Result<()> {
    const COLUMN: Strided = Strided {
        first: 1,
        blocks: 2,
        block_len: 1,
        stride: 3,
    };
    assert_eq!(nobody.rank(), PROC_NULL);
    nobody.put(0, src)?;
    nobody.put(usize::MAX, src)?;
    nobody.put_blocking(0, src)?;
    nobody.put_notify(0, src, 0)?;
    nobody.put_notify_blocking(0, src, 99)?;
    nobody.put_own(0..1, 0..1)?;
    nobody.put_strided(COLUMN, src, 0..2)?;
    nobody.put_strided_blocking(COLUMN, src, 0..2)?;
    nobody.get(0, dst)?;
    nobody.get_blocking(0, &mut [0; 2])?;
    nobody.get_strided(COLUMN, column, 0..2)?;
    nobody.accumulate(Op::Sum, 0, src)?;
    nobody.accumulate_blocking(Op::Sum, 0, src)?;
    nobody.accumulate_value(Op::Sum, 0, 1)?;
    nobody.accumulate_strided(Op::Sum, COLUMN, src, 0..2)?;
    nobody.get_accumulate(Op::Sum, 0, src, fetched)?;
    nobody.store(0, 1)?;
    assert_eq!(nobody.load(0)?, 0);
    assert_eq!(nobody.get_vec(7, 2)?, [0, 0]);
    assert_eq!(nobody.fetch_add(0, 1)?, 0);
    assert_eq!(nobody.fetch_and_op(Op::Replace, 0, 1)?, 0);
    assert_eq!(nobody.compare_swap(0, 0, 1)?, 0);
    let error = nobody.accumulate(Op::Minloc, 0, src).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Op, "{error}");
    let error = nobody.get_vec(0, usize::MAX).unwrap_err();
    assert_eq!(error.class(), ErrorClass::NoMem, "{error}");
    Ok(())
}

fn operations_on_nobody_take_place_nowhere(job: &Job) -> Result<()> {
    let all = job.world().group();
    let mut window = Window::<u64>::create(job.world(), vec![5, 6])?;
    let src = [1, 2];
    let mut found = [[[3, 4]; 3]; 3];
    let [fence, exchange, passive] = &mut found;
    window.fence(|epoch| all_on(&epoch.target(None)?, &src, fence))?;
    window.exchange(all, all, |epoch| {
        all_on(&epoch.target(None)?, &src, exchange)
    })?;
    window.passive(|epoch| {
        let everyone = epoch.lock_all()?;
        let nobody = everyone.target(None)?;
        all_on(&nobody, &src, passive)?;
        assert_eq!(epoch.notifications(0)?, 0);
        everyone.unlock()
    })?;
    assert_eq!(found, [[[3, 4]; 3]; 3]);
    assert_eq!(window.local()?, [5, 6]);
    window.free()
}

fn requests_of_nobody_are_complete(job: &Job) -> Result<()> {
    let mut window = Window::<u64>::create(job.world(), vec![5])?;
    let (mut put, mut got, mut added) = ([1], [2], [3]);
    window.passive(|epoch| {
        let everyone = epoch.lock_all()?;
        let nobody = everyone.target(None)?;
        assert_eq!(nobody.rput(0, &mut put)?.wait()?, &[1]);
        assert_eq!(nobody.rget(0, &mut got)?.wait()?, &[2]);
        assert_eq!(nobody.raccumulate(Op::Sum, 0, &mut added)?.wait()?, &[3]);
        assert_eq!(nobody.rput_owned(0, vec![4])?.wait()?, [4]);
        assert_eq!(nobody.rget_owned(0, vec![4])?.wait()?, [4]);
        let summed = nobody.raccumulate_owned(Op::Sum, 0, vec![4])?;
        assert_eq!(summed.wait()?, [4]);
        assert_eq!(nobody.rput_notify_owned(0, vec![4], 9)?.wait()?, [4]);
        nobody.flush()?;
        everyone.flush()
    })?;
    assert_eq!(window.into_vec()?, [5]);
    Ok(())
}

/// Neighbours behind the ends need no case of their own.
fn a_line_has_ends(job: &Job) -> Result<()> {
    let world = job.world();
    let (rank, size) = (world.rank(), world.size());
    let left = rank.checked_sub(1);
    let right = Some(rank + 1).filter(|&right| right < size);
    let mut window = Window::<u32>::create(world, vec![u32::MAX, rank, u32::MAX])?;
    window.fence(|epoch| {
        epoch.target(left)?.put_own(2..3, 1..2)?;
        epoch.target(right)?.put_own(0..1, 1..2)
    })?;
    let or_none = |rank: Option<u32>| rank.unwrap_or(u32::MAX);
    assert_eq!(window.local()?, [or_none(left), rank, or_none(right)]);
    let error = window.fence(|epoch| epoch.target(PROC_NULL).map(drop));
    assert_eq!(error.unwrap_err().class(), ErrorClass::Rank);
    window.free()
}
