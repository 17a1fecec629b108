//! Whether the command was started with its standard output closed. Rust's runtime opens /dev/null in its place, so this
//! looks before the runtime starts.

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

pub(super) fn was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

extern "C" fn look() {
    // SAFETY: fcntl takes integers here.
    let closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } < 0;
    CLOSED.store(closed, Ordering::Relaxed);
}

// SAFETY: the linker's section is an array of such functions. The loader calls each once, after it has resolved the
// symbols of libc; `look` needs nothing of Rust's runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;
