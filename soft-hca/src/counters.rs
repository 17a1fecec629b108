//! What a process has had its adapter do. The counters are in the fabric's file, where the launcher reads them.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($name:ident $words:literal)*) => {
        /// The counters of an open device.
        #[repr(C)]
        #[derive(Default)]
        pub(crate) struct Counters { $(pub(crate) $name: Counter,)* }

        impl Counters {
            /// Sets all to zero.
            pub(crate) fn clear(&self) {
                $(self.$name.0.store(0, Ordering::Relaxed);)*
            }

            /// Adds all to others.
            pub(crate) fn add_to(&self, others: &Self) {
                $(others.$name.add(self.$name.get());)*
            }
        }

        impl fmt::Display for Counters {
            fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                let all = [$(($words, self.$name.get())),*];
                let mut separator = "";
                for (words, count) in all.into_iter().filter(|&(_, count)| count > 0) {
                    write!(to, "{separator}{count} {words}")?;
                    separator = ", ";
                }
                Ok(())
            }
        }
    };
}

counters! {
    writes "writes"
    reads "reads"
    atomics "atomics"
    sends "sends"
    doorbells "doorbells"
    signalled "signalled"
    completions "completions"
    inline_bytes "bytes inline"
    bytes_out "bytes out"
    bytes_in "bytes in"
    registrations "registrations"
    pages "pages registered"
    queue_pairs "queue pairs"
    queue_bytes "bytes of queues"
    modelled_time "modelled ns"
    misuses "misuses"
}

#[repr(transparent)]
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn raise_to(&self, count: u64) {
        self.0.fetch_max(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_shown_without_those_that_are_zero() {
        let counters = Counters::default();
        counters.writes.add(3);
        counters.misuses.add(1);
        assert_eq!(counters.to_string(), "3 writes, 1 misuses");
        let sum = Counters::default();
        counters.add_to(&sum);
        counters.add_to(&sum);
        assert_eq!(sum.to_string(), "6 writes, 2 misuses");
        counters.clear();
        assert_eq!(counters.to_string(), "");
    }
}
