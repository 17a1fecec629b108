//! `transom run`, with real processes. The test binary is also the program of the ranks, where a
//! shell will not do (`rank.rs`).

mod binding;
mod endings;
mod forbidden;
mod input;
mod joining;
mod output;
mod rank;
mod refusals;
mod seen;
mod waits;

use std::process::Command;

use libtest_mimic::{Arguments, Trial};
use transom_testing::environment;
use transom_testing::job::{playing, quiet};

/// Makes a trial of each function, under its name.
macro_rules! trials {
    ($module:literal: $($test:ident),* $(,)?) => {
        vec![$($crate::trial(concat!($module, "::", stringify!($test)), $test)),*]
    };
}
pub(crate) use trials;

pub(crate) fn trial(name: &str, test: fn()) -> Trial {
    Trial::test(name, move || {
        test();
        Ok(())
    })
}

/// The command.
pub(crate) const TRANSOM: &str = env!("CARGO_BIN_EXE_transom");

/// `transom run` with these arguments.
pub(crate) fn transom_run(args: &[&str]) -> Command {
    let mut command = quiet(TRANSOM);
    command.arg("run").args(args);
    command
}

/// `transom run -n N` of a shell script.
pub(crate) fn script(ranks: u32, options: &[&str], script: &str) -> Command {
    let ranks = ranks.to_string();
    transom_run(&[&["-n", &ranks], options, &["sh", "-c", script]].concat())
}

/// `transom run -n N` of this binary in one of its roles as a rank.
pub(crate) fn role(ranks: u32, options: &[&str], role: &str) -> Command {
    let ranks = ranks.to_string();
    playing(transom_run(&[&["-n", &ranks], options].concat()), role)
}

fn main() {
    if let Some(role) = environment::case() {
        return rank::play(&role);
    }
    expect_default_signals();
    let args = Arguments::from_args();
    let tests: [Vec<Trial>; 9] = [
        binding::tests(),
        endings::tests(),
        forbidden::tests(),
        input::tests(),
        joining::tests(),
        output::tests(),
        refusals::tests(),
        seen::tests(),
        waits::tests(),
    ];
    libtest_mimic::run(&args, tests.into_iter().flatten().collect()).exit();
}

/// A shell without job control starts what runs in its background with signals ignored, and so does
/// `nohup`. The launcher would pass that on, as it should.
fn expect_default_signals() {
    for signal in [
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGTSTP,
    ] {
        // SAFETY: the default action touches no memory of ours.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}
