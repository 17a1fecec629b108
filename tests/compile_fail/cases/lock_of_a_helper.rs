//! A function that takes a lock, as one first writes it.

use transom::{Epoch, Lock, LockKind, Passive, Result};

fn first(epoch: &Epoch<u64, Passive>) -> Result<Lock<u64>> {
    epoch.lock(0, LockKind::Shared)
}

fn main() {
    let _ = first;
}
