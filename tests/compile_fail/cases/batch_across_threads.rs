//! A batch used by another thread.

use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    let session = window.open()?;
    session.batch(|batch| {
        std::thread::scope(|scope| {
            scope.spawn(|| batch.target(0).map(|_| ()));
        });
        Ok(())
    })?;
    Ok(())
}
