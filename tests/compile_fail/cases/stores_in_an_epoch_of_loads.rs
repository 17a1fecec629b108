//! Writing where others read.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate_shared(job.world(), 8)?;
    window.loads(|epoch| {
        window.local_mut()?[0] = epoch.part(0)?[1];
        Ok(())
    })?;
    window.free()
}
