//! Which processors each rank runs on.

use super::LaunchError;
use crate::job::processors::{Mask, Processors};

/// Whether the ranks of a job are bound to processors, as other launchers' `--bind-to` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BindTo {
    /// Each rank runs where the launcher may run. Right where jobs run side by side: they know nothing
    /// of each other, and would be bound to the same cores.
    #[default]
    None,
    /// Each rank, with all its threads, has a core of its own, which is an error where there are not
    /// enough of them.
    Core,
    /// As `Core` where there are as many cores as ranks, else as `None`.
    Auto,
}

/// The cores for the ranks of a job, one each, or none at all.
pub(super) struct Binding(Vec<Mask>);

impl Binding {
    pub(super) fn plan(bind_to: BindTo, ranks: u32) -> Result<Self, LaunchError> {
        if bind_to == BindTo::None {
            return Ok(Self(Vec::new()));
        }
        let allowed = Processors::allowed().unwrap_or_default();
        let cores = cores(&allowed, Processors::core_of);
        match (bind_to, cores.len()) {
            (_, enough) if enough >= ranks as usize => {
                Ok(Self(cores.iter().map(Mask::from).collect()))
            }
            (BindTo::Auto, _) => Ok(Self(Vec::new())),
            (_, cores) => Err(LaunchError::Cores { ranks, cores }),
        }
    }

    /// Where `rank` runs, if it is bound.
    pub(super) fn of(&self, rank: u32) -> Option<&Mask> {
        self.0.get(rank as usize)
    }
}

/// The cores that `allowed` is made up of, without what is not allowed of them, in the order of their
/// first processors.
fn cores(allowed: &Processors, core_of: impl Fn(u32) -> Processors) -> Vec<Processors> {
    let mut cores: Vec<Processors> = Vec::new();
    for processor in allowed.iter() {
        let core = core_of(processor).and(allowed);
        if core.first() == Some(processor) {
            cores.push(core);
        }
    }
    cores
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(processors: &[u32]) -> Processors {
        processors.iter().copied().collect()
    }

    /// Two threads a core, numbered as most machines do: 0 and 4 are of one core.
    fn paired(processor: u32) -> Processors {
        set(&[processor % 4, processor % 4 + 4])
    }

    #[test]
    fn a_core_has_all_its_allowed_threads() {
        let all = set(&[0, 1, 2, 3, 4, 5, 6, 7]);
        let expected = [set(&[0, 4]), set(&[1, 5]), set(&[2, 6]), set(&[3, 7])];
        assert_eq!(cores(&all, paired), expected);
        let some = set(&[1, 4, 5, 7]);
        assert_eq!(cores(&some, paired), [set(&[1, 5]), set(&[4]), set(&[7])]);
        assert_eq!(cores(&set(&[]), paired), []);
    }

    #[test]
    fn more_ranks_than_cores_are_refused_or_not_bound() {
        let many = super::super::MAX_RANKS;
        let refused = Binding::plan(BindTo::Core, many).err().unwrap();
        let LaunchError::Cores { ranks, cores } = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(ranks, many);
        assert!(cores >= 1);
        assert!(Binding::plan(BindTo::Auto, many).unwrap().of(0).is_none());
        assert!(Binding::plan(BindTo::Auto, 1).unwrap().of(0).is_some());
        assert!(Binding::plan(BindTo::None, 1).unwrap().of(0).is_none());
    }
}
