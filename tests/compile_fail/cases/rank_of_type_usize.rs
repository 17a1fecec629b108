//! A rank that is an index.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    let ranks: Vec<usize> = vec![0];
    window.try_fence(|epoch| epoch.target(ranks[0])?.put_value(0, 1))?;
    window.free()
}
