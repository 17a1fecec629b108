//! A buffer of a batch's body, which is gone before the batch is complete.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    let session = window.open()?;
    session.batch(|batch| {
        let mut buffer = [0];
        batch.target(0)?.get(0, &mut buffer)
    })?;
    Ok(())
}
