use transom::{Block2d, Job, Result, Strided, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let world = job.world();
    let right = (world.rank() + 1) % world.size();

    // A matrix of 4 rows and 6 columns on every rank.
    let mut window = Window::<f64>::allocate(world, 4 * 6)?;
    let values = [1.0, 2.0, 3.0, 4.0];
    let third_column = Strided {
        first: 2,
        blocks: 4,
        block_len: 1,
        stride: 6,
    };
    let lower_right = Block2d {
        width: 6,
        row: 2,
        column: 4,
        rows: 2,
        columns: 2,
    };
    window.fence(|epoch| {
        let target = epoch.target(right)?;
        target.put_strided(third_column, &values, 0..4)?;
        target.put_strided(lower_right, &values, 0..4)
    })?;

    let rows: Vec<_> = window.local()?.chunks(6).collect();
    assert_eq!(rows[0], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(rows[3], [0.0, 0.0, 4.0, 0.0, 3.0, 4.0]);
    window.free()
}
