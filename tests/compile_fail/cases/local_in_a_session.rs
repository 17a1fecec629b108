//! This rank's own part, while it is in a session.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    let session = window.open()?;
    let own = window.local()?;
    session.store(0, 0, own[0])?;
    Ok(())
}
