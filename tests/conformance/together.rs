//! Cases one after the other in one job, where starting many jobs would take too long: on several
//! emulated hosts.

use std::collections::BTreeMap;

use libtest_mimic::Trial;
use transom_testing::environment;

use crate::case::{Case, launch_together};

/// Stands for every name.
const ALL: &str = "all";

/// A trial for each number of ranks, or none if cases are to be run apart.
pub(crate) fn trials(device: &'static str, cases: &[Case]) -> Option<Vec<Trial>> {
    let wanted = environment::together()?;
    let words: Vec<&str> = wanted.split_whitespace().collect();
    let mut by_size: BTreeMap<u32, Vec<Case>> = BTreeMap::new();
    let fit = |case: &&Case| {
        let begins = |word: &&str| *word == ALL || case.name.starts_with(word);
        words.iter().any(begins)
    };
    for case in cases.iter().filter(fit) {
        for ranks in case.sizes() {
            by_size.entry(ranks).or_default().push(*case);
        }
    }
    let trial = |(ranks, cases): (u32, Vec<Case>)| {
        let name = format!("{device}/together/{ranks}_ranks");
        Trial::test(name, move || launch_together(&cases, ranks, device))
    };
    Some(by_size.into_iter().map(trial).collect())
}
