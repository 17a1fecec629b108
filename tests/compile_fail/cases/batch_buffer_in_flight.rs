//! A buffer that a batch may still write to.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    let session = window.open()?;
    let mut buffer = [0];
    session.batch(|batch| {
        batch.target(0)?.get(0, &mut buffer)?;
        batch.target(0)?.store(1, buffer[0])
    })?;
    Ok(())
}
