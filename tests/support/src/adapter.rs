//! Test binaries on the RDMA adapter in user space (`soft-hca`).

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::environment::{DEVICES, EVERY, NEIGHBOURS};
use crate::job::quiet;
use crate::programs::cargo_here;

/// A run of every n-th case of a test binary over a device, on these adapters, which fails if it misuses one. The binary
/// is built with the verbs provider, as the calling test is.
pub fn run(test: &str, device: &str, adapters: &[&str], every: usize) -> Command {
    let mut command = quiet(built(
        &["build", "--package", "soft-hca"],
        "\"name\":\"soft-hca\"",
    ));
    command.arg("--strict");
    for adapter in adapters {
        command.args(["--adapter", adapter]);
    }
    let arguments = ["test", "--features", "verbs", "--no-run", "--test", test];
    let binary = built(&arguments, &format!("\"name\":\"{test}\""));
    command.arg("--").arg(binary).args(["--skip", "/faults/"]);
    command
        .env(DEVICES, device)
        .env(EVERY, every.to_string())
        .env(NEIGHBOURS, "off");
    command
}

/// Has cargo build something into the folder of this test, and returns the program of the artifact with this mark.
fn built(arguments: &[&str], mark: &str) -> PathBuf {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let done = cargo_here(&cargo, arguments)
        .args(["--message-format", "json"])
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo");
    assert!(
        done.status.success(),
        "cargo {} failed",
        arguments.join(" ")
    );
    let messages = String::from_utf8_lossy(&done.stdout);
    let executable = |line: &str| {
        let path = line.split_once("\"executable\":\"")?.1.split_once('"')?.0;
        Some(PathBuf::from(path))
    };
    let found = messages
        .lines()
        .filter(|line| line.contains(mark))
        .find_map(executable);
    found.expect("cargo names the program")
}
