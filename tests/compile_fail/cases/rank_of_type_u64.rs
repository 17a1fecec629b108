//! Ranks that are wider than any rank.

use transom::{Job, LockKind, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    let ranks: Vec<u64> = vec![0];
    window.fence(|epoch| epoch.target(ranks[0])?.put_value(0, 1))?;
    window.passive(|epoch| epoch.lock(ranks[0], LockKind::Shared)?.put_value(0, 1))?;
    window.free()
}
