use transom::{Job, Op, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let world = job.world();
    let (rank, size) = (world.rank(), world.size());
    let mut window = Window::<f64>::allocate(world, 10)?;

    // A histogram over all ranks: who computes is not kept from it by who adds to it.
    window.passive(|epoch| {
        let everyone = epoch.lock_all()?;
        for number in 0..100 {
            let value = (rank * 100 + number) * 7;
            let place = everyone.target(value % size)?;
            place.accumulate_value(Op::Sum, value as usize % 10, 1.0)?;
        }
        // Complete at all targets; the locks stay.
        everyone.flush()?;
        everyone.unlock()
    })?;
    let mine: f64 = window.local()?.iter().sum();
    assert_eq!(
        world.allreduce_value(mine, Op::Sum)?,
        100.0 * f64::from(size)
    );
    window.free()
}
