//! A buffer that is freed while it is registered.

use transom::{Job, Result};

fn main() -> Result<()> {
    let job = Job::init()?;
    let src = vec![0_u64; 8];
    job.while_registered(&src, |_| {
        drop(src);
        Ok(())
    })
}
