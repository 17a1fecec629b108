//! Atomic words that ranks share: what protocols do with them, and in which memory orders. The loom
//! models of those protocols do the same with loom's.

use std::sync::atomic::Ordering;

pub(crate) trait SharedWord {
    /// Stores, behind all that this thread stored before.
    fn publish(&self, value: u64);

    /// Loads, ahead of all that this thread loads after.
    fn observe(&self) -> u64;

    /// Loads what a read-modify-write may follow on.
    fn look(&self) -> u64;

    /// Adds, and returns what it held before.
    fn add(&self, value: u64) -> u64;

    /// Returns what it held before: it holds `new` now if that is `expect`.
    fn replace_if(&self, expect: u64, new: u64) -> u64;
}

macro_rules! shared_word {
    ($atomic:ty) => {
        impl SharedWord for $atomic {
            #[inline(always)]
            fn publish(&self, value: u64) {
                self.store(value, Ordering::Release);
            }

            #[inline(always)]
            fn observe(&self) -> u64 {
                self.load(Ordering::Acquire)
            }

            #[inline(always)]
            fn look(&self) -> u64 {
                self.load(Ordering::SeqCst)
            }

            #[inline(always)]
            fn add(&self, value: u64) -> u64 {
                self.fetch_add(value, Ordering::SeqCst)
            }

            #[inline(always)]
            fn replace_if(&self, expect: u64, new: u64) -> u64 {
                self.compare_exchange(expect, new, Ordering::SeqCst, Ordering::SeqCst)
                    .unwrap_or_else(|old| old)
            }
        }
    };
}

shared_word!(std::sync::atomic::AtomicU64);
#[cfg(all(test, loom))]
shared_word!(loom::sync::atomic::AtomicU64);
