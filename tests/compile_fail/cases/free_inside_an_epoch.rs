//! Freeing a window inside its epoch.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    window.fence(|_| {
        window.free();
        Ok(())
    })?;
    Ok(())
}
