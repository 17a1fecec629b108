//! A job that is left while a window borrows its communicator.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let window = Window::<u64>::allocate(job.world(), 8)?;
    job.finish()?;
    window.free()
}
