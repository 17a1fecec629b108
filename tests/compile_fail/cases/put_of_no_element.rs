//! A put of something that is no element.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    let src = [String::new()];
    window.fence(|epoch| epoch.target(0)?.put(0, &src))?;
    Ok(())
}
