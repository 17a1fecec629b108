//! Runs an example, the real program under the real launcher, with a deadline.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Far beyond what a run takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

pub(crate) struct Done {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The example, which cargo puts beside the command, in `examples`.
pub(crate) fn program(name: &'static str) -> PathBuf {
    static BUILT: Mutex<Option<HashSet<&str>>> = Mutex::new(None);
    let folder = Path::new(env!("CARGO_BIN_EXE_transom")).parent().unwrap();
    // `cargo test` builds the examples, but with `--test NAME` it leaves an old one there.
    let mut built = BUILT.lock().unwrap();
    if built.get_or_insert_default().insert(name)
        && let Some(cargo) = std::env::var_os("CARGO")
    {
        build(Command::new(cargo), name, folder);
    }
    folder.join("examples").join(name)
}

/// `folder` is that of the profile.
fn build(mut cargo: Command, name: &str, folder: &Path) {
    let profile = match folder.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        other => other,
    };
    let built = cargo
        .args(["build", "--quiet", "--example", name])
        .args(["--profile", profile, "--target-dir"])
        .arg(folder.parent().unwrap())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(built.unwrap().success(), "building the example failed");
}

/// `transom run -n RANKS OPTIONS`, of a command that gets these arguments.
pub(crate) fn transom_run(ranks: u32, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
    command
        .args(["run", "-n", &ranks.to_string()])
        .args(options);
    command
}

pub(crate) fn finish(command: &mut Command) -> Done {
    // To files, since nobody reads pipes while this waits.
    let mut outputs = [(); 2].map(|()| tempfile::tempfile().unwrap());
    let [stdout, stderr] = outputs.each_ref().map(|file| file.try_clone().unwrap());
    let mut child = command
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .spawn()
        .unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("{command:?} hangs");
        }
        thread::sleep(Duration::from_millis(5));
    };
    let [stdout, stderr] = outputs.each_mut().map(contents);
    Done {
        status,
        stdout,
        stderr,
    }
}

fn contents(file: &mut File) -> String {
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

/// What a command prints that has to succeed, and to complain about nothing.
#[allow(dead_code, reason = "not every test needs it")]
pub(crate) fn printed(command: &mut Command) -> String {
    let done = finish(command);
    assert!(done.status.success(), "{command:?}: {}", done.stderr);
    assert_eq!(done.stderr, "", "{command:?}");
    done.stdout
}

/// A program under a shell on each rank, which says how it ended.
pub(crate) fn endings(ranks: u32, program: &Path, arguments: &[&Path]) -> Done {
    let mut command = transom_run(ranks, &["sh", "-c", "\"$0\" \"$@\"; echo ended $?"]);
    finish(command.arg(program).args(arguments))
}

/// A program on three ranks, of which rank 1 is killed as soon as the shell finds `until` to be so.
/// The others run on, and have to find out. Rank 1's output is in the file that `$SAID` names.
#[allow(dead_code, reason = "not every test needs it")]
pub(crate) fn survivors(until: &str, program: &Path, arguments: &[&str]) -> Done {
    let script = "
        [ $PMI_RANK = 1 ] || exec \"$0\" \"$@\"
        \"$0\" \"$@\" >\"$SAID\" &
        until eval \"$UNTIL\"; do sleep 0.01; done
        kill -9 $!
        wait $!";
    let folder = Folder::new();
    let mut command = transom_run(3, &["--keep-going", "sh", "-c", script]);
    command
        .env("UNTIL", until)
        .env("SAID", folder.file("said", b""));
    let done = finish(command.arg(program).args(arguments));
    assert_eq!(done.status.code(), Some(137), "{}", done.stderr);
    done
}

/// That ranks 0 and 2 say that it was rank 1.
#[allow(dead_code, reason = "not every test needs it")]
pub(crate) fn check_survivors(name: &str, done: &Done) {
    for rank in [0, 2] {
        let said = format!("{name}: rank {rank}: ");
        let line = done.stderr.lines().find(|line| line.starts_with(&said));
        let line = line.unwrap_or_else(|| panic!("no word of rank {rank}: {}", done.stderr));
        let cause = ["rank 1 died", "because rank 1"];
        assert!(cause.iter().any(|cause| line.contains(cause)), "{line}");
    }
}

/// Files that are gone with the test.
pub(crate) struct Folder(pub(crate) tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}
