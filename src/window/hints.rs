//! The hints of windows: what they may say, and which value holds where ranks give different ones (MPI-4.1, section
//! 12.2.1).
//!
//! Hints whose value must be the same everywhere follow from the merged summary: the union of the orders, the smallest
//! granularity, and only promises that all ranks made. If ranks gave different hints, an allgather collects them, and
//! rank 0 logs them. Blocks are laid out before ranks know each other's hints, so lock words remain with `no_locks`.

use std::sync::atomic::{AtomicBool, Ordering};

use super::info::{
    ALIGNMENT, EAGER_LOCK_ALL, GRANULARITY, Info, KINDS, KINDS_IN_USE, NO_LOCKS, NONCONTIGUOUS,
    NOTIFICATION_COUNTERS, OPS, ORDERING, SAME_DISP_UNIT, SAME_SIZE, STATISTICS,
};
use super::log::LOG;
use super::{Window, unknown_hint};
use crate::error::{Error, Misuse, Result};
use crate::terms::Flavor;

const DEFAULT_COUNTERS: u32 = 8;
const MOST_COUNTERS: u32 = 1 << 20;

/// The accumulates of one origin on one element that keep the order of their calls, one bit each: read after read, read
/// after write, write after read, write after write.
const ORDERINGS: [&str; 4] = ["rar", "raw", "war", "waw"];

fn parse_ordering(text: &str) -> Option<u64> {
    if text == "none" {
        return Some(0);
    }
    let bit = |name: &str| ORDERINGS.iter().position(|known| *known == name.trim());
    text.split(',')
        .try_fold(0, |bits, name| Some(bits | 1 << bit(name)?))
}

fn ordering_text(flags: u64) -> String {
    let chosen = |bit: &usize| flags >> bit & 1 != 0;
    let names: Vec<_> = (0..4).filter(chosen).map(|bit| ORDERINGS[bit]).collect();
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(","),
    }
}

/// A window's hints, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hints {
    /// The hints that this rank sends to the others.
    pub(super) common: Common,
    pub(crate) alignment: usize,
    kinds: String,
    pub(crate) eager_lock_all: bool,
    pub(crate) notification_counters: u32,
    pub(crate) statistics: bool,
}

/// The values of the hints in [`COMMON`], as ranks exchange them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Common {
    /// The ordering, and [`SWITCHES`].
    pub(crate) flags: u64,
    /// Bytes for which accumulates should synchronise once; 0 lets the library choose.
    pub(crate) granularity: u64,
}

const ORDERING_BITS: u64 = 15;
/// All accumulates on an element are of one operation (else: or `NoOp`).
const SAME_OP_BIT: u64 = 1 << 4;
pub(super) const SAME_SIZE_BIT: u64 = 1 << 5;
pub(super) const SAME_UNIT_BIT: u64 = 1 << 6;
const NONCONTIGUOUS_BIT: u64 = 1 << 7;
const NO_LOCKS_BIT: u64 = 1 << 8;

/// The hints that are true or false.
const SWITCHES: [(&str, u64); 4] = [
    (NO_LOCKS, NO_LOCKS_BIT),
    (SAME_SIZE, SAME_SIZE_BIT),
    (SAME_DISP_UNIT, SAME_UNIT_BIT),
    (NONCONTIGUOUS, NONCONTIGUOUS_BIT),
];

/// The hints that have one value for all ranks of a window, and their bits in [`Common::flags`]. The granularity has no
/// bit.
const COMMON: [(&str, u64); 7] = [
    (NO_LOCKS, NO_LOCKS_BIT),
    (ORDERING, ORDERING_BITS),
    (OPS, SAME_OP_BIT),
    (GRANULARITY, 0),
    (SAME_SIZE, SAME_SIZE_BIT),
    (SAME_DISP_UNIT, SAME_UNIT_BIT),
    (NONCONTIGUOUS, NONCONTIGUOUS_BIT),
];

