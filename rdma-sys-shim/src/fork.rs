//! What a forked child inherits and has to leave alone.

use std::mem::ManuallyDrop;
use std::ops::Deref;

/// A resource that the device or other processes associate with this process. A forked child has a copy. If the child
/// drops it, it is leaked, since releasing it would take it from the parent.
pub(crate) struct OfProcess<T> {
    inner: ManuallyDrop<T>,
    pid: u32,
}

impl<T> OfProcess<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self {
            inner: ManuallyDrop::new(inner),
            pid: std::process::id(),
        }
    }
}

impl<T> Deref for OfProcess<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if self.pid == std::process::id() {
            // SAFETY: it is not used after this drop.
            unsafe { ManuallyDrop::drop(&mut self.inner) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn only_the_process_that_made_it_gives_it_back() {
        let count = Rc::new(());
        let here = OfProcess::new(count.clone());
        let mut elsewhere = OfProcess::new(count.clone());
        elsewhere.pid = 0;
        drop(elsewhere);
        assert_eq!(Rc::strong_count(&count), 3);
        drop(here);
        assert_eq!(Rc::strong_count(&count), 2);
    }
}
