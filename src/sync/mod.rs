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
mod lock_word;
mod pair;
mod pscw;
mod reader_overtaking;
mod shared;
mod time_slice;

pub use assert::Assert;
pub(crate) use flush::behind_gets;
