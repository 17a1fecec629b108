use transom::{Job, Op, Result, ValueIndex, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let world = job.world();
    let (rank, size) = (world.rank(), world.size());

    // Which rank has the greatest value? All ranks ask on rank 0, at the same time.
    let mut window = Window::<ValueIndex<f32>>::allocate(world, 1)?;
    let mine = ValueIndex {
        value: 1.0 + (rank * 5 % size) as f32,
        index: rank as i32,
    };
    window.fence(|epoch| epoch.target(0)?.accumulate_value(Op::Maxloc, 0, mine))?;

    // An atomic read: as an accumulate, it may meet others.
    let winner = window.fence(|epoch| epoch.target(0)?.load(0))?;
    let values = (0..size).map(|rank| 1.0 + (rank * 5 % size) as f32);
    assert_eq!(winner.value, values.fold(0.0, f32::max));
    window.free()
}
