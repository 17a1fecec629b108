//! An atomic on a float.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<f64>::allocate(job.world(), 8)?;
    window.fence(|epoch| epoch.target(0)?.fetch_add(0, 1.0))?;
    Ok(())
}
