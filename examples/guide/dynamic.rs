use transom::raw::{self, Assert, Window};
use transom::{Info, Job, LockKind, Result};

fn main() -> Result<()> {
    let job = Job::init()?;
    let world = job.world();
    let (rank, size) = (world.rank(), world.size());
    let right = (rank + 1) % size;
    let window = Window::create_dynamic(world, &Info::new())?;

    // Memory that comes while the window is there, as much on each rank as it likes.
    let memory = Vec::leak(vec![0_u32; 10 + rank as usize]).as_mut_ptr();
    let bytes = 4 * (10 + rank as usize);
    // SAFETY: leaked, and touched here again only after it was detached.
    unsafe { window.attach(memory.cast(), bytes)? };
    // A displacement is an address at the target, so the target has to tell it.
    let places = world.allgather_value(raw::get_address(memory))?;

    let value = 42 + rank;
    window.lock(LockKind::Exclusive, right, Assert::NONE)?;
    let third = places[right as usize] + 8;
    // SAFETY: a local, and the unlock completes the put.
    unsafe { window.put((&raw const value).cast(), 4, right, third)? };
    window.unlock(right)?;

    world.barrier()?;
    window.detach(memory.cast())?;
    // SAFETY: detached, so that nobody else writes there.
    let found = unsafe { memory.add(2).read() };
    assert_eq!(found, 42 + (rank + size - 1) % size);
    window.free()
}
