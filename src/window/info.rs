//! Hints (MPI-4.1, chapter 10 and section 12.2.1).

use std::collections::BTreeMap;

use crate::error::{Error, Misuse, Result};

const NO_LOCKS: &str = "no_locks";
const GRANULARITY: &str = "mpi_accumulate_granularity";
const ALIGNMENT: &str = "mpi_minimum_memory_alignment";
const ADOPT: &str = "transom_adopt";
const EAGER_LOCK_ALL: &str = "transom_eager_lock_all";
pub(crate) const NOTIFICATION_COUNTERS: &str = "transom_notification_counters";
const DEFAULT_COUNTERS: u32 = 8;
const MOST_COUNTERS: u32 = 1 << 20;

/// Hints to the library, as pairs of key and value. Keys that Transom does not know are ignored.
///
/// | key | values | effect |
/// |---|---|---|
/// | `no_locks` | `true`, `false` | given by all ranks: locks are errors, and `free` does not wait for the others |
/// | `mpi_minimum_memory_alignment` | bytes, a power of two | allocated memory is aligned so |
/// | `mpi_accumulate_granularity` | bytes; the same on all ranks | accumulates of smaller types take a lock at the target instead of one atomic for each element: many at once are faster, one is slower |
/// | `transom_adopt` | `true`, `false` | `false`: `create` leaves the pages of the memory where they are |
/// | `transom_eager_lock_all` | `true`, `false` | `true`: `lock_all` locks every rank at once, in the order of ranks |
/// | `transom_notification_counters` | 0 to 1048576 | how many notification counters this rank has, of 64 bytes each; 8 without the hint |
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info(BTreeMap<String, String>);

impl Info {
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

    pub(crate) fn alignment(&self) -> Result<usize> {
        match self.0.get(ALIGNMENT) {
            None => Ok(1),
            Some(text) => match text.trim().parse::<usize>() {
                Ok(bytes) if bytes.is_power_of_two() && bytes <= 1 << 40 => Ok(bytes),
                _ => Err(bad(ALIGNMENT, text, "a power of two up to 2^40, in bytes")),
            },
        }
    }

    /// These hints, with allocated memory aligned to `align` at least.
    pub(crate) fn aligned_for(&self, align: usize) -> Self {
        match self.alignment() {
            Ok(asked) if asked < align => self.clone().with(ALIGNMENT, align.to_string()),
            _ => self.clone(),
        }
    }

    pub(crate) fn no_locks(&self) -> Result<bool> {
        self.flag(NO_LOCKS, false)
    }

    /// 0 leaves the choice to the library.
    pub(crate) fn accumulate_granularity(&self) -> Result<u64> {
        match self.0.get(GRANULARITY) {
            None => Ok(0),
            Some(text) => text
                .trim()
                .parse()
                .map_err(|_| bad(GRANULARITY, text, "a number of bytes, 0 or more")),
        }
    }

    pub(crate) fn adopt(&self) -> Result<bool> {
        self.flag(ADOPT, true)
    }

    pub(crate) fn eager_lock_all(&self) -> Result<bool> {
        self.flag(EAGER_LOCK_ALL, false)
    }

    pub(crate) fn notification_counters(&self) -> Result<u32> {
        match self.0.get(NOTIFICATION_COUNTERS) {
            None => Ok(DEFAULT_COUNTERS),
            Some(text) => match text.trim().parse() {
                Ok(counters) if counters <= MOST_COUNTERS => Ok(counters),
                _ => Err(bad(NOTIFICATION_COUNTERS, text, "0 to 1048576")),
            },
        }
    }

    fn flag(&self, key: &'static str, default: bool) -> Result<bool> {
        match self.0.get(key).map(|text| text.trim()) {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(text) => Err(bad(key, text, "true, false")),
        }
    }
}

fn bad(key: &'static str, value: &str, legal: &'static str) -> Error {
    Error::new(
        "info",
        Misuse::BadHint {
            key,
            value: value.to_owned(),
            legal,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_hold_and_unknown_keys_are_ignored() {
        let info = Info::new().with("striping_unit", "nonsense");
        assert_eq!(info.alignment().unwrap(), 1);
        assert!(!info.no_locks().unwrap());
        assert!(info.adopt().unwrap());
        assert_eq!(info.notification_counters().unwrap(), 8);
        assert_eq!(info.accumulate_granularity().unwrap(), 0);
        assert_eq!(info.aligned_for(64).alignment().unwrap(), 64);
        let asked = info.with(ALIGNMENT, "8192");
        assert_eq!(asked.aligned_for(64).alignment().unwrap(), 8192);
    }

    #[test]
    fn malformed_values_name_the_key_and_what_is_legal() {
        for (key, value) in [
            (NO_LOCKS, "yes"),
            (ALIGNMENT, "24"),
            (ALIGNMENT, "-8"),
            (ALIGNMENT, "0"),
            (ADOPT, ""),
            (NOTIFICATION_COUNTERS, "1048577"),
            (NOTIFICATION_COUNTERS, "-1"),
            (GRANULARITY, "-1"),
            (GRANULARITY, "8 bytes"),
        ] {
            let info = Info::new().with(key, value);
            let error = [
                info.no_locks().err(),
                info.alignment().err(),
                info.adopt().err(),
                info.notification_counters().err(),
                info.accumulate_granularity().err(),
            ]
            .into_iter()
            .flatten()
            .next()
            .unwrap();
            let message = error.to_string();
            assert!(
                message.contains(key) && message.contains("legal"),
                "{message}"
            );
        }
    }
}
