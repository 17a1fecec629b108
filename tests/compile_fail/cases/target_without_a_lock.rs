//! An unlocked target in a passive epoch.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    window.passive(|epoch| {
        epoch.target(0);
        Ok(())
    })?;
    Ok(())
}
