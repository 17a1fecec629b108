//! An error of a body, in an epoch that does not say of which type it is.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    let src = [1];
    window.fence(|epoch| {
        epoch.target(0)?.put(0, &src)?;
        Ok(())
    })??;
    window.free()
}
