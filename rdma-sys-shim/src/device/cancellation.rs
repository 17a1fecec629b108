//! Whether waits for threads of peers are to end.

use std::fmt;
use std::sync::{Arc, OnceLock};

/// A question that the user of a device answers: has the job been aborted?
pub(crate) type IsAborted = Arc<dyn Fn() -> bool + Send + Sync>;

/// Tells the endpoints of a device that no operation is to wait for a thread of its peer any more.
#[derive(Clone, Default)]
pub(crate) struct Cancellation(Arc<OnceLock<IsAborted>>);

impl Cancellation {
    /// Only the first call has an effect.
    pub(crate) fn when(&self, is_aborted: IsAborted) {
        let _ = self.0.set(is_aborted);
    }

    pub(crate) fn is_due(&self) -> bool {
        self.0.get().is_some_and(|is_aborted| is_aborted())
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancellation").field(&self.is_due()).finish()
    }
}
