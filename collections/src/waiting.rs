//! What a wait says on the log that may never end.

use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(10);

/// A wait for something that another rank or thread has to do.
#[derive(Default)]
pub(crate) struct Waiting {
    begun: Option<Instant>,
    is_told: bool,
}

impl Waiting {
    /// Says, once, what is waited for, where that has taken long. To be called now and then.
    pub(crate) fn look(&mut self, what: impl FnOnce() -> String) {
        let begun = *self.begun.get_or_insert_with(Instant::now);
        if !self.is_told && begun.elapsed() >= LONG {
            self.is_told = true;
            tracing::warn!("{}, and has waited for {} s", what(), LONG.as_secs());
        }
    }
}
