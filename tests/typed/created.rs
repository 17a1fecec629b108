//! Windows that are created from vectors, and give them back.

use transom::{ErrorClass, Info, Job, Op, Result, Window};

use crate::active::Wide;
use crate::{Scenario, scenarios};

pub(crate) fn scenarios() -> Vec<Scenario> {
    scenarios![
        created_windows_serve_their_vector: 3,
        vectors_come_back: 3,
        allocated_windows_become_vectors: 2,
        vectors_of_no_elements: 2,
        vectors_of_wide_elements: 2,
        what_fails_gives_the_vector_back: 2,
        elements_of_another_size_give_the_vector_back: 2,
        created_windows_are_as_allocated_ones: 2,
        dropped_windows_stay_for_the_others: 2,
    ]
}

fn around(job: &Job, distance: u32) -> u32 {
    (job.world().rank() + distance) % job.world().size()
}

fn created_windows_serve_their_vector(job: &Job) -> Result<()> {
    let world = job.world();
    let len = |rank: u32| rank as usize * 3000;
    let memory: Vec<u32> = (0..len(world.rank()) as u32).collect();
    let mut window = Window::create(world, memory)?;
    assert_eq!(
        (window.len(), window.is_empty()),
        (len(world.rank()), world.rank() == 0)
    );
    for rank in 0..world.size() {
        assert_eq!(window.len_of(rank)?, len(rank));
    }
    let next = around(job, 1);
    let mut all = vec![0; len(next)];
    window.fence(|epoch| epoch.target(next)?.get(0, &mut all))?;
    assert!((0..).zip(&all).all(|(index, &found)| index == found));
    let new = vec![world.rank(); len(next) / 2];
    window.fence(|epoch| epoch.target(next)?.put(len(next) / 2, &new))?;
    let half = window.local()?.split_at(len(world.rank()) / 2);
    assert!((0..).zip(half.0).all(|(index, &found)| index == found));
    assert!(half.1.iter().all(|&found| found == around(job, 2)));
    window.free()
}

fn vectors_come_back(job: &Job) -> Result<()> {
    let world = job.world();
    let ones = vec![1_u32; 100_000];
    for len in [1, 5, 1000, 100_000] {
        let window_of = |first: u32| Window::create(world, (first..first + len).collect());
        let mut window = window_of(world.rank())?;
        window.fence(|epoch| {
            for rank in 0..world.size() {
                let target = epoch.target(rank)?;
                target.accumulate(Op::Sum, 0, &ones[..len as usize])?;
            }
            Ok(())
        })?;
        let first = world.rank() + world.size();
        assert!(window.into_vec()?.into_iter().eq(first..first + len));
    }
    Ok(())
}

fn allocated_windows_become_vectors(job: &Job) -> Result<()> {
    let mut window = Window::<u64>::allocate(job.world(), 3)?;
    window.local_mut()?[0] = 5;
    let seven = [7];
    window.fence(|epoch| epoch.target(around(job, 1))?.put(2, &seven))?;
    assert_eq!(window.into_vec()?, [5, 0, 7]);
    Ok(())
}

fn vectors_of_no_elements(job: &Job) -> Result<()> {
    let world = job.world();
    let len = [0, 3][world.rank() as usize];
    let mut window = Window::create(world, vec![1_u16; len])?;
    assert_eq!((window.len(), window.local()?.len()), (len, len));
    let (src, mut dst) = ([9, 9], [0; 3]);
    window.fence(|epoch| {
        assert!(epoch.target(0)?.put(0, &src).is_err());
        epoch.target(0)?.put(0, &[])?;
        epoch.target(1)?.get(0, &mut dst)
    })?;
    assert_eq!(dst, [1; 3]);
    assert_eq!(window.into_vec()?, vec![1; len]);
    Ok(())
}

fn vectors_of_wide_elements(job: &Job) -> Result<()> {
    let memory: Vec<Wide> = (0..3).map(|value| Wide([value; 2048])).collect();
    let mut window = Window::create(job.world(), memory)?;
    assert!(window.local()?.as_ptr().addr().is_multiple_of(16384));
    let src = Box::new([Wide([7; 2048])]);
    window.fence(|epoch| epoch.target(around(job, 1))?.put(1, &src[..]))?;
    let values = window.into_vec()?.into_iter().map(|wide| wide.0[2047]);
    assert!(values.eq([0, 7, 2]));
    Ok(())
}

/// On every rank, whichever of them is at fault.
fn what_fails_gives_the_vector_back(job: &Job) -> Result<()> {
    let world = job.world();
    let mine = vec![world.rank(); 10];
    let place = mine.as_ptr();
    let hints = [Info::new(), Info::new().with("no_locks", "maybe")];
    let refused = Window::try_create(world, mine, &hints[world.rank() as usize]);
    let (mine, error) = refused.map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("no_locks=\"maybe\""), "{error}");
    assert_eq!((mine.as_ptr(), &*mine), (place, &[world.rank(); 10][..]));
    assert_eq!(Window::create(world, mine)?.into_vec()?, [world.rank(); 10]);
    Ok(())
}

fn elements_of_another_size_give_the_vector_back(job: &Job) -> Result<()> {
    let world = job.world();
    let error = if world.rank() == 0 {
        let refused = Window::try_create(world, vec![1_u8; 4], &Info::new());
        let (mine, error) = refused.map(|_| ()).unwrap_err();
        assert_eq!(mine, [1; 4]);
        error
    } else {
        Window::create(world, vec![1_u16; 4])
            .map(|_| ())
            .unwrap_err()
    };
    assert!(error.to_string().contains("disagrees"), "{error}");
    assert_ne!(error.class(), ErrorClass::Other, "{error}");
    Window::create(world, vec![2_u8])?.free()
}

/// Nothing of the target's has to run for one that would not have to for the other.
fn created_windows_are_as_allocated_ones(job: &Job) -> Result<()> {
    let created = Window::create(job.world(), vec![1_u64; 100])?;
    let allocated = Window::<u64>::allocate(job.world(), 100)?;
    assert_eq!(created.progress(), allocated.progress());
    created.free()?;
    allocated.free()
}

/// Its rank has nothing to free any more, and the others may still access it.
fn dropped_windows_stay_for_the_others(job: &Job) -> Result<()> {
    let world = job.world();
    for round in 0..20 {
        let mut window = Window::create(world, vec![round; 5000])?;
        window.fence(|_| Ok(()))?;
        drop(window);
        assert!(vec![0_u64; 5000].iter().all(|&word| word == 0));
    }
    world.barrier()
}
