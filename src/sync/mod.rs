//! Synchronisation: fence; post, start, complete and wait; passive target with lock and flush;
//! notifications.
//!
//! A device completes operations late and in any order that its contract allows. So a flag behind data is a `store`,
//! never a write. `unlock` posts the release after the data and waits only for the release, which succeeds only if
//! everything before it did. `unlock_all` posts all releases before it waits; that of this rank's own part is last,
//! since this memory may be the origin buffer of puts to others. If an atomic on a lock word fails, a living rank may
//! hold the lock for ever, so the job is aborted.

mod assert;
mod barrier;
mod cross_wait;
mod enter;
mod fence;
mod flush;
mod free;
mod lock;
mod lock_all;
pub(crate) mod lock_queue;
mod lock_word;
mod pair;
mod pscw;
mod reader_overtaking;
mod shared;
mod time_slice;

pub use assert::Assert;
pub(crate) use flush::behind_gets;
pub use flush::{flush_at_once, flush_local_at_once, quiesce};
pub use free::{free_with, try_free_after};
pub use lock::{lock_at_once, unlock_at_once, unlock_everything};
pub use lock_all::{lock_all_at_once, unlock_all_at_once};
pub use pair::check_groups;
