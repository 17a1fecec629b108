use transom::{Job, LockKind, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let world = job.world();
    let right = (world.rank() + 1) % world.size();
    let mut window = Window::<u8>::allocate(world, 1000)?;

    window.passive(|epoch| {
        let lock = epoch.lock(right, LockKind::Shared)?;
        // The request owns the buffer, and gives it back when the put needs it no more.
        let mut buffer = vec![0; 100];
        for block in 0..10_u8 {
            buffer.fill(block);
            let request = lock.rput_owned(100 * usize::from(block), buffer)?;
            // Other work goes here.
            buffer = request.wait()?;
        }
        lock.flush()?;
        let found = lock.rget_owned(900, buffer)?.wait()?;
        assert_eq!(found, [9; 100]);
        lock.unlock()
    })?;
    window.free()
}
