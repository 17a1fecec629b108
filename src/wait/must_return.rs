//! Code of the program that a wait calls. It must return: the device may be using buffers of the waiting thread, which
//! a panic would release.

use std::mem;
use std::process;

struct MustReturn(&'static str);

impl Drop for MustReturn {
    fn drop(&mut self) {
        eprintln!("transom: {} panicked: aborting the process", self.0);
        process::abort();
    }
}

/// Runs `body`, which is described by `name`. A panic there ends the process.
pub(super) fn must_return<R>(name: &'static str, body: impl FnOnce() -> R) -> R {
    let returns = MustReturn(name);
    let result = body();
    mem::forget(returns);
    result
}
