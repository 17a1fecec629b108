//! A window of elements without a byte.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    Window::<()>::allocate(job.world(), 8)?;
    Ok(())
}
