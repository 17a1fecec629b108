//! A target whose lock of all was given back.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    let src = [1];
    window.passive(|epoch| {
        let all = epoch.lock_all()?;
        let target = all.target(0)?;
        all.unlock()?;
        target.put(0, &src)
    })?;
    Ok(())
}
