//! A part that is kept beyond the epoch in which nobody writes to it.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate_shared(job.world(), 8)?;
    let part = window.loads(|epoch| epoch.part(0))?;
    println!("{part:?}");
    window.free()
}
