//! A value that the body computes, lent to an accumulate.

use transom::{Job, Op, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<f64>::allocate(job.world(), 8)?;
    window.fence(|epoch| {
        for number in 0..8 {
            let value = f64::from(number) / 2.0;
            epoch.target(0)?.accumulate(Op::Sum, number as usize, &[value])?;
        }
        Ok(())
    })?;
    window.free()
}
