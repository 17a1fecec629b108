//! Synchronisation: fence; post, start, complete and wait; passive target with lock and flush;
//! notifications.

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
