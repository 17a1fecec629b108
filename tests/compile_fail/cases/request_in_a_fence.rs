//! A request in an epoch of fences.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    let mut buffer = [0];
    window.fence(|epoch| {
        epoch.target(0)?.rget(0, &mut buffer)?;
        Ok(())
    })?;
    Ok(())
}
