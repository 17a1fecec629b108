//! This rank's own part, used after its lock was given back.

use transom::{Job, LockKind, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    window.passive(|epoch| {
        let mut own = epoch.lock(0, LockKind::Exclusive)?;
        let part = own.local_mut()?;
        own.unlock()?;
        epoch.lock(0, LockKind::Shared)?.put_own(4..5, 0..1)?;
        part[0] = 1;
        Ok(())
    })?;
    window.free()
}
