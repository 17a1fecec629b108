//! An epoch inside of a session.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    let session = window.open()?;
    window.fence(|_| Ok(()))?;
    session.store(0, 0, 1)?;
    Ok(())
}
