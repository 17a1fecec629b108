//! Which processors each rank runs on.

use std::thread;

use super::LaunchError;
use crate::processors::Processors;

/// Whether the ranks of a job are bound to processors, as other launchers' `--bind-to` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BindTo {
    /// Each rank may use the launcher's processors. Use this if several jobs run side by side: they do not know of each
    /// other, and binding would put their ranks on the same cores.
    #[default]
    None,
    /// Each rank, with all its threads, has a core of its own. It is an error if there are not enough cores.
    Core,
    /// Like `Core` if there are as many cores as ranks and their time is not limited, otherwise like `None`. The thread
    /// that Transom starts for long transfers may run on all processors of the launcher.
    Auto,
}

/// The cores for the ranks of a job, one each, or none at all.
pub(super) fn plan(bind_to: BindTo, ranks: u32) -> Result<Vec<Processors>, LaunchError> {
    match bind_to {
        BindTo::None => Ok(Vec::new()),
        BindTo::Core => core_each(ranks),
        // A container may be allowed less time than its processors have.
        BindTo::Auto if thread::available_parallelism().map_or(1, usize::from) < ranks as usize => {
            Ok(Vec::new())
        }
        BindTo::Auto => Ok(core_each(ranks).unwrap_or_default()),
    }
}

fn core_each(ranks: u32) -> Result<Vec<Processors>, LaunchError> {
    let allowed =
        Processors::allowed().map_err(LaunchError::system("reading where this process may run"))?;
    let cores = cores(&allowed, Processors::core_of).take(ranks as usize);
    let cores: Vec<_> = cores.collect();
    match cores.len() {
        enough if enough == ranks as usize => Ok(cores),
        cores => Err(LaunchError::Cores { ranks, cores }),
    }
}

/// The cores of the processors in `allowed`, each without the processors that are not allowed. They are in the order of
/// their first processors.
fn cores(
    allowed: &Processors,
    core_of: impl Fn(u32) -> Processors,
) -> impl Iterator<Item = Processors> {
    allowed.iter().filter_map(move |processor| {
        let core = core_of(processor).and(allowed);
        (core.first() == Some(processor)).then_some(core)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(processors: &[u32]) -> Processors {
        processors.iter().copied().collect()
    }

    /// Two threads per core, numbered as on most machines: 0 and 4 share a core.
    fn paired(processor: u32) -> Processors {
        set(&[processor % 4, processor % 4 + 4])
    }

    #[test]
    fn a_core_has_all_its_allowed_threads() {
        let all = set(&[0, 1, 2, 3, 4, 5, 6, 7]);
        let expected = [set(&[0, 4]), set(&[1, 5]), set(&[2, 6]), set(&[3, 7])];
        assert!(cores(&all, paired).eq(expected));
        let some = set(&[1, 4, 5, 7]);
        assert!(cores(&some, paired).eq([set(&[1, 5]), set(&[4]), set(&[7])]));
        assert_eq!(cores(&set(&[]), paired).count(), 0);
    }

    #[test]
    fn more_ranks_than_cores_are_refused_or_not_bound() {
        let many = super::super::MAX_RANKS;
        let refused = plan(BindTo::Core, many).err().unwrap();
        let LaunchError::Cores { ranks, cores } = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(ranks, many);
        assert!(cores >= 1);
        assert!(plan(BindTo::Auto, many).unwrap().is_empty());
        assert_eq!(plan(BindTo::Auto, 1).unwrap().len(), 1);
        assert!(plan(BindTo::None, 1).unwrap().is_empty());
    }
}
