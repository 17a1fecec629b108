//! Faults of a library that the ranks of a job play, to see that the oracle finds them.

use crate::access::{Access, Kind};

/// What is done wrong wherever it can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sabotage {
    /// A put with a datatype writes in a gap of the target's layout.
    TargetGap,
    /// A get with a datatype writes in a gap of its result's layout.
    ResultGap,
    /// An operation with datatypes places its elements one displacement unit too far.
    Shifted,
    /// A counter is raised before the data is there.
    EarlyNotification,
    LostNotification,
    SecondNotification,
    /// A store to another rank's memory does not arrive.
    LostStore,
    /// A load from there finds zeros.
    StaleLoad,
}

impl Sabotage {
    /// With what the oracle may say then.
    pub(crate) const ALL: [(Self, &[&str]); 8] = [
        (Self::TargetGap, &["allowed from byte", "no order explains"]),
        (Self::ResultGap, &["in a gap of the result"]),
        (Self::Shifted, &["allowed from byte", "no order explains"]),
        (Self::EarlyNotification, &["Load of"]),
        (Self::LostNotification, &["counter"]),
        (Self::SecondNotification, &["the counters of notifications"]),
        (Self::LostStore, &["allowed from byte", "no order explains"]),
        (Self::StaleLoad, &["fetched by", "no order explains"]),
    ];

    pub(crate) fn named(name: &str) -> Option<Self> {
        let all = Self::ALL.into_iter().map(|(one, _)| one);
        all.into_iter().find(|one| format!("{one:?}") == name)
    }
}

/// The first byte between the elements of an access at its target.
pub(crate) fn target_gap(access: &Access) -> Option<usize> {
    let places = (0..access.count()).map(|element| {
        let start = access.place(element);
        start..start + access.far.element(element).len()
    });
    let places: Vec<_> = places.collect();
    let is_gap = |byte: &usize| !places.iter().any(|place| place.contains(byte));
    (access.kind == Kind::Put).then(|| access.bytes().find(is_gap))?
}

/// The first byte between the elements of a result.
pub(crate) fn result_gap(access: &Access) -> Option<usize> {
    let places = (0..access.back.places.len()).map(|element| access.back.element(element));
    let places: Vec<_> = places.collect();
    let is_gap = |byte: &usize| !places.iter().any(|place| place.contains(byte));
    access
        .fetches()
        .then(|| (0..access.back.len()).find(is_gap))?
}
