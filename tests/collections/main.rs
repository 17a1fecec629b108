//! The collections, on real ranks, against serial models. This binary is also the program of the ranks: a test
//! starts their job, with the name of the scenario that they are to play.

mod amid;
mod arenas;
mod arrays;
mod deques;
mod files;
mod maps;
mod random;
mod survivors;
mod tiles;

use libtest_mimic::{Failed, Trial};
use transom::Job;
use transom_collections::Result;
use transom_testing::devices::devices;
use transom_testing::environment;
use transom_testing::job::{self, Ending, Others};
use transom_testing::launcher;
use transom_testing::suite::Suite;

/// What the ranks of a job do, in one process each.
#[derive(Clone, Copy)]
pub(crate) struct Scenario {
    name: &'static str,
    ranks: &'static [u32],
    play: fn(&Job) -> Result<()>,
    ending: Ending,
}

/// Scenarios from functions, under their names, each with its numbers of ranks.
macro_rules! scenarios {
    ($($name:ident: $ranks:expr),* $(,)?) => {
        vec![$($crate::Scenario::new(stringify!($name), &$ranks, $name)),*]
    };
}
pub(crate) use scenarios;

impl Scenario {
    pub(crate) fn new(
        name: &'static str,
        ranks: &'static [u32],
        play: fn(&Job) -> Result<()>,
    ) -> Self {
        Self {
            name,
            ranks,
            play,
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

    /// Their numbers of ranks.
    fn jobs(&self) -> Vec<u32> {
        let Some(most) = environment::most_ranks() else {
            return self.ranks.to_vec();
        };
        let (fit, larger): (Vec<u32>, Vec<u32>) =
            self.ranks.iter().partition(|&&ranks| ranks <= most);
        let largest = fit.into_iter().max();
        largest.or(larger.into_iter().min()).into_iter().collect()
    }

    fn run(self, device: &str, ranks: u32) -> std::result::Result<(), Failed> {
        let ended = job::play(ranks, device, Others::GoOn, self.name);
        Ok(self.ending.check(&ended)?)
    }
}

fn main() {
    launcher::take_over();
    let topics = [
        ("amid", amid::scenarios()),
        ("arenas", arenas::scenarios()),
        ("arrays", arrays::scenarios()),
        ("deques", deques::scenarios()),
        ("files", files::scenarios()),
        ("maps", maps::scenarios()),
        ("survivors", survivors::scenarios()),
        ("tiles", tiles::scenarios()),
    ];
    if let Some(name) = environment::case() {
        let mut scenarios = topics.iter().flat_map(|(_, scenarios)| scenarios);
        let scenario = scenarios.find(|scenario| scenario.name == name).unwrap();
        return (scenario.play)(&Job::init().unwrap()).unwrap();
    }
    let devices = devices();
    let mut suite = Suite::new("collections");
    let is_told = |scenario: &Scenario| scenario.ending.is_told();
    for (topic, scenarios) in topics {
        for scenario in scenarios.into_iter().filter(is_told) {
            for ranks in scenario.jobs() {
                for &device in &devices {
                    let name = format!("{device}/{topic}/{}_{ranks}_ranks", scenario.name);
                    suite.push(
                        device,
                        Trial::test(name, move || scenario.run(device, ranks)),
                    );
                }
            }
        }
    }
    suite.run()
}
