//! Functions that return what an epoch hands out name the epoch's first lifetime alone.

use transom::{Epoch, Job, Lock, LockKind, Passive, Result, Window};

fn first<'op>(epoch: &Epoch<'op, '_, u64, Passive>) -> Result<Lock<'op, u64>> {
    epoch.lock(0, LockKind::Shared)
}

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    window.passive(|epoch| first(epoch)?.unlock())?;
    window.free()
}
