//! Random programs over every device, judged by a reference model of MPI's one-sided semantics.
//!
//! A program follows from its seed alone, so that every rank makes the same one (`generate`). After
//! each round the ranks show their memory and what they fetched to rank 0, which asks the `model`
//! whether the standard allows it. A failure prints the seed, and the command that replays what is
//! left of the program after everything that is not needed for it was taken out (`shrink`).
//!
//! | variable | |
//! |---|---|
//! | `TRANSOM_ORACLE_SECONDS` | for how long each device is tried; `forever` |
//! | `TRANSOM_ORACLE_PROGRAM` | the program to replay, as a failure prints it |
//! | `TRANSOM_TEST_DEVICES` and others | as for the conformance suite |

mod access;
mod accesses;
mod areas;
mod buffers;
mod coverage;
mod epochs;
mod execute;
mod exposed;
mod faults;
mod flight;
mod generate;
mod handovers;
mod history;
mod layouts;
mod model;
mod places;
mod play;
mod program;
mod reduce;
mod sabotage;
mod scripts;
mod shapes;
mod shrink;
mod typemap;
mod values;
mod windows;
mod wrong;

use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use transom_testing::devices::{devices, is_adversarial};
use transom_testing::environment;
use transom_testing::launcher;

use generate::CLASSES;
use play::{Done, Task};
use reduce::Kept;
use sabotage::Sabotage;

/// For how long each device is tried in an ordinary test run; the adversarial one, which has the most
/// to show and takes its time, three times as long.
const BUDGET: Duration = Duration::from_secs(4);
/// For how long one job goes on when there is more time than that.
const LONGEST_JOB: Duration = Duration::from_secs(10);

fn budget(device: &str) -> Duration {
    let usual = match is_adversarial(device) {
        true => 3 * BUDGET,
        false => BUDGET,
    };
    environment::oracle_time().unwrap_or(usual)
}

/// Runs programs over a device until the time is over.
fn explore(device: &str) -> Result<(), Failed> {
    let (begun, budget) = (Instant::now(), budget(device));
    let share = (budget / CLASSES as u32).min(LONGEST_JOB);
    let mut first = RandomState::new().hash_one(device) % 1_000_000_000 * CLASSES;
    let mut done = Done::default();
    loop {
        // One job for each number of ranks and level of threads.
        for class in 0..CLASSES {
            let task = Task::Explore {
                first: first + class,
                millis: share.as_millis() as u64,
            };
            match play::run(&task, device) {
                Ok(more) => done.add(&more),
                Err(failure) => return Err(shrink::report(failure, device).into()),
            }
        }
        first += 1_000_000 * CLASSES;
        if begun.elapsed() + share >= budget {
            break;
        }
    }
    let Done {
        programs,
        decided,
        undecided,
    } = done;
    eprintln!(
        "{device}: {programs} programs; {decided} histories of contested places explained, \
         {undecided} too long to decide"
    );
    if programs == 0 {
        return Err("not one program came to its end".into());
    }
    Ok(())
}

fn replay(program: &str, device: &str) -> Result<(), Failed> {
    let (seed, kept) = play::parse(program).unwrap_or_else(|| {
        panic!("{program:?} is no program (legal: seed=7,rounds=2,epochs=3+4,accesses=9)")
    });
    match play::run(&Task::Replay { seed, kept }, device) {
        Ok(_) => Ok(()),
        Err(failure) => Err(failure.output.into()),
    }
}

/// Whether the oracle finds a fault that all ranks play, and for the right reason.
fn notices(how: Sabotage, says: &[&str]) -> Result<(), Failed> {
    // Two ranks, of several threads and of one.
    for class in [0, CLASSES / 2] {
        let task = Task::Sabotage {
            how,
            first: 1_000 * CLASSES + class,
            millis: (LONGEST_JOB * environment::slowness()).as_millis() as u64,
        };
        match play::run(&task, "soft") {
            Err(failure) if says.iter().any(|says| failure.output.contains(says)) => {}
            Err(failure) => {
                let output = failure.output;
                return Err(format!("found otherwise than by {says:?}:\n{output}").into());
            }
            Ok(done) => {
                let programs = done.programs;
                return Err(format!("{programs} programs passed").into());
            }
        }
    }
    Ok(())
}

/// Whether programs of which much was left out are still valid, as `shrink` has it.
fn reduced() -> Result<(), Failed> {
    for seed in 0..2 * CLASSES {
        let mut random = generate::choices(seed);
        let often = random.from(2, 6);
        let program = generate::program(seed);
        let numbers = program.accesses().map(|access| access.id);
        let kept = Kept {
            without_accesses: numbers.filter(|_| random.one_in(often)).collect(),
            ..Kept::default()
        };
        let again = play::describe(seed, &kept);
        if let Err(failure) = play::run(&Task::Replay { seed, kept }, "soft") {
            return Err(format!("{again}\n{}", failure.output).into());
        }
    }
    Ok(())
}

fn main() {
    launcher::take_over();
    if let Some(task) = environment::case() {
        return play::rank(&task);
    }
    let trials = devices().into_iter().map(|device| {
        Trial::test(
            format!("{device}/programs"),
            move || match environment::oracle_program() {
                Some(program) => replay(&program, device),
                None => explore(device),
            },
        )
    });
    // The executor's faults do not depend on the device.
    let is_default = environment::devices().is_none() && environment::is_our_launcher();
    let faults = Sabotage::ALL.into_iter().filter(|_| is_default);
    let faults = faults
        .map(|(how, says)| Trial::test(format!("notices/{how:?}"), move || notices(how, says)));
    let everything = Trial::test("generates/everything", || match coverage::missing() {
        missing if missing.is_empty() => Ok(()),
        missing => Err(format!("never generated: {missing:#?}").into()),
    });
    let smaller = Trial::test("reduces/programs", reduced);
    let own = [everything, smaller].into_iter().filter(|_| is_default);
    let trials = trials.chain(faults).chain(own).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
