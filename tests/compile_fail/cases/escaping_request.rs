//! A request that outlives its epoch.

use transom::{Job, LockKind, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    let mut buffer = [0];
    let _request = window.passive(|epoch| {
        let lock = epoch.lock(0, LockKind::Shared)?;
        lock.rget(0, &mut buffer)
    })?;
    Ok(())
}
