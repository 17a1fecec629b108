//! The same with the lifetimes that the compiler proposes.

use transom::{Epoch, Job, Lock, LockKind, Passive, Result, Window};

fn first<'a>(epoch: &'a Epoch<'a, 'a, u64, Passive>) -> Result<Lock<'a, u64>> {
    epoch.lock(0, LockKind::Shared)
}

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    window.passive(|epoch| first(epoch)?.unlock())?;
    window.free()
}
