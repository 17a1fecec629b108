//! A strided buffer that is read although its request was not waited for.

use transom::{Job, LockKind, Result, Strided, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 100)?;
    let mut column = [0; 10];
    window.passive(|epoch| {
        let lock = epoch.lock(0, LockKind::Shared)?;
        let from = Strided { first: 0, blocks: 10, block_len: 1, stride: 10 };
        let request = lock.rget_strided(from, &mut column, 0..10)?;
        println!("{}", column[0]);
        request.wait()?;
        lock.unlock()
    })?;
    window.free()
}
