//! A window that was freed.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let window = Window::<u64>::allocate(job.world(), 8)?;
    window.free()?;
    window.local()?;
    Ok(())
}
