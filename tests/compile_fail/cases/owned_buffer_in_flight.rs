//! A vector that a request owns.

use transom::{Job, LockKind, Op, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<f64>::allocate(job.world(), 8)?;
    window.passive(|epoch| {
        let lock = epoch.lock(0, LockKind::Shared)?;
        let mut terms = vec![1.0; 8];
        let request = lock.raccumulate_owned(Op::Sum, 0, terms)?;
        terms[0] = 2.0;
        request.wait()?;
        lock.unlock()
    })?;
    window.free()
}
