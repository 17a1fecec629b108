//! A buffer that a get may still write to.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    let mut dst = [0; 2];
    window.fence(|epoch| {
        epoch.target(0)?.get(0, &mut dst)?;
        dst[0] = 1;
        Ok(())
    })?;
    Ok(())
}
