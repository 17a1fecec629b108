//! The typed windows, on real ranks. This binary is also the program of the ranks: a test starts
//! their job, with the name of the scenario that they are to play.

mod active;
mod after_death;
mod created;
mod exchange;
mod failures;
mod forked;
mod helpers;
mod nobody;
mod notified;
mod own_part;
mod owned;
mod passive;
mod registered;
mod session;
mod shared;
mod strided;
mod survivors;
mod values;

use libtest_mimic::{Failed, Trial};
use transom::{Job, Result};
use transom_testing::devices::devices;
use transom_testing::environment;
use transom_testing::job::{self, Ending, Others};
use transom_testing::launcher;
use transom_testing::suite::Suite;

/// What the ranks of a job do, in one process each.
#[derive(Clone, Copy)]
pub(crate) struct Scenario {
    name: &'static str,
    ranks: u32,
    play: Play,
    ending: Ending,
}

#[derive(Clone, Copy)]
enum Play {
    InJob(fn(&Job) -> Result<()>),
    /// Leaves the job itself.
    WithJob(fn(Job) -> Result<()>),
    /// Joins it itself, too.
    Itself(fn() -> Result<()>),
}

/// Scenarios from functions, under their names, each with its number of ranks.
macro_rules! scenarios {
    ($($name:ident: $ranks:literal),* $(,)?) => {
        vec![$($crate::Scenario::new(stringify!($name), $ranks, $name)),*]
    };
}
pub(crate) use scenarios;

impl Scenario {
    pub(crate) fn new(name: &'static str, ranks: u32, play: fn(&Job) -> Result<()>) -> Self {
        Self {
            name,
            ranks,
            play: Play::InJob(play),
            ending: Ending::WELL,
        }
    }

    pub(crate) fn leaving(name: &'static str, ranks: u32, play: fn(Job) -> Result<()>) -> Self {
        Self {
            name,
            ranks,
            play: Play::WithJob(play),
            ending: Ending::WELL,
        }
    }

    pub(crate) fn joining(name: &'static str, ranks: u32, play: fn() -> Result<()>) -> Self {
        Self {
            name,
            ranks,
            play: Play::Itself(play),
            ending: Ending::WELL,
        }
    }

    /// One rank is to fail, with this code.
    pub(crate) fn exits(self, code: i32) -> Self {
        let ending = Ending::with_code(code);
        Self { ending, ..self }
    }

    /// One more than [`Self::exits`] expects.
    pub(crate) fn one_more(self) -> Self {
        let ending = self.ending.and_one_more();
        Self { ending, ..self }
    }

    fn run(self, device: &str) -> std::result::Result<(), Failed> {
        let ended = job::play(self.ranks, device, Others::GoOn, self.name);
        Ok(self.ending.check(&ended)?)
    }
}

fn main() {
    launcher::take_over();
    let topics = [
        ("active", active::scenarios()),
        ("after_death", after_death::scenarios()),
        ("created", created::scenarios()),
        ("exchange", exchange::scenarios()),
        ("passive", passive::scenarios()),
        ("registered", registered::scenarios()),
        ("shared", shared::scenarios()),
        ("failures", failures::scenarios()),
        ("forked", forked::scenarios()),
        ("helpers", helpers::scenarios()),
        ("nobody", nobody::scenarios()),
        ("notified", notified::scenarios()),
        ("own_part", own_part::scenarios()),
        ("owned", owned::scenarios()),
        ("session", session::scenarios()),
        ("strided", strided::scenarios()),
        ("survivors", survivors::scenarios()),
        ("values", values::scenarios()),
    ];
    if let Some(name) = environment::case() {
        let mut scenarios = topics.iter().flat_map(|(_, scenarios)| scenarios);
        let scenario = scenarios.find(|scenario| scenario.name == name);
        return match scenario.unwrap().play {
            Play::InJob(play) => play(&Job::init().unwrap()).unwrap(),
            Play::WithJob(play) => play(Job::init().unwrap()).unwrap(),
            Play::Itself(play) => play().unwrap(),
        };
    }
    let devices = devices();
    let mut suite = Suite::new("typed");
    let is_told = |scenario: &Scenario| scenario.ending.is_told();
    for (topic, scenarios) in topics {
        for scenario in scenarios.into_iter().filter(is_told) {
            for &device in &devices {
                let name = format!("{device}/{topic}/{}", scenario.name);
                suite.push(device, Trial::test(name, move || scenario.run(device)));
            }
        }
    }
    suite.run()
}
