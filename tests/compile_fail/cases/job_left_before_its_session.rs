//! A session of a borrowed communicator, used after its job was left.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let session = Window::<u64>::allocate(job.world(), 8)?.into_session()?;
    job.finish()?;
    session.store(0, 0, 1)
}
