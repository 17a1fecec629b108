//! Programs from which something was taken out.

use std::collections::{BTreeMap, BTreeSet};

use crate::access::Access;
use crate::program::{Call, Program};

/// What is left of a program while a failure is narrowed down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Rounds from the first on; `None`: all.
    pub(crate) rounds: Option<usize>,
    pub(crate) without_epochs: BTreeSet<usize>,
    pub(crate) without_accesses: BTreeSet<u32>,
}

impl Program {
    /// Leaves out what is not kept. What remains is a valid program still: only accesses and whole
    /// epochs go, and with a notification everything that it put in order.
    pub(crate) fn reduce(&mut self, kept: &Kept) {
        self.rounds.truncate(kept.rounds.unwrap_or(usize::MAX));
        for round in &mut self.rounds {
            round
                .epochs
                .retain(|epoch| !kept.without_epochs.contains(&epoch.number));
        }
        let mut gone = kept.without_accesses.clone();
        let all = self.accesses().map(|access| (access.id, access.after));
        // What comes before has the lower number.
        for (id, after) in all.collect::<BTreeMap<_, _>>() {
            if after.is_some_and(|after| gone.contains(&after)) {
                gone.insert(id);
            }
        }
        let epochs = self.rounds.iter_mut().flat_map(|round| &mut round.epochs);
        for script in epochs.flat_map(|epoch| epoch.scripts.iter_mut().flatten()) {
            script.retain(|call| match call {
                Call::Access(access) => !gone.contains(&access.id),
                Call::Wait(id) => !gone.contains(id),
                _ => true,
            });
        }
        self.count_notifications();
    }

    /// Tells those that wait for notifications how many there are then.
    fn count_notifications(&mut self) {
        let mut counts = BTreeMap::<(usize, u32, u32), u64>::new();
        for epoch in self.rounds.iter_mut().flat_map(|round| &mut round.epochs) {
            let calls = epoch.scripts.iter().flatten().flatten();
            let raises = calls.filter_map(|call| match call {
                Call::Access(access) => Some((access.id, access.target, access.notifies?)),
                _ => None,
            });
            let raises: Vec<_> = raises.collect();
            for (rank, scripts) in (0..).zip(&mut epoch.scripts) {
                for call in scripts.iter_mut().flatten() {
                    if let Call::Await(awaited) = call {
                        let place = (rank, awaited.counter);
                        let before = counts.get(&(epoch.window, rank, awaited.counter));
                        let here = raises.iter().filter(|&&(id, target, counter)| {
                            (target, counter) == place && id <= awaited.last
                        });
                        awaited.at_least = before.unwrap_or(&0) + here.count() as u64;
                    }
                }
            }
            for (_, target, counter) in raises {
                *counts.entry((epoch.window, target, counter)).or_default() += 1;
            }
        }
    }

    /// Every access.
    pub(crate) fn accesses(&self) -> impl Iterator<Item = &Access> {
        let epochs = self.rounds.iter().flat_map(|round| &round.epochs);
        let calls = epochs.flat_map(|epoch| epoch.scripts.iter().flatten().flatten());
        calls.filter_map(|call| match call {
            Call::Access(access) => Some(&**access),
            _ => None,
        })
    }
}
