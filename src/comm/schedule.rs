//! Who sends to whom in a collective, round by round and without the bytes: what ranks carry out, and what the model of
//! large jobs goes through.

use std::ops::Range;

use super::ring::Ring;
use super::team::Rings;
use crate::peers::around;

/// A leader's place among the ranks of its host.
pub(super) const LEADER: u32 = 0;

/// One round of a rank of a ring: it sends to the rank 2^round ahead, and receives from the rank 2^round behind. The
/// ranges name the owners of the parts by their distance behind this rank (allgather) or the root (the others).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Round {
    pub(crate) sends: Option<Range<u32>>,
    pub(crate) receives: Option<Range<u32>>,
}

/// A collective among the ranks of a ring, in ceil(log2(p)) rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// Binomial tree: in round k, each of the 2^k ranks that have the bytes sends them to the rank 2^k ahead.
    Bcast,
    /// Binomial tree towards the root: in round k, a rank sends the parts that it has gathered if the lowest set bit of
    /// its distance to the root is k.
    Gather,
    /// The same tree; all messages are one part of equal length.
    Reduce,
    /// Dissemination: after round k, each rank has merged the values of itself and the 2^(k + 1) − 1 ranks behind it,
    /// some of them twice where there are fewer ranks. All messages are one part of equal length.
    Merge,
    /// Bruck's algorithm: before round k, each rank has its own part and those of the 2^k − 1 ranks behind it. It
    /// forwards as many as are still missing.
    Allgather,
}

impl Algorithm {
    /// The round of the rank at `place`. `root` is a place; an allgather has no root.
    pub(crate) fn round(self, size: u32, place: u32, root: u32, round: u32) -> Round {
        let step = 1 << round;
        let distance = |from, to| around(to, size - from, size);
        // The distances from `start` on: `count` of them, or as many as there are.
        let parts = |start: u32, count: u32| start..start.saturating_add(count).min(size);
        match self {
            Self::Bcast => {
                let behind = distance(root, place);
                let reaches = u64::from(behind) + u64::from(step) < u64::from(size);
                Round {
                    sends: (behind < step && reaches).then_some(0..1),
                    receives: (behind >> round == 1).then_some(0..1),
                }
            }
            Self::Gather | Self::Reduce => {
                let ahead = distance(place, root);
                let (lower, is_sender) = (ahead & (step - 1), ahead & step != 0);
                let from = ahead.saturating_add(step);
                Round {
                    sends: (lower == 0 && is_sender).then(|| parts(ahead, step)),
                    receives: (lower == 0 && !is_sender && from < size).then(|| parts(from, step)),
                }
            }
            Self::Merge => Round {
                sends: Some(0..1),
                receives: Some(0..1),
            },
            Self::Allgather => {
                let more = step.min(size - step);
                Round {
                    sends: Some(0..more),
                    receives: Some(step..step + more),
                }
            }
        }
    }
}

/// The ring in which a phase runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Among {
    /// The ranks of this host, or all ranks if there is one step.
    Here,
    /// The leaders.
    Leaders,
}

/// A part of a collective: an algorithm in one ring. `root` is a place in that ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    pub(crate) among: Among,
    pub(crate) algorithm: Algorithm,
    pub(crate) root: u32,
}

/// The phases of a rank, in order. The ranks of one ring have its phase at the same index.
pub(crate) type Phases = [Option<Phase>; 3];

fn here(algorithm: Algorithm, root: u32) -> Option<Phase> {
    let among = Among::Here;
    Some(Phase {
        among,
        algorithm,
        root,
    })
}

impl Rings {
    /// The ring of a phase.
    pub(crate) fn ring(&self, among: Among) -> Option<&Ring> {
        match (&self.by_host, among) {
            (None, Among::Here) => Some(&self.all),
            (None, Among::Leaders) => None,
            (Some(hosts), Among::Here) => Some(&hosts.here),
            (Some(hosts), Among::Leaders) => hosts.leaders.as_ref(),
        }
    }

    pub(crate) fn bcast(&self, root: u32) -> Phases {
        self.rooted(Algorithm::Bcast, root)
    }

    /// The reverse of a broadcast.
    pub(crate) fn gather(&self, root: u32) -> Phases {
        let mut phases = self.rooted(Algorithm::Gather, root);
        phases.reverse();
        phases
    }

    /// From the root to all others: on its host, among the leaders, and on the other hosts.
    fn rooted(&self, algorithm: Algorithm, root: u32) -> Phases {
        let Some(hosts) = &self.by_host else {
            return [here(algorithm, root), None, None];
        };
        let of_leaders = self.of_leaders(algorithm, hosts.host_of(root));
        match hosts.here.place_of(root) {
            Some(place) => [here(algorithm, place), of_leaders, None],
            None => [None, of_leaders, here(algorithm, LEADER)],
        }
    }

    pub(crate) fn reduce(&self, root: u32) -> Phases {
        let Some(hosts) = &self.by_host else {
            return [here(Algorithm::Reduce, root), None, None];
        };
        let to_root = match hosts.here.place_of(root) {
            None | Some(LEADER) => None,
            Some(_) => here(Algorithm::Bcast, LEADER),
        };
        [
            here(Algorithm::Reduce, LEADER),
            self.of_leaders(Algorithm::Reduce, hosts.host_of(root)),
            to_root,
        ]
    }

    pub(crate) fn allgather(&self) -> Phases {
        if self.by_host.is_none() {
            return [here(Algorithm::Allgather, LEADER), None, None];
        }
        [
            here(Algorithm::Gather, LEADER),
            self.of_leaders(Algorithm::Allgather, LEADER),
            here(Algorithm::Bcast, LEADER),
        ]
    }

    pub(crate) fn merge(&self) -> Phases {
        if self.by_host.is_none() {
            return [here(Algorithm::Merge, LEADER), None, None];
        }
        [
            here(Algorithm::Reduce, LEADER),
            self.of_leaders(Algorithm::Merge, LEADER),
            here(Algorithm::Bcast, LEADER),
        ]
    }

    /// A phase among the leaders, if this rank is one. `root`: a host.
    fn of_leaders(&self, algorithm: Algorithm, root: u32) -> Option<Phase> {
        let among = Among::Leaders;
        self.ring(among)?;
        Some(Phase {
            among,
            algorithm,
            root,
        })
    }
}
