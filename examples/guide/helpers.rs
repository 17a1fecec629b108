use transom::{Active, Epoch, Job, LockKind, Op, Passive, Result, Target, Window};

const BINS: usize = 10;

/// Adds a value to a histogram that is dealt out over the ranks. No lifetime is named.
fn count(epoch: &Epoch<f64, Passive>, value: u32) -> Result<()> {
    let lock = epoch.lock(value % epoch.ranks(), LockKind::Shared)?;
    add(&lock, value, 1.0)?;
    lock.unlock()
}

/// A lock is also the target that it locks.
fn add(target: &Target<f64, Passive>, value: u32, weight: f64) -> Result<()> {
    target.accumulate_value(Op::Sum, value as usize % BINS, weight)
}

/// A buffer is lent for the lifetime that the epoch names first.
fn send<'op>(epoch: &Epoch<'op, '_, f64, Active>, bins: &'op [f64]) -> Result<()> {
    epoch.target(0)?.accumulate(Op::Sum, 0, bins)
}

fn main() -> Result<()> {
    let job = Job::init()?;
    let world = job.world();
    let mut histogram = Window::<f64>::allocate(world, BINS)?;
    histogram.passive(|epoch| {
        for number in 0..100 {
            count(epoch, world.rank() * 100 + number)?;
        }
        Ok(())
    })?;

    // All bins are added up on rank 0.
    let mine = histogram.local()?.to_vec();
    if world.rank() == 0 {
        histogram.local_mut()?.fill(0.0);
    }
    histogram.fence(|epoch| send(epoch, &mine))?;
    if world.rank() == 0 {
        let all: f64 = histogram.local()?.iter().sum();
        assert_eq!(all, 100.0 * f64::from(world.size()));
    }
    histogram.free()
}
