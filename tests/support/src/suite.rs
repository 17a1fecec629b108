//! The cases of a test binary, each over several devices. A plain run takes a sample of them.

use std::process;

use libtest_mimic::{Arguments, Trial};

use crate::environment;
use crate::launcher;
use crate::sample::{Name, gaps, sample};

/// Cases over devices. A run that names neither cases nor devices takes a sample of them and ignores the rest. As
/// usual, `--include-ignored` and `--ignored` run ignored cases.
pub struct Suite {
    binary: &'static str,
    args: Arguments,
    cases: Vec<(&'static str, Trial)>,
    others: Vec<Trial>,
}

impl Suite {
    /// `binary` is the name in cargo's `--test`.
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

    /// Adds a test that is always run.
    pub fn always(&mut self, trial: Trial) {
        self.others.push(trial);
    }

    /// Runs the tests that the arguments select, and ends the process.
    pub fn run(mut self) -> ! {
        match scope(&self.args, environment::devices().is_some()) {
            Ok(Scope::Sample) => self.take_sample(),
            Ok(Scope::All) => self.thin_out(environment::every()),
            Err(refusal) => {
                eprintln!("{}: {refusal}", self.binary);
                process::exit(2);
            }
        }
        let trials = self.cases.into_iter().map(|(_, trial)| trial);
        libtest_mimic::run(&self.args, trials.chain(self.others).collect()).exit()
    }

    /// Keeps every `every`'th case, beginning with the first.
    fn thin_out(&mut self, every: usize) {
        let cases = self.cases.drain(..).step_by(every);
        self.cases = cases.collect();
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

/// The main function of a test binary that launches jobs: runs these functions as tests, each under its name.
#[macro_export]
macro_rules! tests {
    ($($test:ident),* $(,)?) => {
        fn main() {
            $crate::suite::run(&[$((stringify!($test), $test)),*]);
        }
    };
}

/// Runs the tests that the arguments select, and ends the process; see [`tests!`](crate::tests).
pub fn run(tests: &[(&'static str, fn())]) -> ! {
    launcher::take_over();
    let trial = |&(name, test): &(&'static str, fn())| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    libtest_mimic::run(&Arguments::from_args(), tests.iter().map(trial).collect()).exit()
}

/// Which cases are not ignored.
#[derive(Debug, PartialEq, Eq)]
pub enum Scope {
    /// All of them.
    All,
    /// A sample of them.
    Sample,
}

/// The scope of a run with these arguments, whose environment names devices or not.
///
/// # Errors
/// The arguments ask for cases outside the sample, but no sample is taken: the run would pass without running anything.
pub fn scope(args: &Arguments, names_devices: bool) -> Result<Scope, &'static str> {
    let names_cases = args.filter.is_some() || !args.skip.is_empty();
    match args.ignored {
        // Tools that list tests ask for the ignored ones separately.
        true if names_devices && !args.list => Err(
            "--ignored runs what a sample leaves out, but over the devices of \
             TRANSOM_TEST_DEVICES no sample is taken: leave out one of the two",
        ),
        ignored if names_devices || (names_cases && !ignored) => Ok(Scope::All),
        _ => Ok(Scope::Sample),
    }
}
