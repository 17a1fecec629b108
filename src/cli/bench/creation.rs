//! Windows of one page, made and freed again.

use transom::raw::Window;

use super::engine::{Bench, Line, Scale, Subject};
use super::error::Result;
use super::memory::CallerMemory;

pub(super) const LINES: usize = 1;

const LINE: Line<'_> = Line {
    name: "create_free_4K",
    subject: Subject::new("create_free", SIZE, "none"),
    iterations: 200,
    scale: Scale::Microseconds,
};
const SIZE: usize = 4096;
const TITLE: &str = "windows of 4 KiB";

pub(super) fn allocate(bench: &mut Bench<'_>) -> Result<()> {
    let (comm, info) = (bench.comm(), bench.info());
    bench.group(TITLE)?;
    bench.every(LINE, || Window::allocate(comm, SIZE, 1, info)?.free())?;
    Ok(())
}

pub(super) fn create(bench: &mut Bench<'_>, memory: &CallerMemory) -> Result<()> {
    let (comm, info) = (bench.comm(), bench.info());
    bench.group(TITLE)?;
    bench.every(LINE, || {
        // SAFETY: the memory is longer, outlives the window (or, after an error, the process
        // ends), nobody else refers to it, and the process has no other thread.
        unsafe { Window::create(comm, memory.pointer(), SIZE, 1, info)? }.free()
    })?;
    Ok(())
}
