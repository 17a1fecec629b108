//! Reports waits that may never end in the log.

use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(10);

/// A wait for something that another rank or thread has to do.
#[derive(Default)]
pub(crate) struct Waiting {
    begun: Option<Instant>,
    is_told: bool,
}

impl Waiting {
    /// To be called repeatedly during a wait. Logs once, after a long time, what the wait is for.
    pub(crate) fn look(&mut self, what: impl FnOnce() -> String) {
        let begun = *self.begun.get_or_insert_with(Instant::now);
        if !self.is_told && begun.elapsed() >= LONG {
            self.is_told = true;
            tracing::warn!("{}, and has waited for {} s", what(), LONG.as_secs());
        }
    }
}