impl Hints {
    pub(crate) fn parse(info: &Info) -> Result<Self> {
        unknown_hint::warn(info);
        let legal_orderings = "none, or some of rar,raw,war,waw";
        let ordering = parsed(info, ORDERING, legal_orderings, parse_ordering)?;
        let mut flags = ordering.unwrap_or(ORDERING_BITS);
        let same_op = parsed(info, OPS, "same_op, same_op_no_op", |text| match text {
            "same_op" => Some(SAME_OP_BIT),
            "same_op_no_op" => Some(0),
            _ => None,
        })?;
        flags |= same_op.unwrap_or(0);
        for (key, bit) in SWITCHES {
            flags |= if flag(info, key)? { bit } else { 0 };
        }
        let granularity = parsed(info, GRANULARITY, "0 to 2^63 − 1, in bytes", |text| {
            text.parse::<u64>()
                .ok()
                .filter(|&bytes| bytes <= i64::MAX as u64)
        })?;
        let legal_kinds = "a list of kinds, such as system,mpi:alloc_mem";
        let kinds = parsed(info, KINDS, legal_kinds, memory_kinds)?;
        let counters = parsed(info, NOTIFICATION_COUNTERS, "0 to 1048576", |text| {
            text.parse::<u32>()
                .ok()
                .filter(|&counters| counters <= MOST_COUNTERS)
        })?;
        Ok(Self {
            common: Common {
                flags,
                granularity: granularity.unwrap_or(0),
            },
            alignment: info.alignment()?,
            // A promise about only unknown kinds has no meaning.
            kinds: kinds
                .filter(|known| !known.is_empty())
                .unwrap_or_else(|| "system,mpi".to_owned()),
            eager_lock_all: flag(info, EAGER_LOCK_ALL)?,
            notification_counters: counters.unwrap_or(DEFAULT_COUNTERS),
            statistics: flag(info, STATISTICS)?,
        })
    }

    /// The values in force, as hints.
    pub(crate) fn to_info(&self) -> Info {
        let ops = match self.has(SAME_OP_BIT) {
            true => "same_op",
            false => "same_op_no_op",
        };
        let counters = self.notification_counters.to_string();
        let mut info = Info::new()
            .with(ORDERING, ordering_text(self.common.flags))
            .with(OPS, ops)
            .with(GRANULARITY, self.common.granularity.to_string())
            .with(ALIGNMENT, self.alignment.to_string())
            .with(KINDS, self.kinds.clone())
            .with(KINDS_IN_USE, self.kinds.clone())
            .with(EAGER_LOCK_ALL, self.eager_lock_all.to_string())
            .with(NOTIFICATION_COUNTERS, counters)
            .with(STATISTICS, self.statistics.to_string());
        for (key, bit) in SWITCHES {
            info = info.with(key, self.has(bit).to_string());
        }
        info
    }

    pub(super) fn has(&self, bit: u64) -> bool {
        self.common.flags & bit != 0
    }

    pub(crate) fn no_locks(&self) -> bool {
        self.has(NO_LOCKS_BIT)
    }

    pub(crate) fn noncontiguous(&self) -> bool {
        self.has(NONCONTIGUOUS_BIT)
    }

    /// Takes the values that are in force on all ranks of the window: the weakest ones.
    pub(super) fn take_weakest(&mut self, all: impl Iterator<Item = Common>) {
        self.common = all.reduce(Common::weaker).unwrap_or(self.common);
    }

    /// Logs which hints differ between the window's ranks, each once in a process. `self` has the values in force.
    pub(super) fn log_differences(
        &self,
        flavor: Flavor,
        all: impl Iterator<Item = Common> + Clone,
    ) {
        static TOLD: [AtomicBool; COMMON.len()] = [const { AtomicBool::new(false) }; COMMON.len()];
        let Some(first) = all.clone().next() else {
            return;
        };
        for ((key, bits), told) in COMMON.into_iter().zip(&TOLD) {
            let value = |common: Common| {
                let hints = Self {
                    common,
                    ..self.clone()
                };
                hints.to_info().get(key).unwrap_or_default().to_owned()
            };
            // Other windows have no contiguous parts.
            let matters = key != NONCONTIGUOUS || flavor == Flavor::Shared;
            let other = (0..)
                .zip(all.clone())
                .find(|&(_, other)| first.differs(other, bits));
            if let Some((rank, other)) = other
                && matters
                && !told.swap(true, Ordering::Relaxed)
            {
                let (here, there, taken) = (value(first), value(other), value(self.common));
                tracing::warn!(
                    target: LOG,
                    "the hint {key} differs between ranks: rank 0 gave {here}, and rank {rank} gave {there}; \
                     {taken} is in force on all (said once, for all windows)"
                );
            }
        }
    }
}

impl Common {
    fn differs(self, other: Self, bits: u64) -> bool {
        match bits {
            0 => self.granularity != other.granularity,
            bits => (self.flags ^ other.flags) & bits != 0,
        }
    }

