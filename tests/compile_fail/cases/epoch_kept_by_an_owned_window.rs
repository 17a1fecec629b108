//! An epoch of an owned window that is nested in another of the same.

use transom::{Job, OwnedWindow, Result, Window};

struct Queue {
    window: OwnedWindow<u64>,
}

fn main() -> Result<()> {
    let job = Job::init()?;
    let window = Window::allocate(job.world(), 8)?.into_owned();
    let mut queue = Queue { window };
    queue.window.fence(|_| {
        queue.window.local()?;
        Ok(())
    })?;
    queue.window.free()
}
