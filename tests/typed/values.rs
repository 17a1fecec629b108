//! Operations on values that the epoch's body computes: single ones, vectors, and what it fetches.

use std::thread;

use transom::{Complex, ErrorClass, Job, LockKind, Op, Result, ValueIndex, Window};

use crate::{Scenario, scenarios};

pub(crate) fn scenarios() -> Vec<Scenario> {
    scenarios![
        computed_values_are_accumulated: 3,
        single_values_of_every_kind: 3,
        owned_and_blocking_accumulates: 3,
        loads_and_stores_are_not_torn: 3,
        the_owner_takes_part_in_its_atomics: 3,
        vectors_are_fetched: 2,
        single_structs_are_put_and_fetched: 3,
    ]
}

const ROUNDS: u32 = 100;
/// Of what every rank waits for the others in.
const FEW: u32 = 20;

/// In every kind of epoch, from a value that is gone at once.
fn computed_values_are_accumulated(job: &Job) -> Result<()> {
    let world = job.world();
    let all = world.group();
    let mut window = Window::<f64>::allocate(world, 10)?;
    window.fence(|epoch| {
        for number in 0..ROUNDS {
            let place = number as usize % 10;
            let value = f64::from(number / 10) + 0.5;
            let target = epoch.target(number % world.size())?;
            target.accumulate_value(Op::Sum, place, value)?;
        }
        Ok(())
    })?;
    window.exchange(all, all, |epoch| {
        for rank in 0..world.size() {
            epoch.target(rank)?.accumulate_value(Op::Sum, 0, 1.0)?;
        }
        Ok(())
    })?;
    window.passive(|epoch| {
        let everyone = epoch.lock_all()?;
        for rank in 0..world.size() {
            let target = everyone.target(rank)?;
            target.accumulate_value(Op::Sum, 0, 0.25)?;
        }
        everyone.unlock()
    })?;
    let sum: f64 = window.local()?.iter().sum();
    let once: f64 = (0..ROUNDS).map(|number| f64::from(number / 10) + 0.5).sum();
    let size = f64::from(world.size());
    let total = world.allreduce(&[sum], Op::Sum)?;
    assert_eq!(total, [size * once + size * size * 1.25]);
    window.free()
}

fn single_values_of_every_kind(job: &Job) -> Result<()> {
    let world = job.world();
    let (me, size) = (world.rank(), world.size());
    macro_rules! sums {
        ($($number:ty),*) => {$(
            let mut window = Window::<$number>::allocate(world, 3)?;
            window.fence(|epoch| {
                let target = epoch.target(0)?;
                for _ in 0..10 {
                    target.accumulate_value(Op::Sum, 1, 1 as $number)?;
                }
                Ok(())
            })?;
            if me == 0 {
                let all = (10 * size) as $number;
                assert_eq!(window.local()?, [0 as $number, all, 0 as $number]);
            }
            let old = window.fence(|epoch| {
                epoch.target(me)?.fetch_and_op(Op::Sum, 2, 3 as $number)
            })?;
            assert_eq!((old, window.local()?[2]), (0 as $number, 3 as $number));
            window.free()?;
        )*};
    }
    sums!(i8, u8, i16, u16, i32, u32, i64, u64, f32, f64);
    let mut window = Window::<Complex<f64>>::allocate(world, 1)?;
    let term = Complex { re: 1.0, im: -2.0 };
    window.fence(|epoch| epoch.target(0)?.accumulate_value(Op::Sum, 0, term))?;
    let found = window.fence(|epoch| epoch.target(0)?.load(0))?;
    assert_eq!(
        (found.re, found.im),
        (f64::from(size), -2.0 * f64::from(size))
    );
    window.free()?;
    let mut window = Window::<ValueIndex<f32>>::allocate(world, 1)?;
    window.fence(|epoch| {
        let index = me as i32;
        let mine = ValueIndex { value: 2.5, index };
        epoch.target(0)?.accumulate_value(Op::Maxloc, 0, mine)
    })?;
    let best = window.fence(|epoch| epoch.target(0)?.load(0))?;
    assert_eq!((best.value, best.index), (2.5, 0));
    window.fence(|epoch| {
        let target = epoch.target(0)?;
        let error = target.accumulate_value(Op::Band, 0, best).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Op, "{error}");
        let error = target.accumulate_value(Op::Minloc, 1, best).unwrap_err();
        assert_eq!(error.class(), ErrorClass::RmaRange, "{error}");
        let error = target.accumulate_value(Op::NoOp, 0, best).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Op, "{error}");
        assert!(target.store(1, best).is_err() && target.load(1).is_err());
        Ok(())
    })?;
    window.free()
}

