//! Looks for what the build script of ibverbs-sys needs, which panics where that is missing, and says in one line
//! what to do.
//!
//! A crate of its own: a build script runs after those of its own crate's dependencies. This one runs before that of
//! ibverbs-sys, which waits for bindgen to be compiled.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "verbs")]
    if let Err(missing) = verbs::look() {
        println!("cargo::error={missing}");
    }
}

#[cfg(feature = "verbs")]
mod verbs {
    use std::env;
    use std::process::{Command, Stdio};

    const HEADER: &str = "infiniband/verbs.h";

    pub(crate) fn look() -> Result<(), String> {
        for name in [
            "CMAKE",
            "BINDGEN_EXTRA_CLANG_ARGS",
            "LIBCLANG_PATH",
            "CPATH",
            "PATH",
        ] {
            println!("cargo::rerun-if-env-changed={name}");
        }
        // Without the table, cmake is to configure the rdma-core that ibverbs-sys carries.
        if !runs(&setting("CMAKE").unwrap_or("cmake".into()), &["--version"]) {
            return Err(format!(
                "the feature `verbs` needs cmake, or two settings in .cargo/config.toml of the project that is built: \
                 [env] CMAKE = \"true\" and BINDGEN_EXTRA_CLANG_ARGS = \"-include {HEADER}\""
            ));
        }
        let installed = setting("BINDGEN_EXTRA_CLANG_ARGS").is_some_and(|it| it.contains(HEADER));
        let preprocess = ["-E", "-x", "c", "-include", HEADER, "/dev/null"];
        if installed && runs("cc", &["--version"]) && !runs("cc", &preprocess) {
            return Err(format!(
                "the feature `verbs` needs <{HEADER}>: install libibverbs-dev (rdma-core-devel)"
            ));
        }
        clang_sys::load().map_err(|reason| {
            format!(
                "the feature `verbs` needs libclang: install libclang-dev (clang-devel); {reason}"
            )
        })
    }

    /// A variable of those that have a form for each target.
    fn setting(name: &str) -> Option<String> {
        let target = env::var("TARGET").unwrap_or_default();
        let names = [
            format!("{name}_{target}"),
            format!("{name}_{}", target.replace('-', "_")),
        ];
        let mut names = names.iter().map(String::as_str).chain([name]);
        names.find_map(|name| env::var(name).ok())
    }

    fn runs(program: &str, arguments: &[&str]) -> bool {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}
