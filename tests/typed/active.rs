//! Epochs between fences.

use transom::{ErrorClass, Info, Job, Op, Result, Window};

use crate::{Scenario, scenarios};

pub(crate) fn scenarios() -> Vec<Scenario> {
    scenarios![
        puts_and_gets_arrive: 4,
        accumulates_and_atomics_add_up: 4,
        buffers_of_the_body_need_blocking_calls: 3,
        errors_of_the_body_leave_the_window_usable: 2,
        elements_of_different_sizes_are_refused: 3,
        sizes_and_hints_that_no_rank_can_have: 2,
        alignment_is_that_of_the_element: 2,
    ]
}

fn around(job: &Job, distance: u32) -> u32 {
    (job.world().rank() + distance) % job.world().size()
}

fn puts_and_gets_arrive(job: &Job) -> Result<()> {
    let world = job.world();
    let mut window = Window::<u64>::allocate(world, 8)?;
    assert_eq!(window.local()?, [0; 8]);
    for round in 0..50 {
        let mine = |rank: u32| u64::from(rank) << 32 | round;
        window.local_mut()?[7] = mine(world.rank());
        let src = [mine(world.rank()); 3];
        let mut dst = [0; 2];
        window.fence(|epoch| {
            epoch.target(around(job, 1))?.put(2, &src)?;
            epoch.target(around(job, 2))?.get(7, &mut dst[1..])
        })?;
        let left = mine(around(job, world.size() - 1));
        assert_eq!(window.local()?[2..5], [left; 3]);
        assert_eq!(dst, [0, mine(around(job, 2))]);
    }
    window.free()
}

fn accumulates_and_atomics_add_up(job: &Job) -> Result<()> {
    let world = job.world();
    let size = u64::from(world.size());
    let mut sums = Window::<f64>::allocate(world, 1000)?;
    let terms: Vec<f64> = (0..1000).map(f64::from).collect();
    sums.fence(|epoch| {
        for rank in 0..world.size() {
            epoch.target(rank)?.accumulate(Op::Sum, 0, &terms)?;
        }
        Ok(())
    })?;
    let expected = terms.iter().map(|term| term * f64::from(world.size()));
    assert!(expected.eq(sums.local()?.iter().copied()));
    sums.free()?;

    let mut words = Window::<i32>::allocate(world, 4)?;
    let ones = [1, -1];
    let tickets = words.fence(|epoch| -> Result<Vec<i32>> {
        let target = epoch.target(0)?;
        target.accumulate(Op::Sum, 2, &ones)?;
        // Exactly one rank takes the slot.
        let old = target.compare_swap(1, 0, 1 + world.rank() as i32)?;
        assert_ne!(old, 1 + world.rank() as i32);
        (0..100).map(|_| target.fetch_add(0, 1)).collect()
    })?;
    assert!(tickets.is_sorted_by(|a, b| a < b));
    let total: i64 = tickets.iter().map(|&ticket| i64::from(ticket)).sum();
    let total: i64 = world.allreduce(&[total], Op::Sum)?[0];
    let count = 100 * size as i64;
    assert_eq!(
        total,
        count * (count - 1) / 2,
        "every ticket was drawn once"
    );
    if world.rank() == 0 {
        let [drawn, slot, up, down] = words.local()? else {
            unreachable!()
        };
        assert_eq!(
            [*drawn, *up, *down],
            [count as i32, size as i32, -(size as i32)]
        );
        assert!((1..=size as i32).contains(slot));
    }
    words.free()
}

fn buffers_of_the_body_need_blocking_calls(job: &Job) -> Result<()> {
    let world = job.world();
    let mut window = Window::<u64>::allocate(world, 2)?;
    window.local_mut()?[0] = u64::from(world.rank());
    window.fence(|epoch| {
        let mut next = around(job, 1);
        // Follows a chain that only the memory knows.
        for step in 2..=world.size() {
            let mut found = [0];
            epoch.target(next)?.get_blocking(0, &mut found)?;
            assert_eq!(found, [u64::from(next)]);
            next = (found[0] as u32 + 1) % world.size();
            assert_eq!(next, around(job, step));
        }
        let answer = [u64::from(next) + 100];
        epoch.target(around(job, 1))?.put_blocking(1, &answer)
    })?;
    let left = around(job, world.size() - 1);
    assert_eq!(window.local()?[1], u64::from(left) + 100);
    window.free()
}

fn errors_of_the_body_leave_the_window_usable(job: &Job) -> Result<()> {
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    let src = [1; 3];
    for at in [6, 8, usize::MAX / 8, usize::MAX] {
        let put = window.fence(|epoch| epoch.target(1)?.put(at, &src));
        let error = put.unwrap_err();
        assert_eq!(error.class(), ErrorClass::RmaRange);
        assert_eq!(
            error.to_string(),
            format!(
                "put: displacement {at} × unit 8 + 24 bytes ends past rank 1's window of 64 bytes"
            )
        );
    }
    let error = window
        .fence(|epoch| epoch.target(2).map(|_| ()))
        .unwrap_err();
    assert_eq!(error.class(), ErrorClass::Rank);
    let error = window
        .fence(|epoch| epoch.target(0)?.fetch_and_op(Op::Minloc, 0, 1))
        .unwrap_err();
    assert_eq!(error.class(), ErrorClass::Op);
    assert!(!window.is_poisoned());
    window.fence(|epoch| epoch.target(1)?.put(5, &src))?;
    assert_eq!(window.local()?[7], u64::from(job.world().rank()));
    window.free()
}

fn elements_of_different_sizes_are_refused(job: &Job) -> Result<()> {
    let world = job.world();
    let error = if world.rank() == 1 {
        Window::<u32>::allocate(world, 8).map(|_| ()).unwrap_err()
    } else {
        Window::<u64>::allocate(world, 8).map(|_| ()).unwrap_err()
    };
    let expected = match world.rank() {
        1 => "window: rank 0 disagrees: elements of 4 bytes here, elements of 8 bytes there",
        _ => "window: rank 1 disagrees: elements of 8 bytes here, elements of 4 bytes there",
    };
    assert_eq!(error.to_string(), expected);
    Window::<u32>::allocate(world, 8)?.free()
}

fn sizes_and_hints_that_no_rank_can_have(job: &Job) -> Result<()> {
    let world = job.world();
    let len = [8, usize::MAX / 4][world.rank() as usize];
    let error = Window::<u64>::allocate(world, len).map(|_| ()).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Size, "{error}");
    let hints = [Info::new(), Info::new().with("no_locks", "maybe")];
    let hints = &hints[world.rank() as usize];
    let error = Window::create_with(world, vec![0u8; 9], hints)
        .map(|_| ())
        .unwrap_err();
    assert!(error.to_string().contains("no_locks=\"maybe\""), "{error}");
    Ok(())
}

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(16384))]
pub(crate) struct Wide(pub(crate) [u64; 2048]);

fn alignment_is_that_of_the_element(job: &Job) -> Result<()> {
    let mut window = Window::<Wide>::allocate(job.world(), 2)?;
    assert!(window.local()?.as_ptr().addr().is_multiple_of(16384));
    let src = Box::new([Wide([7; 2048])]);
    window.fence(|epoch| epoch.target(around(job, 1))?.put(1, &src[..]))?;
    assert_eq!(window.local()?[0].0, [0; 2048]);
    assert_eq!(window.local()?[1].0, [7; 2048]);
    window.free()
}
