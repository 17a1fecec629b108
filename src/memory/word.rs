//! Atomic words that ranks share: the operations of protocols on them, with their memory orders.
//! The loom models of the protocols use the same operations on loom's atomics.

use std::sync::atomic::{AtomicU8, Ordering};

use rdma_sys_shim::memory::{after_flag, before_flag};

use crate::error::Result;

pub(crate) trait SharedWord {
    /// Stores, after all earlier stores of this thread.
    fn publish(&self, value: u64);

    /// Loads, before all later loads of this thread, even if a device has written the word.
    fn observe(&self) -> u64;

    /// Loads a value for a following read-modify-write.
    fn look(&self) -> u64;

    /// Adds, and returns the previous value.
    fn add(&self, value: u64) -> u64;

    /// Compare-and-swap: stores `new` if the value is `expect`, and returns the previous value.
    fn replace_if(&self, expect: u64, new: u64) -> u64;

    /// Raises it to at least `value`, without ordering.
    fn raise(&self, value: u64);

    /// Sets it to 0 if it is `expect`, after all earlier loads and stores of this thread.
    fn clear_if(&self, expect: u64);
}

/// A word of a lock, whether it is mapped or accessed through the device.
pub(crate) trait LockWord {
    fn load(&self) -> Result<u64>;

    /// Returns the previous value.
    fn fetch_add(&self, add: u64) -> Result<u64>;

    /// Stores `new` if the value is `expect`, and returns the previous value.
    fn compare_swap(&self, expect: u64, new: u64) -> Result<u64>;
}

/// A mark that threads of one process set and clear, without ordering.
pub(crate) trait SharedFlag {
    fn set(&self);

    fn clear(&self);

    fn is_set(&self) -> bool;
}

macro_rules! shared_word {
    ($atomic:ty) => {
        impl SharedWord for $atomic {
            #[inline(always)]
            fn publish(&self, value: u64) {
                before_flag();
                self.store(value, Ordering::Release);
            }

            #[inline(always)]
            fn observe(&self) -> u64 {
                let value = self.load(Ordering::Acquire);
                after_flag();
                value
            }

            #[inline(always)]
            fn look(&self) -> u64 {
                self.load(Ordering::SeqCst)
            }

            #[inline(always)]
            fn add(&self, value: u64) -> u64 {
                before_flag();
                self.fetch_add(value, Ordering::SeqCst)
            }

            #[inline(always)]
            fn replace_if(&self, expect: u64, new: u64) -> u64 {
                before_flag();
                self.compare_exchange(expect, new, Ordering::SeqCst, Ordering::SeqCst)
                    .unwrap_or_else(|old| old)
            }

            #[inline(always)]
            fn raise(&self, value: u64) {
                self.fetch_max(value, Ordering::Relaxed);
            }

            #[inline(always)]
            fn clear_if(&self, expect: u64) {
                let _ = self.compare_exchange(expect, 0, Ordering::Release, Ordering::Relaxed);
            }
        }
    };
}

macro_rules! shared_flag {
    ($atomic:ty) => {
        impl SharedFlag for $atomic {
            #[inline(always)]
            fn set(&self) {
                self.store(1, Ordering::Relaxed);
            }

            #[inline(always)]
            fn clear(&self) {
                self.store(0, Ordering::Relaxed);
            }

            #[inline(always)]
            fn is_set(&self) -> bool {
                self.load(Ordering::Relaxed) != 0
            }
        }
    };
}

shared_word!(std::sync::atomic::AtomicU64);
#[cfg(all(test, loom))]
shared_word!(loom::sync::atomic::AtomicU64);
shared_flag!(AtomicU8);
#[cfg(all(test, loom))]
shared_flag!(loom::sync::atomic::AtomicU8);
