//! A session that was freed with its window.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let session = Window::<u64>::allocate(job.world(), 8)?.into_session()?;
    session.free()?;
    session.store(0, 0, 1)
}
