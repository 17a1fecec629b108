//! The cases of a test binary, each over several devices, of which a plain run takes a sample.

use std::collections::{BTreeMap, BTreeSet};

use libtest_mimic::{Arguments, Failed, Trial};

use crate::environment;

/// Cases over devices. A run that names neither cases nor devices takes a sample of them and ignores the
/// rest, which `--include-ignored` and `--ignored` run as usual.
pub struct Suite {
    binary: &'static str,
    args: Arguments,
    cases: Vec<(&'static str, Trial)>,
    others: Vec<Trial>,
}

impl Suite {
    /// `binary`: as cargo's `--test` names it.
    pub fn new(binary: &'static str) -> Self {
        Self {
            binary,
            args: Arguments::from_args(),
            cases: Vec::new(),
            others: Vec::new(),
        }
    }

    /// Adds a case, whose name is `DEVICE/CASE`.
    pub fn push(&mut self, device: &'static str, trial: Trial) {
        self.cases.push((device, trial));
    }

    /// Adds what is always run.
    pub fn always(&mut self, trial: Trial) {
        self.others.push(trial);
    }

    /// Runs what the arguments ask for, and ends the process.
    pub fn run(mut self) -> ! {
        let args = &self.args;
        let names_cases = args.filter.is_some() || !args.skip.is_empty();
        let is_whole = (names_cases && !args.ignored) || environment::devices().is_some();
        if !is_whole {
            self.take_sample();
        }
        let trials = self.cases.into_iter().map(|(_, trial)| trial);
        libtest_mimic::run(&self.args, trials.chain(self.others).collect()).exit()
    }

    fn take_sample(&mut self) {
        let names: Vec<Name> = (self.cases.iter())
            .map(|(device, trial)| Name::new(device, trial.name()))
            .collect();
        let is_in = sample(&names);
        let (all, taken) = (names.len(), is_in.iter().filter(|&&is_in| is_in).count());
        let mut cases = Vec::with_capacity(all);
        for ((device, trial), &is_in) in self.cases.drain(..).zip(&is_in) {
            cases.push((device, trial.with_ignored_flag(!is_in)));
        }
        self.cases = cases;
        let binary = self.binary;
        if !self.args.list && !self.args.include_ignored && !self.args.ignored {
            eprintln!(
                "a sample: {taken} of {all} cases, {} are ignored; all: cargo test --test {binary} -- \
                 --include-ignored",
                all - taken
            );
        }
        let met = move || gaps(&names, &is_in);
        self.always(Trial::test(
            "sample/meets_every_family_on_every_device",
            met,
        ));
    }
}

/// A case's name, taken apart.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    device: &'static str,
    /// What it has in common with its like: `lock`, `faults/killed`.
    family: String,
    case: String,
}

impl Name {
    fn new(device: &'static str, name: &str) -> Self {
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

/// Each case over one of its devices, the next one of its family over the next; and of each family at
/// least one case over each device.
fn sample(names: &[Name]) -> Vec<bool> {
    let mut places = BTreeMap::<&str, Vec<usize>>::new();
    for (place, name) in names.iter().enumerate() {
        places.entry(&name.case).or_default().push(place);
    }
    let mut is_in = vec![false; names.len()];
    let mut numbers = BTreeMap::<&str, usize>::new();
    for name in names {
        // Only at the first of its places.
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

/// Fails if a sample leaves out a case altogether, or a family over a device.
fn gaps(names: &[Name], is_in: &[bool]) -> Result<(), Failed> {
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
