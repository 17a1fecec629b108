//! What the typed interface must not let through, case by case, and that correct use does compile.
//!
//! The expected messages are those of the compiler that CI runs. After an upgrade, look at what
//! `TRYBUILD=overwrite cargo test --test compile_fail -- --ignored` makes of them.

#[test]
#[ignore = "compiles the library once more and a hundred programs: a minute and a half, in .ci/run"]
fn misuse_does_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.pass("cases/pass/*.rs");
    cases.compile_fail("cases/*.rs");
}
