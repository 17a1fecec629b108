//! Runs the examples under the launcher.

use std::collections::HashSet;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::job::{Done, run, this_binary};
use crate::launcher;

/// The folder of the package.
pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The example. Cargo puts it into `examples`, beside the folder of the test binaries.
pub fn program(name: &'static str) -> PathBuf {
    static BUILT: Mutex<Option<HashSet<&str>>> = Mutex::new(None);
    // `cargo test` builds the examples, but `cargo test --test NAME` does not, and may leave an old one.
    let mut built = BUILT.lock().expect("no other test has failed to build");
    if built.get_or_insert_default().insert(name)
        && let Some(cargo) = env::var_os("CARGO")
    {
        let built = cargo_here(&cargo, &["build", "--example", name]).status();
        assert!(
            built.expect("cargo").success(),
            "building the example failed"
        );
    }
    folder().join("examples").join(name)
}

/// The folder of the profile with which this test was built.
fn folder() -> PathBuf {
    let this = this_binary();
    let folder = this.parent().and_then(Path::parent);
    folder.expect("a folder of cargo's").to_owned()
}

/// A run of cargo that builds with the profile and into the folder of this test.
pub(crate) fn cargo_here(cargo: &OsStr, arguments: &[&str]) -> Command {
    let folder = folder();
    let mut command = Command::new(cargo);
    command
        .args(arguments)
        .args(["--quiet", "--profile", profile(&folder), "--target-dir"])
        .arg(folder.parent().expect("cargo's folder"))
        .current_dir(ROOT);
    command
}

/// The profile whose folder this is.
fn profile(folder: &Path) -> &str {
    match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(other) => other,
        None => panic!("{folder:?} is no folder of cargo's"),
    }
}

/// The output of a command that has to succeed without a message on standard error.
#[track_caller]
pub fn printed(command: &mut Command) -> String {
    let caught = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let done = run(caught.stdin(Stdio::null()));
    assert!(done.status.success(), "{command:?}: {}", done.stderr);
    assert_eq!(done.stderr, "", "{command:?}");
    done.text().to_owned()
}

/// Runs a program in a shell on each rank. The shell says how the program ended.
#[track_caller]
pub fn endings(ranks: u32, program: &Path, arguments: &[&Path]) -> Done {
    let mut command = launcher::command(ranks, &[]);
    command.args(["sh", "-c", "\"$0\" \"$@\"; echo ended $?"]);
    run(command.arg(program).args(arguments))
}

/// Runs a program on three ranks, and kills rank 1 when the shell command `until` succeeds. The other ranks continue,
/// and have to detect the death. The file `$SAID` contains rank 1's output.
#[track_caller]
pub fn survivors(until: &str, program: &Path, arguments: &[&str]) -> Done {
    let script = "
        [ $PMI_RANK = 1 ] || exec \"$0\" \"$@\"
        \"$0\" \"$@\" >\"$SAID\" &
        until eval \"$UNTIL\"; do sleep 0.01; done
        kill -9 $!
        wait $!";
    let folder = Folder::new();
    let mut command = launcher::command(3, &["--keep-going"]);
    command
        .args(["sh", "-c", script])
        .env("UNTIL", until)
        .env("SAID", folder.file("said", b""));
    run(command.arg(program).args(arguments)).expect(137)
}

/// Checks that ranks 0 and 2 name rank 1.
#[track_caller]
pub fn check_survivors(name: &str, done: &Done) {
    for rank in [0, 2] {
        let said = format!("{name}: rank {rank}: ");
        let line = done.stderr.lines().find(|line| line.starts_with(&said));
        let line = line.unwrap_or_else(|| panic!("no word of rank {rank}: {}", done.stderr));
        let cause = ["rank 1 died", "because rank 1"];
        assert!(cause.iter().any(|cause| line.contains(cause)), "{line}");
    }
}

/// A folder whose files are removed after the test.
pub struct Folder(pub tempfile::TempDir);

impl Folder {
    /// An empty folder.
    #[expect(clippy::new_without_default, reason = "what is new is on the disk")]
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    /// Makes a file in it.
    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).expect("a file");
        path
    }
}
