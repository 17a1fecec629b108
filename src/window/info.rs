//! Hints as pairs of key and value (MPI-4.1, chapter 10).

use std::collections::BTreeMap;

pub(super) const NO_LOCKS: &str = "no_locks";
pub(super) const ORDERING: &str = "accumulate_ordering";
pub(super) const OPS: &str = "accumulate_ops";
pub(super) const GRANULARITY: &str = "mpi_accumulate_granularity";
pub(super) const SAME_SIZE: &str = "same_size";
pub(super) const SAME_DISP_UNIT: &str = "same_disp_unit";
pub(super) const NONCONTIGUOUS: &str = "alloc_shared_noncontig";
pub(super) const ALIGNMENT: &str = "mpi_minimum_memory_alignment";
pub(super) const KINDS: &str = "mpi_assert_memory_alloc_kinds";
/// Reported by windows, but not a hint.
pub(super) const KINDS_IN_USE: &str = "mpi_memory_alloc_kinds";
pub(super) const EAGER_LOCK_ALL: &str = "transom_eager_lock_all";
/// Makes the window count this rank's operations.
pub(super) const STATISTICS: &str = "transom_statistics";
pub(crate) const NOTIFICATION_COUNTERS: &str = "transom_notification_counters";

/// All hints.
pub(super) const KEYS: [&str; 12] = [
    NO_LOCKS,
    ORDERING,
    OPS,
    GRANULARITY,
    SAME_SIZE,
    SAME_DISP_UNIT,
    NONCONTIGUOUS,
    ALIGNMENT,
    KINDS,
    EAGER_LOCK_ALL,
    NOTIFICATION_COUNTERS,
    STATISTICS,
];

/// Hints to the library, as pairs of key and value. Transom ignores unknown keys; the log warns if one looks like a
/// misspelling. A value that its key does not allow is an error. [`Window::info`](crate::raw::Window::info) returns the
/// values in force.
///
/// | key | values (default first) | effect |
/// |---|---|---|
/// | `no_locks` * | `false`, `true` | locks are errors (under an MPI, only the log reports the first one), and `free` does not wait for other ranks, except for shared windows and windows with different sizes or displacement units. The lock words, a line of 64 bytes, are still allocated: their layout is fixed before the hints are exchanged |
/// | `accumulate_ordering` * | `rar,raw,war,waw`, a part of it, `none` | which accumulates of one origin on one element keep their order. All of them do, whatever the value: memory and connections keep the order at no cost |
/// | `accumulate_ops` * | `same_op_no_op`, `same_op` | recorded only: the path of an accumulate does not depend on its operation, so the promise makes nothing faster |
/// | `mpi_accumulate_granularity` * | `0` (the library chooses), or bytes | accumulates of smaller types take a lock at the target instead of one atomic for each element: many at once are faster, one is slower |
/// | `same_size` * | `false`, `true` | a broken promise is an error. It saves nothing: the ranks find out by themselves whether sizes are equal |
/// | `same_disp_unit` * | `false`, `true` | as `same_size` |
/// | `alloc_shared_noncontig` * | `false`, `true` | `allocate_shared` gives each rank memory of its own, which begins at a page |
/// | `mpi_minimum_memory_alignment` | bytes, a power of two up to 2^40 | allocated memory is aligned to this and at least to 64; in contiguous shared memory, only the first byte of all is |
/// | `mpi_assert_memory_alloc_kinds` | `system,mpi`, or a list of kinds | known kinds are recorded only: the device determines the kind of each buffer by itself. [`Window::info`](crate::raw::Window::info) repeats it as `mpi_memory_alloc_kinds` |
/// | `transom_eager_lock_all` | `false`, `true` | `true`: `lock_all` locks every rank at once, in the order of ranks |
/// | `transom_statistics` | `false`, `true` | `true`: the window counts this rank's operations ([`Window::statistics`](crate::raw::Window::statistics)) |
/// | `transom_notification_counters` | `8`, or 0 to 1048576 | the number of this rank's notification counters, of 64 bytes each |
///
/// A hint marked * has one value in force on all ranks. If ranks give different values, it is the one that promises and
/// asks least: every order that any rank names, `same_op_no_op`, the smallest granularity, and `true` only if all ranks
/// say so. The log reports this, once for each hint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info(BTreeMap<String, String>);

impl Info {
    /// The keys that Transom knows. Others are legal, and change nothing.
    pub const KEYS: &[&str] = &KEYS;

    /// Local. No hints.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Local. These hints and one more; a later value replaces an earlier one.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.insert(key.into(), value.into());
        self
    }

    pub(crate) fn without(mut self, key: &str) -> Self {
        self.0.remove(key);
        self
    }

    /// Local. The value of a hint.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Local. All pairs of key and value, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }
}
