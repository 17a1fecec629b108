//! A window whose errors are fatal: the first one ends the job, and says why.

use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use transom::raw::{Assert, ErrorHandler, Window};
use transom::{ErrorClass, Info, Job};
use transom_testing::environment;
use transom_testing::job::{self, Launched, Others};

const ROLE: &str = "faults/fatal";
/// The others learn of it by being told, not by the limits of their waits.
const LIMIT: Duration = Duration::from_secs(20);

/// Rank 1 breaks a rule while rank 0 waits for it.
pub(crate) fn play() {
    let job = Job::init().expect("a job");
    let info = Info::new();
    let window = Window::allocate(job.world(), 64, 8, &info).expect("a window");
    window.set_name("halo");
    if job.world().rank() == 1 {
        window.set_error_handler(ErrorHandler::Fatal);
        let _ = window.handled(|window| window.unlock(0));
        eprintln!("a fatal error came back");
    } else {
        let error = window.fence(Assert::NONE).expect_err("rank 1 never comes");
        eprintln!("rank 0 saw {:?}", error.class());
    }
    std::process::exit(77);
}

pub(crate) fn trials(device: &'static str) -> Vec<Trial> {
    let name = format!("{device}/faults/fatal/ends_the_job");
    vec![Trial::test(name, move || check(device))]
}

fn check(device: &str) -> Result<(), Failed> {
    let Launched {
        status,
        output,
        took,
    } = job::play(2, device, Others::GoOn, ROLE);
    let said = "rank 1, window \"halo\": unlock: ";
    let as_wanted = output.contains(said)
        && !output.contains("came back")
        && status.is_some_and(|status| !status.success())
        && took < LIMIT * environment::slowness();
    match as_wanted {
        true => Ok(()),
        false => Err(format!(
            "wanted {said:?} and an exit for {:?}; got {status:?} after {took:?}:\n{output}",
            ErrorClass::RmaSync
        )
        .into()),
    }
}
