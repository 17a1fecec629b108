//! A lock that a function takes, and that outlives its epoch.

use transom::{Epoch, Job, Lock, LockKind, Passive, Result, Window};

fn lock<'op>(epoch: &Epoch<'op, '_, u64, Passive>) -> Result<Lock<'op, u64>> {
    epoch.lock(0, LockKind::Shared)
}

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    let mut kept = None;
    window.passive(|epoch| {
        kept = Some(lock(epoch)?);
        Ok(())
    })?;
    window.free()
}