fn owned_and_blocking_accumulates(job: &Job) -> Result<()> {
    let world = job.world();
    let size = world.size();
    let mut window = Window::<f64>::allocate(world, 1000)?;
    window.passive(|epoch| {
        let lock = epoch.lock(0, LockKind::Shared)?;
        let mut terms = Vec::new();
        for round in 0..10 {
            terms.clear();
            terms.extend((0..1000).map(|place| f64::from(round * place)));
            terms = lock.raccumulate_owned(Op::Sum, 0, terms)?.wait()?;
            // It is this rank's again.
            terms.fill(f64::NAN);
            let few: Vec<f64> = (0..round).map(f64::from).collect();
            lock.accumulate_blocking(Op::Sum, 0, &few)?;
        }
        drop(lock.raccumulate_owned(Op::Sum, 999, vec![1.0])?);
        let error = lock.raccumulate_owned(Op::Sum, 999, vec![1.0; 2]);
        assert_eq!(error.unwrap_err().class(), ErrorClass::RmaRange);
        let error = lock.accumulate_blocking(Op::Land, 0, &[1.0]).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Op);
        lock.unlock()
    })?;
    let sum = |place: u32| {
        let few = (0..10).filter(|&round| round > place);
        let more = if place == 999 { 1.0 } else { 0.0 };
        f64::from(45 * place) + few.map(|_| f64::from(place)).sum::<f64>() + more
    };
    if world.rank() == 0 {
        for (place, found) in (0..).zip(window.local()?) {
            assert_eq!(*found, f64::from(size) * sum(place), "{place}");
        }
    }
    window.fence(|epoch| {
        let ones = vec![1.0; 3];
        epoch.target(0)?.accumulate_blocking(Op::Replace, 0, &ones)
    })?;
    if world.rank() == 0 {
        assert_eq!(
            window.local()?[..4],
            [1.0, 1.0, 1.0, f64::from(size) * sum(3)]
        );
    }
    window.free()
}

/// All ranks write values whose parts are alike, to all parts, their own too, and read them.
fn loads_and_stores_are_not_torn(job: &Job) -> Result<()> {
    let world = job.world();
    let me = world.rank();
    macro_rules! torn {
        ($($element:ty: $value:expr),*) => {$(
            let mut window = Window::<$element>::allocate(world, 2)?;
            let values: Vec<$element> = (0..=world.size()).map($value).collect();
            let zero: $element = Default::default();
            window.passive(|epoch| {
                let everyone = epoch.lock_all()?;
                for round in 0..FEW {
                    let target = everyone.target((me + round) % world.size())?;
                    target.store(1, values[(me + round) as usize % values.len()])?;
                    let found = target.load(1)?;
                    assert!(found == zero || values.contains(&found), "{found:?}");
                }
                // Nobody else stores here: what was stored is what is there.
                let own = everyone.target(me)?;
                for value in &values {
                    own.store(0, *value)?;
                    assert_eq!(own.load(0)?, *value);
                }
                everyone.unlock()
            })?;
            window.free()?;
        )*};
    }
    let byte = |rank: u32| 0x11 * (1 + rank as u8);
    torn!(
        u64: |rank| u64::from_ne_bytes([byte(rank); 8]),
        i16: |rank| i16::from_ne_bytes([byte(rank); 2]),
        f64: |rank| f64::from_ne_bytes([byte(rank); 8])
    );
    Ok(())
}

