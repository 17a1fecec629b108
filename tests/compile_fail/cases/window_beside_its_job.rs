//! A value that holds a job and a window that borrows from it.

use transom::{Job, Result, Window};

struct Program<'c> {
    job: Job,
    window: Window<'c, u64>,
}

fn start<'c>() -> Result<Program<'c>> {
    let job = Job::init()?;
    let window = Window::allocate(job.world(), 8)?;
    Ok(Program { job, window })
}

fn main() -> Result<()> {
    start()?.window.free()
}
