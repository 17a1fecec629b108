//! Which ranks run on one host.

use std::collections::HashMap;
use std::hash::Hash;

use rdma_sys_shim::Nearest;

use crate::memory::columns::Column;

/// The host of each rank of the world, as a number; the same on all ranks. It is a single host if the host of a rank
/// does not matter, or is unknown.
#[derive(Debug)]
pub(crate) struct Hosts(Column<u32>);

impl Hosts {
    pub(crate) fn one() -> Self {
        Self(Column::Uniform(0))
    }

    /// For a job whose device reaches ranks of a kind differently from others. `names`: the host of each rank.
    pub(super) fn of_job<N: Eq + Hash>(nearest: Nearest, names: impl Iterator<Item = N>) -> Self {
        match nearest {
            Nearest::OfHost => Self::of(names),
            Nearest::None => Self::one(),
            // As if they were placed round-robin.
            Nearest::Any => Self::of(names.zip(0_u32..).map(|(_, rank)| rank % 2)),
        }
    }

    /// `names`: the host of each rank.
    pub(crate) fn of<N: Eq + Hash>(names: impl IntoIterator<Item = N>) -> Self {
        let mut numbers = HashMap::new();
        let number = |name| {
            let next = numbers.len() as u32;
            *numbers.entry(name).or_insert(next)
        };
        let all: Vec<u32> = names.into_iter().map(number).collect();
        match all.is_empty() {
            true => Self::one(),
            false => Self(Column::new(all.iter().copied())),
        }
    }

    pub(crate) fn host_of(&self, rank: u32) -> u32 {
        self.0.get(rank)
    }

    pub(crate) fn is_one(&self) -> bool {
        matches!(self.0, Column::Uniform(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_numbered_as_they_come() {
        let hosts = Hosts::of(["b", "a", "b", "c"]);
        let numbers: Vec<u32> = (0..4).map(|rank| hosts.host_of(rank)).collect();
        assert_eq!(numbers, [0, 1, 0, 2]);
        assert!(!hosts.is_one());
        assert!(Hosts::of(["b", "b"]).is_one());
        assert!(Hosts::of([0; 0]).is_one());
    }
}
