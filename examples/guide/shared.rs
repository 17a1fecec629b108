use transom::raw::{Assert, Window};
use transom::{Info, Job, Result};

fn main() -> Result<()> {
    let job = Job::init()?;
    // The ranks that can share memory with this one: those of one host, on every device.
    let host = job.world().split_shared(0)?;
    let window = Window::allocate_shared(&host, 8, 8, &Info::new())?;

    window.lock_all(Assert::NONE)?;
    // SAFETY: eight bytes of this rank, which nobody else touches before the barrier.
    unsafe { window.base().cast::<u64>().write(u64::from(host.rank())) };
    // As in MPI: a sync on each side of the barrier that orders the stores before the loads.
    window.sync()?;
    host.barrier()?;
    window.sync()?;
    for rank in 0..host.size() {
        let part = window.shared_query(Some(rank))?;
        // SAFETY: eight bytes that are mapped here, and that nobody writes to after the barrier.
        let found = unsafe { part.base.cast::<u64>().read() };
        assert_eq!(found, u64::from(rank));
    }
    window.unlock_all()?;
    window.free()
}
