//! A lock that outlives its epoch.

use transom::{Job, LockKind, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    let mut out = None;
    window.passive(|epoch| {
        out = Some(epoch.lock(0, LockKind::Shared)?);
        Ok(())
    })?;
    Ok(())
}