    /// For each hint, the value that promises and asks less: all orders that either names, and the smaller granularity,
    /// so that a lock never covers more than either rank asked for.
    fn weaker(self, other: Self) -> Self {
        let orders = (self.flags | other.flags) & ORDERING_BITS;
        Self {
            flags: self.flags & other.flags | orders,
            granularity: self.granularity.min(other.granularity),
        }
    }
}

impl Info {
    /// Checks that keys allow their values; otherwise returns what the first wrong one may be.
    pub(crate) fn check(&self) -> Result<()> {
        Hints::parse(self).map(drop)
    }

    /// The alignment of allocated memory.
    pub(crate) fn alignment(&self) -> Result<usize> {
        let legal = "a power of two up to 2^40, in bytes";
        let bytes = parsed(self, ALIGNMENT, legal, |text| {
            let bytes = text.parse::<usize>().ok();
            bytes.filter(|bytes| bytes.is_power_of_two() && *bytes <= 1 << 40)
        })?;
        Ok(bytes.unwrap_or(1))
    }
}

impl Window {
    /// Local. The hints in force, including defaults (MPI-4.1, section 12.2.7, `MPI_Win_get_info`). [`Info`] says which
    /// value is in force if ranks gave different ones.
    #[must_use]
    pub fn info(&self) -> Info {
        let info = Hints {
            eager_lock_all: self.eager_lock_all(),
            statistics: self.counters.is_some(),
            ..self.hints.clone()
        }
        .to_info();
        match self.flavor() {
            // If the library does not allocate the memory, it neither aligns it nor makes its parts contiguous.
            Flavor::Create | Flavor::Dynamic => info.without(ALIGNMENT),
            Flavor::Shared if !self.hints.noncontiguous() => info.without(ALIGNMENT),
            Flavor::Allocate | Flavor::Shared => info.with(
                ALIGNMENT,
                self.hints
                    .alignment
                    .max(rdma_sys_shim::ALIGNMENT)
                    .to_string(),
            ),
        }
    }

