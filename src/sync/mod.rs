//! Synchronisation: fence; post, start, complete and wait; passive target with lock and flush;
//! notifications.

mod assert;
mod elsewhere;
mod fence;
mod flush;
mod lock;
mod lock_all;
mod lock_word;
mod look;
mod pair;
mod precedence;
mod pscw;

pub use assert::Assert;
pub(crate) use flush::behind_gets;
pub(crate) use pair::Pairs;
