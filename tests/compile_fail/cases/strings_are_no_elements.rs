//! A window of something that owns memory.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    Window::<String>::allocate(job.world(), 8)?;
    Ok(())
}
