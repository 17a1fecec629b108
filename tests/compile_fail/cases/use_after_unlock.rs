//! A target whose lock was given back.

use transom::{Job, LockKind, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    let src = [1];
    window.passive(|epoch| {
        let lock = epoch.lock(0, LockKind::Shared)?;
        let target = lock.target();
        lock.unlock()?;
        target.put(0, &src)
    })?;
    Ok(())
}
