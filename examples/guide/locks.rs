use transom::{Job, LockKind, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let world = job.world();
    let mut window = Window::<i64>::allocate(world, 2)?;

    window.passive(|epoch| {
        // Atomics of all ranks go together under shared locks.
        let shared = epoch.lock(0, LockKind::Shared)?;
        let before = shared.fetch_add(0, 1)?;
        assert!(before < i64::from(world.size()));
        shared.unlock()?;

        // Under an exclusive one, this rank is alone: it may get, think, and put.
        let alone = epoch.lock(0, LockKind::Exclusive)?;
        let mut sum = [0];
        alone.get_blocking(1, &mut sum)?;
        sum[0] += 1 + i64::from(world.rank());
        alone.put_blocking(1, &sum)?;
        alone.unlock()
    })?;
    if world.rank() == 0 {
        let size = i64::from(world.size());
        assert_eq!(window.local()?, [size, size * (size + 1) / 2]);
    }
    window.free()
}
