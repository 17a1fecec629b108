//! Compiles the table of the host's constants with the host's own compiler wrapper.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=src/constants.c");
    println!("cargo:rerun-if-env-changed=MPICC");
    cc::Build::new()
        .compiler(env::var("MPICC").unwrap_or_else(|_| "mpicc".into()))
        .file("src/constants.c")
        .compile("transom_constants");
    // The host is whatever MPI the program has. Naming one here would load a second.
    println!("cargo:rustc-cdylib-link-arg=-Wl,--as-needed");
}
