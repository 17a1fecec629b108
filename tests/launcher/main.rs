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
mod support;

use libtest_mimic::{Arguments, Trial};

fn main() {
    if let Some(role) = std::env::var_os(rank::ROLE) {
        return rank::play(&role.to_string_lossy());
    }
    expect_default_signals();
    let args = Arguments::from_args();
    let tests: [Vec<Trial>; 7] = [
        binding::tests(),
        endings::tests(),
        forbidden::tests(),
        input::tests(),
        joining::tests(),
        output::tests(),
        refusals::tests(),
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
