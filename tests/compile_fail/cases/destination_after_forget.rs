//! A buffer whose request was forgotten.

use std::mem;

use transom::{Job, LockKind, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    let mut dst = [0; 2];
    window.passive(|epoch| {
        let lock = epoch.lock(0, LockKind::Shared)?;
        mem::forget(lock.rget(0, &mut dst)?);
        println!("{}", dst[0]);
        lock.unlock()
    })?;
    Ok(())
}
