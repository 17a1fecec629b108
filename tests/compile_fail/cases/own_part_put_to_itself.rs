//! One's own part under its lock, as the source of a put to that same part.

use transom::{Job, LockKind, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    window.passive(|epoch| {
        let mut lock = epoch.lock(0, LockKind::Exclusive)?;
        let part = lock.local_mut()?;
        lock.put_blocking(4, part)
    })?;
    Ok(())
}
