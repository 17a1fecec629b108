//! Which processors each rank runs on.

use std::thread;

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
    /// As `Core` where there are as many cores as ranks and their time is not limited, else as `None`.
    Auto,
}

/// The cores for the ranks of a job, one each, or none at all.
pub(super) struct Binding {
    cores: Vec<Mask>,
    must: bool,
}

impl Binding {
    pub(super) fn plan(bind_to: BindTo, ranks: u32) -> Result<Self, LaunchError> {
        let none = Self {
            cores: Vec::new(),
            must: false,
        };
        let must = match bind_to {
            BindTo::None => return Ok(none),
            BindTo::Core => true,
            BindTo::Auto => false,
        };
        let allowed = match Processors::allowed() {
            Ok(allowed) => allowed,
            Err(_) if !must => return Ok(none),
            Err(error) => {
                return Err(LaunchError::system("reading where this process may run")(
                    error,
                ));
            }
        };
        let cores = cores(&allowed, Processors::core_of);
        // A container may be allowed less time than its processors have.
        let available = thread::available_parallelism().map_or(1, usize::from);
        match cores.len() {
            enough if enough >= ranks as usize && (must || available >= ranks as usize) => {
                Ok(Self {
                    cores: cores.iter().map(Mask::from).collect(),
                    must,
                })
            }
            cores if must => Err(LaunchError::Cores { ranks, cores }),
            _ => Ok(none),
        }
    }

    /// The core of `rank`, if it has one, and whether it is an error if the system refuses it.
    pub(super) fn of(&self, rank: u32) -> Option<(&Mask, bool)> {
        Some((self.cores.get(rank as usize)?, self.must))
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
