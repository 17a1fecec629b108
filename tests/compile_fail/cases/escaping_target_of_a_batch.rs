//! A target that outlives its batch.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    let session = window.open()?;
    let mut out = None;
    session.batch(|batch| {
        out = Some(batch.target(0)?);
        Ok(())
    })?;
    Ok(())
}
