//! The programs of the user guide, as they stand there: `guide NAME` runs one of them.

#![allow(
    elided_lifetimes_in_paths,
    reason = "programs may leave them out, as the guide does"
)]

use std::error::Error;
use std::process::ExitCode;

/// Each program is a file of its own, with a `main` of its own.
macro_rules! programs {
    ($($name:ident),*) => {
        $(mod $name {
            include!(concat!(stringify!($name), ".rs"));

            pub(super) fn run() -> std::result::Result<(), Box<dyn std::error::Error>> {
                Ok(main()?)
            }
        })*

        const PROGRAMS: &[(&str, fn() -> Result<(), Box<dyn Error>>)] =
            &[$((stringify!($name), $name::run)),*];
    };
}

programs!(
    accumulate,
    collections,
    counted,
    dynamic,
    errors,
    exchange,
    fence,
    helpers,
    hints,
    layouts,
    lock_all,
    loads,
    locks,
    notify,
    owned,
    raw_fence,
    requests,
    session,
    shared,
    strided,
    structs
);

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some((_, program)) = PROGRAMS.iter().find(|(known, _)| *known == name) else {
        let names: Vec<_> = PROGRAMS.iter().map(|(name, _)| *name).collect();
        eprintln!("guide: name a program of the guide: {}", names.join(", "));
        return ExitCode::from(2);
    };
    match program() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("guide: {name}: {error}");
            ExitCode::FAILURE
        }
    }
}
