//! An accumulate on a type that has none.

use transom::{Job, Op, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u128>::allocate(job.world(), 8)?;
    window.fence(|epoch| epoch.target(0)?.accumulate(Op::Sum, 0, &[1]))?;
    Ok(())
}
