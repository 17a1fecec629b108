use transom::raw::{Assert, Window};
use transom::{Info, Job, Result};

fn main() -> Result<()> {
    let job = Job::init()?;
    let world = job.world();
    let right = (world.rank() + 1) % world.size();
    // 8 bytes, in displacement units of 8 bytes.
    let window = Window::allocate(world, 8, 8, &Info::new())?;

    let values: Vec<u64> = (0..10).collect();
    // As in MPI, each fence ends one epoch and begins the next.
    window.fence(Assert::NO_PRECEDE)?;
    for value in &values {
        let from = (&raw const *value).cast();
        // SAFETY: `values` outlives the fence that completes the put, and does not change.
        unsafe { window.put(from, 8, right, 0)? };
        window.fence(Assert::NONE)?;
        // SAFETY: behind the fence nobody writes here before the next one.
        assert_eq!(unsafe { window.base().cast::<u64>().read() }, *value);
        window.fence(Assert::NO_PRECEDE)?;
    }
    window.fence(Assert::NO_SUCCEED)?;
    window.free()
}
