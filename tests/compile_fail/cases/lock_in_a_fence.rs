//! A lock in an epoch of fences.

use transom::{Job, LockKind, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    window.fence(|epoch| {
        epoch.lock(0, LockKind::Shared);
        Ok(())
    })?;
    Ok(())
}
