//! An epoch used by another thread.

use std::thread;

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    window.fence(|epoch| {
        thread::scope(|scope| {
            scope.spawn(|| epoch.target(0).map(|_| ()));
        });
        Ok(())
    })?;
    Ok(())
}
