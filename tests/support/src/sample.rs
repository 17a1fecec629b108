//! Selects the sample of the cases over each device.

use std::collections::{BTreeMap, BTreeSet};

use libtest_mimic::Failed;

/// A case's name, split into its parts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    device: &'static str,
    /// The family of similar cases: `lock`, `faults/killed`.
    family: String,
    case: String,
}

impl Name {
    /// The case of a trial that has this name and runs over the device.
    pub fn new(device: &'static str, name: &str) -> Self {
        let case = name
            .strip_prefix(device)
            .and_then(|name| name.strip_prefix('/'));
        let case = case.unwrap_or_else(|| panic!("{name:?} does not begin with {device}/"));
        let words: Vec<&str> = case.split('/').collect();
        let shared = (words.len() - 1).clamp(1, 2);
        Self {
            device,
            family: words[..shared].join("/"),
            case: case.to_owned(),
        }
    }
}

/// Takes each case over one of its devices, and the next case of its family over the next device. Of each family it
/// takes at least one case over each device.
pub fn sample(names: &[Name]) -> Vec<bool> {
    let mut places = BTreeMap::<&str, Vec<usize>>::new();
    for (place, name) in names.iter().enumerate() {
        places.entry(&name.case).or_default().push(place);
    }
    let mut is_in = vec![false; names.len()];
    let mut numbers = BTreeMap::<&str, usize>::new();
    for name in names {
        // Only at the first occurrence.
        let Some(places) = places.remove(name.case.as_str()) else {
            continue;
        };
        let number = numbers.entry(&name.family).or_default();
        is_in[places[*number % places.len()]] = true;
        *number += 1;
    }
    let pair = |name: &Name| (name.family.clone(), name.device);
    let taken = names.iter().zip(&is_in).filter(|(_, is_in)| **is_in);
    let mut met: BTreeSet<_> = taken.map(|(name, _)| pair(name)).collect();
    for (name, is_in) in names.iter().zip(&mut is_in) {
        *is_in |= met.insert(pair(name));
    }
    is_in
}

/// Fails if this sample omits a case over all devices, or a family over one device.
pub fn gaps(names: &[Name], is_in: &[bool]) -> Result<(), Failed> {
    let taken = || {
        let both = names.iter().zip(is_in);
        both.filter_map(|(name, &is_in)| is_in.then_some(name))
    };
    let lacks = |name: &&Name| {
        let family = |other: &Name| other.family == name.family && other.device == name.device;
        !taken().any(family) || !taken().any(|other| other.case == name.case)
    };
    match names.iter().find(lacks) {
        Some(name) => {
            Err(format!("{}/{} has no like in the sample", name.device, name.case).into())
        }
        None => Ok(()),
    }
}
