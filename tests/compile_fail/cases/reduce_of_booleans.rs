//! A reduction of truth values.

use transom::{Job, Op, Result};

fn main() -> Result<()> {
    let job = Job::init()?;
    job.world().allreduce_value(true, Op::Land)?;
    Ok(())
}
