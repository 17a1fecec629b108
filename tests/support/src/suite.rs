//! The cases of a test binary, each over several devices.

use libtest_mimic::{Arguments, Trial};

/// Cases over devices.
#[derive(Default)]
pub struct Suite {
    trials: Vec<Trial>,
}

impl Suite {
    /// Adds a case, whose name is `DEVICE/CASE`.
    pub fn push(&mut self, device: &'static str, trial: Trial) {
        let case = trial.name().strip_prefix(device);
        assert!(case.is_some_and(|case| case.starts_with('/')), "{device}");
        self.trials.push(trial);
    }

    /// Adds what is of no single device.
    pub fn always(&mut self, trial: Trial) {
        self.trials.push(trial);
    }

    /// Runs what the arguments ask for, and ends the process.
    pub fn run(self) -> ! {
        libtest_mimic::run(&Arguments::from_args(), self.trials).exit()
    }
}
