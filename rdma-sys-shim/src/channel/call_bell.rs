//! How the agent wakes threads of its process that sleep until a peer sends a request.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Default)]
pub(super) struct CallBell {
    state: Mutex<State>,
    rung: Condvar,
}

#[derive(Default)]
struct State {
    has_rung: bool,
    sleepers: u32,
}

impl CallBell {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn ring(&self) {
        let mut state = self.state();
        state.has_rung = true;
        // `notify_all` costs a system call even if no thread sleeps.
        if state.sleepers > 0 {
            self.rung.notify_all();
        }
    }

    /// Sleeps until the bell has rung since the last check, or for `limit`.
    pub(super) fn wait(&self, limit: Duration) {
        let mut state = self.state();
        state.sleepers += 1;
        let woken = self
            .rung
            .wait_timeout_while(state, limit, |state| !state.has_rung);
        let (mut state, _) = woken.unwrap_or_else(PoisonError::into_inner);
        state.sleepers -= 1;
    }

    /// Whether the bell has rung since the last check.
    pub(super) fn take(&self) -> bool {
        std::mem::take(&mut self.state().has_rung)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

    use super::*;

    #[test]
    fn it_wakes_a_thread_that_sleeps_and_one_that_is_about_to() {
        const LONG: Duration = Duration::from_secs(60);
        let (bell, begun) = (CallBell::default(), Instant::now());
        bell.ring();
        bell.wait(LONG);
        assert!(bell.take());
        assert!(!bell.take());
        thread::scope(|scope| {
            scope.spawn(|| bell.wait(LONG));
            while bell.state().sleepers == 0 {
                thread::yield_now();
            }
            bell.ring();
        });
        assert!(begun.elapsed() < LONG);
    }
}
