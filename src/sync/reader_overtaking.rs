//! How long a reader that waits for a lock lets waiting writers go first.
//!
//! It must not wait for ever, because of deadlocks. Reader A holds one lock and waits for another, behind a
//! writer that waits for reader B to release it. B waits for A's lock, behind another writer. The two locks
//! may be of different windows, and any threads may hold them. In such a cycle, each reader holds a lock for
//! which a rank waits. So if a reader's process holds such a lock, the reader overtakes waiting writers
//! soon. A holder may also wait for a message or a barrier, which no lock shows. So every reader overtakes
//! in the end.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::lock_word::WAITING;
use crate::window::{Held, held_locks};

/// Longer than most epochs take, so that writers do not starve, but short enough to break a cycle of waits.
const SOON: Duration = Duration::from_millis(20);
/// Longer than nearly all epochs take.
const AT_LAST: Duration = Duration::from_secs(1);

/// One reader's wait.
pub(super) struct ReaderOvertaking {
    begun: Instant,
    /// The next time to check the locks of this process.
    look_at: Cell<Instant>,
    /// Remembered, because the mark of a waiting writer comes and goes.
    overtakes: Cell<bool>,
}

impl ReaderOvertaking {
    pub(super) fn new() -> Self {
        let begun = Instant::now();
        Self {
            begun,
            look_at: Cell::new(begun + SOON),
            overtakes: Cell::new(false),
        }
    }

    /// Decides whether the reader goes before waiting writers. Once true, it stays so.
    pub(super) fn decide(&self) -> bool {
        if self.overtakes.get() {
            return true;
        }
        let now = Instant::now();
        if now < self.look_at.get() {
            return false;
        }
        self.overtakes
            .set(now - self.begun >= AT_LAST || is_waited_for());
        self.look_at.set(Instant::now() + SOON);
        self.overtakes.get()
    }
}

/// Whether another rank waits, or may wait, for a lock that this process holds.
fn is_waited_for() -> bool {
    held_locks().into_iter().any(|(held, word)| match held {
        Held::Shared => word.load().is_ok_and(|word| word & WAITING != 0),
        // The word does not show ranks that wait for a shared lock.
        _ => true,
    })
}
