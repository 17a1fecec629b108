use transom::{Job, Result, Window};

/// Which counter says that a message has come, and which that it was read.
const COME: u32 = 0;
const READ: u32 = 1;

fn main() -> Result<()> {
    let job = Job::init()?;
    let world = job.world();
    let (rank, size) = (world.rank(), world.size());
    let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut window = Window::<u64>::allocate(world, 4)?;

    let messages: Vec<[u64; 4]> = (0..10).map(|number| [number; 4]).collect();
    window.passive(|epoch| {
        let everyone = epoch.lock_all()?;
        for (round, message) in (1..).zip(&messages) {
            everyone.target(right)?.put_notify(0, message, COME)?;
            epoch.wait_notify(COME, round)?;
            assert_eq!(epoch.read_own(0..4)?, message);
            // Only now may the left one put its next message there.
            everyone.target(left)?.put_notify(0, &[], READ)?;
            epoch.wait_notify(READ, round)?;
        }
        everyone.unlock()
    })?;
    window.free()
}
