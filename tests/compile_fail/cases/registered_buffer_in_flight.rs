//! A registered buffer that a put may still read.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    let src = job.alloc::<u64>(8)?;
    window.fence(|epoch| {
        epoch.target(0)?.put(0, &src)?;
        drop(src);
        Ok(())
    })?;
    Ok(())
}
