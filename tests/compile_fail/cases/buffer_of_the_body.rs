//! A buffer of the body's own, which is gone before the epoch closes.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    window.fence(|epoch| {
        let mut buffer = [0];
        epoch.target(0)?.get(0, &mut buffer)
    })?;
    Ok(())
}
