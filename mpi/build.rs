//! Finds out what kind of type the host's handles are, and compiles the tables of its constants with its own compiler
//! wrapper.

use std::path::PathBuf;
use std::process::Stdio;
use std::{env, fs};

#[macro_use]
#[path = "src/table.rs"]
mod table;

fn main() {
    println!("cargo:rerun-if-changed=src/constants.c");
    println!("cargo:rerun-if-changed=src/handles_are_numbers.c");
    println!("cargo:rerun-if-changed=src/table.rs");
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
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR"));
    fs::write(out.join("table.h"), table()).expect("OUT_DIR is writable");
    build.include(out);
    build.file("src/constants.c").compile("transom_constants");
}

/// The lists of `table.rs` in C.
fn table() -> String {
    macro_rules! constants_of_c {
        ($($ty:ident: $($mpi:ident $name:ident),+;)+) => {
            [$(constants(stringify!($ty), &[$(stringify!($mpi)),+])),+].concat()
        };
    }
    macro_rules! names {
        ($($ours:ident $mpi:ident,)+) => { &[$(stringify!($mpi)),+] };
    }
    macro_rules! names_of_datatypes {
        ($($kind:ident [$($ty:ident)+]: $($mpi:ident)+ $(, optional $($optional:ident)+)?;)+) => {
            (&[$($(stringify!($mpi),)+ $($(stringify!($optional),)+)?)+], &[$($($(stringify!($optional),)+)?)+])
        };
    }
    let (datatypes, optional): (&[&str], &[&str]) = datatypes!(names_of_datatypes);
    let or_null = |name| format!("#ifndef {name}\n#define {name} MPI_DATATYPE_NULL\n#endif\n");
    [
        constants!(constants_of_c),
        array("int transom_error_classes", error_classes!(names)),
        array("MPI_Op transom_operations", operations!(names)),
        array("int transom_combiners", combiners!(names)),
        optional.iter().map(or_null).collect(),
        array("MPI_Datatype transom_datatypes", datatypes),
    ]
    .concat()
}

fn constants(ty: &str, names: &[&str]) -> String {
    let ty = ty.strip_prefix("c_").unwrap_or(ty);
    let line = |name| format!("const {ty} transom_{name} = {name};\n");
    names.iter().map(line).collect()
}

fn array(what: &str, names: &[&str]) -> String {
    format!("const {what}[] = {{{}}};\n", names.join(", "))
}