    /// Local. Gives hints after the window was made. Only `transom_eager_lock_all` can still change something; the
    /// others stay as they are (MPI-4.1, section 12.2.7, `MPI_Win_set_info`, which is collective; here nothing is
    /// exchanged). [`Window::info`] returns the values in force.
    ///
    /// # Errors
    /// A malformed hint; then none has changed.
    pub fn set_info(&self, info: &Info) -> Result<()> {
        let hints = Hints::parse(info).map_err(|error| error.during("set_info"))?;
        if info.get(EAGER_LOCK_ALL).is_some() {
            self.eager_lock_all
                .store(hints.eager_lock_all, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Local. These hints, with allocated memory aligned at least to `align`.
#[must_use]
pub fn aligned_for(info: &Info, align: usize) -> Info {
    match info.alignment() {
        Ok(asked) if asked < align => info.clone().with(ALIGNMENT, align.to_string()),
        _ => info.clone(),
    }
}

/// The known kinds of a list of kinds with restrictors (MPI-4.1, section 11.4.3).
fn memory_kinds(text: &str) -> Option<String> {
    let is_word = |word: &str| {
        !word.is_empty()
            && word
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let kinds: Vec<_> = text.split(',').map(str::trim).collect();
    if !kinds.iter().all(|kind| kind.split(':').all(is_word)) {
        return None;
    }
    let known = |kind: &&&str| matches!(kind.split(':').next(), Some("system" | "mpi"));
    let known: Vec<_> = kinds.iter().filter(known).copied().collect();
    Some(known.join(","))
}

fn flag(info: &Info, key: &'static str) -> Result<bool> {
    let found = parsed(info, key, "true, false", |text| text.parse::<bool>().ok())?;
    Ok(found.unwrap_or(false))
}

fn parsed<T>(
    info: &Info,
    key: &'static str,
    legal: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>> {
    let Some(text) = info.get(key) else {
        return Ok(None);
    };
    match parse(text.trim()) {
        Some(value) => Ok(Some(value)),
        None => {
            let misuse = Misuse::BadHint {
                key,
                value: text.to_owned(),
                legal,
            };
            Err(Error::new("info", misuse))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::info::KEYS;

    #[test]
    fn defaults_hold_and_unknown_keys_are_ignored() {
        let info = Info::new().with("striping_unit", "nonsense");
        let hints = Hints::parse(&info).unwrap();
        assert_eq!(hints, Hints::parse(&Info::new()).unwrap());
        assert!(!hints.no_locks() && hints.alignment == 1);
        assert_eq!(aligned_for(&info, 64).alignment().unwrap(), 64);
        let asked = info.with(ALIGNMENT, "8192");
        assert_eq!(aligned_for(&asked, 64).alignment().unwrap(), 8192);
    }

    #[test]
    fn the_keys_that_are_known_are_those_of_what_is_in_force() {
        let in_force = Hints::parse(&Info::new()).unwrap().to_info();
        let mut keys: Vec<_> = KEYS.into_iter().chain([KINDS_IN_USE]).collect();
        keys.sort_unstable();
        let found: Vec<_> = in_force.iter().map(|(key, _)| key).collect();
        assert_eq!(found, keys);
    }

    #[test]
    fn what_is_in_force_can_be_given_again() {
        for (key, value) in [
            (ORDERING, "waw , rar"),
            (ORDERING, "none"),
            (OPS, "same_op"),
            (GRANULARITY, "64"),
            (KINDS, "system,mpi:alloc_mem:win_allocate,cuda:device"),
            (ALIGNMENT, "65536"),
            (NO_LOCKS, "true"),
            (NOTIFICATION_COUNTERS, "0"),
        ] {
            let hints = Hints::parse(&Info::new().with(key, value)).unwrap();
            assert_ne!(hints, Hints::parse(&Info::new()).unwrap(), "{key}={value}");
            assert_eq!(
                Hints::parse(&hints.to_info()).unwrap(),
                hints,
                "{key}={value}"
            );
        }
    }

    #[test]
    fn kinds_that_are_unknown_leave_the_default_in_force() {
        let hints = Hints::parse(&Info::new().with(KINDS, "cuda:device,rocm")).unwrap();
        assert_eq!(hints, Hints::parse(&Info::new()).unwrap());
        assert_eq!(Hints::parse(&hints.to_info()).unwrap(), hints);
    }

    #[test]
    fn malformed_values_name_the_key_and_what_is_legal() {
        for (key, value) in [
            (NO_LOCKS, "yes"),
            (ALIGNMENT, "24"),
            (ALIGNMENT, "-8"),
            (ALIGNMENT, "0"),
            (EAGER_LOCK_ALL, ""),
            (ORDERING, "rar,rwr"),
            (ORDERING, ""),
            (ORDERING, "none,rar"),
            (OPS, "sum"),
            (GRANULARITY, "-1"),
            (GRANULARITY, "9223372036854775808"),
            (SAME_SIZE, "TRUE"),
            (SAME_DISP_UNIT, "1"),
            (NONCONTIGUOUS, "maybe"),
            (KINDS, "system,,mpi"),
            (EAGER_LOCK_ALL, "0"),
            (NOTIFICATION_COUNTERS, "1048577"),
            (NOTIFICATION_COUNTERS, "-1"),
        ] {
            let error = Hints::parse(&Info::new().with(key, value)).unwrap_err();
            let message = error.to_string();
            assert!(
                message.contains(key) && message.contains("legal"),
                "{message}"
            );
        }
    }

    #[test]
    fn the_weakest_holds_for_all() {
        let given = |key: &str, value: &str| Hints::parse(&Info::new().with(key, value)).unwrap();
        for (key, strong, weak, both) in [
            (NO_LOCKS, "true", "false", "false"),
            (ORDERING, "rar", "waw,war", "rar,war,waw"),
            (OPS, "same_op", "same_op_no_op", "same_op_no_op"),
            (GRANULARITY, "16", "4096", "16"),
            (GRANULARITY, "16", "0", "0"),
            (SAME_SIZE, "true", "false", "false"),
            (SAME_DISP_UNIT, "true", "false", "false"),
            (NONCONTIGUOUS, "true", "false", "false"),
        ] {
            let (strong, weak) = (given(key, strong), given(key, weak));
            for (mut own, other) in [(strong.clone(), &weak), (weak.clone(), &strong)] {
                own.take_weakest([own.common, other.common].into_iter());
                assert_eq!(own.to_info(), given(key, both).to_info());
            }
            let mut alike = strong.clone();
            alike.take_weakest([strong.common; 3].into_iter());
            assert_eq!(alike, strong);
        }
    }
}