/// A lock word in rank 0's part, which it takes and gives as the others do.
fn the_owner_takes_part_in_its_atomics(job: &Job) -> Result<()> {
    const LOCK: usize = 0;
    const COUNT: usize = 1;
    const ADDED: usize = 2;
    let world = job.world();
    let mut window = Window::<u64>::allocate(world, 3)?;
    window.passive(|epoch| {
        let lock = epoch.lock(0, LockKind::Shared)?;
        let mut last = 0;
        for _ in 0..FEW {
            while lock.compare_swap(LOCK, 0, 1)? != 0 {
                let added = lock.load(ADDED)?;
                assert!(last <= added, "{added} after {last}");
                last = added;
                thread::yield_now();
            }
            let count = lock.load(COUNT)?;
            lock.store(COUNT, count + 1)?;
            lock.store(LOCK, 0)?;
            lock.accumulate_value(Op::Sum, ADDED, 1)?;
        }
        lock.unlock()
    })?;
    if world.rank() == 0 {
        let all = u64::from(FEW * world.size());
        assert_eq!(window.local()?, [0, all, all]);
    }
    window.free()
}

fn vectors_are_fetched(job: &Job) -> Result<()> {
    let world = job.world();
    let (rank, other) = (world.rank(), 1 - world.rank());
    // Parts differ in length.
    let mut window = Window::<u32>::allocate(world, 1000 + rank as usize)?;
    for (place, element) in (0..).zip(window.local_mut()?) {
        *element = 10_000 * rank + place;
    }
    let theirs: Vec<u32> = (10_000 * other..).take(1000 + other as usize).collect();
    let all = world.group();
    let found = window.fence(|epoch| {
        let target = epoch.target(other)?;
        target.get_vec(0, epoch.len_of(other)?)
    })?;
    assert_eq!(found, theirs);
    let found = window.exchange(all, all, |epoch| epoch.target(other)?.get_vec(999, 1))?;
    assert_eq!(found, theirs[999..1000]);
    window.passive(|epoch| {
        let lock = epoch.lock(other, LockKind::Shared)?;
        assert_eq!(lock.get_vec(7, 3)?, theirs[7..10]);
        assert_eq!(lock.get_vec(theirs.len(), 0)?, []);
        let error = lock.get_vec(990, 1000).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "get_vec: displacement 990 × unit 4 + 4000 bytes ends past rank {other}'s window of \
                 {} bytes",
                4 * theirs.len()
            )
        );
        for (at, len) in [(0, usize::MAX), (usize::MAX, 1), (usize::MAX, usize::MAX)] {
            let error = lock.get_vec(at, len).unwrap_err();
            assert_eq!(error.class(), ErrorClass::RmaRange, "{error}");
        }
        lock.unlock()
    })?;
    window.free()
}

#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Cell {
    place: u64,
    height: f32,
    flux: [f32; 3],
}

fn single_structs_are_put_and_fetched(job: &Job) -> Result<()> {
    let world = job.world();
    let (rank, size) = (world.rank(), world.size());
    let right = (rank + 1) % size;
    let cell = |rank: u32, place: usize| Cell {
        place: place as u64,
        height: rank as f32,
        flux: [0.5; 3],
    };
    let mut window = Window::<Cell>::allocate(world, 100)?;
    window.fence(|epoch| {
        let target = epoch.target(right)?;
        // Each value is gone before the next.
        (0..100).try_for_each(|place| target.put_value(place, cell(rank, place)))?;
        let error = target.put_value(100, cell(0, 0)).unwrap_err();
        assert_eq!(error.class(), ErrorClass::RmaRange, "{error}");
        let error = target.get_value(100).unwrap_err();
        assert_eq!(error.class(), ErrorClass::RmaRange, "{error}");
        let nobody = epoch.target(None)?;
        nobody.put_value(0, cell(0, 0))?;
        assert_eq!(nobody.get_value(0)?, Cell::default());
        Ok(())
    })?;
    let left = (rank + size - 1) % size;
    assert!((0..100).all(|place| {
        window
            .local()
            .is_ok_and(|own| own[place] == cell(left, place))
    }));
    let fetched = window.passive(|epoch| epoch.lock(right, LockKind::Shared)?.get_value(7))?;
    assert_eq!(fetched, cell(rank, 7));
    window.free()
}
