//! A target that outlives its epoch.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    let mut out = None;
    window.fence(|epoch| {
        out = Some(epoch.target(0)?);
        Ok(())
    })?;
    Ok(())
}
