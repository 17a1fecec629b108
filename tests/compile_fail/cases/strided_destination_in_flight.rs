//! A strided destination that is read before the epoch has closed.

use transom::{Job, Result, Strided, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 100)?;
    let mut column = [0; 10];
    window.fence(|epoch| {
        let from = Strided { first: 0, blocks: 10, block_len: 1, stride: 10 };
        epoch.target(0)?.get_strided(from, &mut column, 0..10)?;
        assert_eq!(column[0], 0);
        Ok(())
    })?;
    window.free()
}
