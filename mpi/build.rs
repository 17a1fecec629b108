//! Compiles the table of the host's constants with the host's own compiler wrapper, and finds out what kind of type
//! its handles are.

use std::env;
use std::process::Stdio;

fn main() {
    println!("cargo:rerun-if-changed=src/constants.c");
    println!("cargo:rerun-if-changed=src/handles_are_numbers.c");
    println!("cargo:rerun-if-env-changed=MPICC");
    println!("cargo:rustc-check-cfg=cfg(handles_are_numbers)");
    let mut build = cc::Build::new();
    build.compiler(env::var("MPICC").unwrap_or_else(|_| "mpicc".into()));
    let they_are = build
        .get_compiler()
        .to_command()
        .args(["-fsyntax-only", "src/handles_are_numbers.c"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if they_are {
        println!("cargo:rustc-cfg=handles_are_numbers");
        build.define("HANDLES_ARE_NUMBERS", None);
    }
    build.file("src/constants.c").compile("transom_constants");
}
