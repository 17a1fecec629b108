//! Cases one after the other in one job, where starting many jobs would take too long: on emulated
//! hosts.

use std::collections::BTreeMap;

use libtest_mimic::Trial;
use transom_testing::environment;

use crate::case::{Case, launch_together};

/// Stands for every name.
const ALL: &str = "all";
/// So does this; each topic has jobs of its own.
const TOPICS: &str = "topics";

/// A trial for each number of ranks, and for each topic if it is asked for, or none if cases are to be run apart.
pub(crate) fn trials(device: &'static str, cases: &[Case]) -> Option<Vec<Trial>> {
    let wanted = environment::together()?;
    let words: Vec<&str> = wanted.split_whitespace().collect();
    assert!(!words.is_empty(), "names of no cases to be run together");
    Some(trials_of(device, cases, &words))
}

/// Those of the cases whose names begin with one of these words.
pub(crate) fn trials_of(device: &'static str, cases: &[Case], words: &[&str]) -> Vec<Trial> {
    let by_topic = words.contains(&TOPICS);
    for word in words {
        let begins = |case: &Case| case.name.starts_with(word);
        let known = [ALL, TOPICS].contains(word) || cases.iter().any(begins);
        assert!(known, "no case's name begins with {word:?}");
    }
    let mut jobs: BTreeMap<(&str, u32), Vec<Case>> = BTreeMap::new();
    let fit = |case: &&Case| {
        let begins = |word: &&str| [ALL, TOPICS].contains(word) || case.name.starts_with(word);
        words.iter().any(begins)
    };
    for case in cases.iter().filter(fit) {
        let topic = match case.name.split_once('/') {
            // Their jobs have another level of threads, at which a rank may wait for itself.
            Some((topic, _)) if by_topic || topic == "threads" => topic,
            _ => "",
        };
        for ranks in case.sizes() {
            jobs.entry((topic, ranks)).or_default().push(*case);
        }
    }
    let trial = |((topic, ranks), cases): ((&str, u32), Vec<Case>)| {
        let under = if topic.is_empty() { "" } else { "/" };
        let name = format!("{device}/together/{topic}{under}{ranks}_ranks");
        Trial::test(name, move || launch_together(&cases, ranks, device))
    };
    jobs.into_iter().map(trial).collect()
}
