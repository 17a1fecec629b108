//! Synchronisation: fence, and passive target with lock and flush.

mod assert;
mod fence;
mod flush;
mod lock;
mod lock_all;
mod lock_word;

pub use assert::Assert;
pub use lock::LockKind;
