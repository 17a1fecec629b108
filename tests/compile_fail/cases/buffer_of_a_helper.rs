//! A function that lends a buffer without saying for how long.

use transom::{Active, Epoch, Job, Result, Window};

fn send(epoch: &Epoch<u64, Active>, src: &[u64]) -> Result<()> {
    epoch.target(0)?.put(0, src)
}

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    let src = [1];
    window.fence(|epoch| send(epoch, &src))?;
    window.free()
}
