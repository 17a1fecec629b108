//! The time to make and free a window of one page.

use transom::raw::Window;

use super::engine::{Bench, Line, Scale};
use super::error::Result;
use super::memory::ZeroedMemory;
use super::record::What;

const SIZE: usize = 4096;

/// With this memory of the caller, or with memory that the library allocates.
pub(super) fn measure(bench: &mut Bench<'_>, memory: Option<&ZeroedMemory>) -> Result<()> {
    let (comm, info) = (bench.comm, &bench.plan.info);
    bench.group("windows of 4 KiB")?;
    let line = Line {
        name: "create_free_4K",
        what: What::new("create_free", SIZE, "none"),
        iterations: 200,
        scale: Scale::Microseconds,
    };
    bench.measure(line, true, || {
        let window = match memory {
            None => Window::allocate(comm, SIZE, 1, info),
            // SAFETY: the memory is longer and outlives the window (or, after an error, the process ends). Nothing else
            // refers to it, and the process has no other thread.
            Some(memory) => unsafe { Window::create(comm, memory.pointer(), SIZE, 1, info) },
        };
        window?.free()
    })?;
    Ok(())
}
