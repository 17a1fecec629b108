//! `transom mpi` as a user meets it where it refuses: no MPI is needed for that. `ci/mpi` runs programs.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

const TRANSOM: &str = env!("CARGO_BIN_EXE_transom");

/// A user without rights.
const NOBODY: u32 = 65534;

/// The exit code, and the one line.
#[track_caller]
fn refused(args: &[&str]) -> (i32, String) {
    let output = Command::new(TRANSOM)
        .arg("mpi")
        .args(args)
        .env_remove("LD_PRELOAD")
        .output()
        .unwrap();
    assert!(output.stdout.is_empty(), "{output:?}");
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.starts_with("transom: "), "{line}");
    (output.status.code().unwrap(), line)
}

/// A program in a file of its own, which goes with this.
struct Made(PathBuf);

impl Made {
    fn new(name: &str, bytes: &[u8], mode: u32) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        Self(path)
    }

    #[track_caller]
    fn refused(&self, before: &[&str]) -> String {
        let path = self.0.to_str().unwrap();
        let (code, line) = refused(&[before, &[path]].concat());
        assert_eq!(code, 1, "{line}");
        assert!(line.contains(path) || !before.is_empty(), "{line}");
        line
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// This command, which runs on this machine, changed.
fn changed(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = fs::read(TRANSOM).unwrap();
    change(&mut bytes);
    bytes
}

#[test]
fn without_a_program() {
    let (code, line) = refused(&[]);
    assert_eq!(code, 2);
    assert!(line.contains("PROG"), "{line}");
}

#[test]
fn a_program_that_is_not_there() {
    for name in [
        "no-such-program",
        "./no-such-program",
        env!("CARGO_MANIFEST_DIR"),
    ] {
        let (code, line) = refused(&[name]);
        // As under a shell, and by `transom run`.
        assert_eq!(code, 127);
        assert!(line.contains(name), "{line}");
    }
}

#[test]
fn a_program_without_an_mpi_names_the_option() {
    let (code, line) = refused(&["ls"]);
    assert_eq!(code, 1);
    assert!(
        line.contains("not linked against an MPI") && line.contains("--host"),
        "{line}"
    );
    let script = Made::new("script", b"#!/bin/sh\nexit 0\n", 0o755);
    assert!(script.refused(&[]).contains("--host"));
}

#[test]
fn a_library_that_is_not_installed_is_named_with_the_places() {
    for (host, name) in [
        ("mpich", "libtransom_mpi_mpich.so"),
        ("openmpi", "libtransom_mpi_openmpi.so"),
        ("abi", "libtransom_mpi_abi.so"),
    ] {
        let (code, line) = refused(&["--host", host, "ls"]);
        assert_eq!(code, 1);
        assert!(line.contains(name) && line.contains("/lib"), "{line}");
    }
    let (code, line) = refused(&["--host", "lam", "ls"]);
    assert_eq!(code, 2);
    assert!(line.contains("mpich, openmpi, abi"), "{line}");
}

/// A folder where the command can have a second name.
fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// `transom mpi ls` of a command in this folder, beside what it takes for its library for Open MPI.
fn beside(folder: &Path, library: &[u8]) -> Command {
    let path = folder.join("transom");
    // No copy: children of other tests may hold one open for writing, so that it would not run.
    fs::hard_link(TRANSOM, &path).unwrap();
    fs::write(folder.join("libtransom_mpi_openmpi.so"), library).unwrap();
    let mut command = Command::new(path);
    command.args(["mpi", "--host", "openmpi"]);
    command.args(["--host-library", "/dev/null", "ls"]);
    command
}

#[test]
fn a_library_that_no_list_can_name() {
    let folder = folder();
    let folder = folder.path().join("with space");
    fs::create_dir(&folder).unwrap();
    let output = beside(&folder, b"").output().unwrap();
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert!(
        line.contains("with space") && line.contains("a space or a colon"),
        "{line}"
    );
}

#[test]
fn what_the_loader_does_not_take_is_not_run_without() {
    let folder = folder();
    let output = beside(folder.path(), b"no library")
        // What the user preloads is the user's.
        .env("LD_PRELOAD", "/no/such/library.so")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(output.stdout.is_empty());
    let line = text
        .lines()
        .find(|line| line.starts_with("transom: "))
        .unwrap();
    assert!(
        line.contains("libtransom_mpi_openmpi.so") && !line.contains("/no/such"),
        "{line}"
    );
    assert!(!line.contains("ignored"), "{line}");
}

#[test]
fn a_launcher_comes_before_the_command() {
    let folder = folder();
    let path = folder.path().join("mpiexec");
    fs::hard_link(TRANSOM, &path).unwrap();
    let path = path.to_str().unwrap();
    let (code, line) = refused(&[path, "-n", "2", "./prog"]);
    assert_eq!(code, 1, "{line}");
    let order = format!("{path} OPTIONS transom mpi PROG ARGS");
    assert!(line.contains(&order), "{line}");
}

#[test]
fn a_static_program() {
    // A loader is named by a program header of type 3.
    let bytes = changed(|bytes| {
        let at = u64::from_le_bytes(bytes[32..40].try_into().unwrap()) as usize;
        let count = u16::from_le_bytes(bytes[56..58].try_into().unwrap()) as usize;
        for header in bytes[at..at + 56 * count].chunks_mut(56) {
            if header[..4] == 3_u32.to_le_bytes() {
                header[..4].fill(0);
            }
        }
    });
    let line = Made::new("static", &bytes, 0o755).refused(&[]);
    for part in [
        "statically linked",
        "link it dynamically",
        "-ltransom_mpi_mpich,",
        "-ltransom_mpi_openmpi",
        "-ltransom_mpi_abi",
    ] {
        assert!(line.contains(part), "{line}");
    }
}

#[test]
fn programs_that_are_none() {
    for (name, bytes) in [
        ("empty", Vec::new()),
        ("text", b"a letter".to_vec()),
        ("short", fs::read(TRANSOM).unwrap()[..40].to_vec()),
        (
            "foreign",
            changed(|bytes| bytes[18..20].copy_from_slice(&[0x2a, 0])),
        ),
        ("wild", changed(|bytes| bytes[32..40].fill(0xff))),
    ] {
        let line = Made::new(name, &bytes, 0o755).refused(&[]);
        assert!(
            line.contains("no program of this machine"),
            "{name}: {line}"
        );
    }
}

#[test]
fn a_program_with_the_rights_of_another() {
    let bytes = fs::read(TRANSOM).unwrap();
    for (name, mode) in [("setuid", 0o4755), ("setgid", 0o2755)] {
        let line = Made::new(name, &bytes, mode).refused(&[]);
        assert!(line.contains("rights"), "{line}");
    }
}

#[test]
fn a_program_with_capabilities() {
    // Version 2, in effect, CAP_NET_RAW; for nothing else than to be there.
    let value = [0x0200_0001_u32, 1 << 13, 0, 0, 0].map(u32::to_le_bytes);
    let made = Made::new("capabilities", &fs::read(TRANSOM).unwrap(), 0o755);
    let path = CString::new(made.0.to_str().unwrap()).unwrap();
    // SAFETY: two strings of C, and as many bytes as is said.
    let code = unsafe {
        libc::setxattr(
            path.as_ptr(),
            c"security.capability".as_ptr(),
            value.as_ptr().cast(),
            size_of_val(&value),
            0,
        )
    };
    if code != 0 {
        eprintln!("left out: {}", io::Error::last_os_error());
        return;
    }
    // It is root that may set them, and for root they change nothing.
    let line = made.refused(&[]);
    assert!(line.contains("not linked against an MPI"), "{line}");
    let mut command = Command::new(TRANSOM);
    command.arg("mpi").arg(&made.0).uid(NOBODY);
    let output = match command.output() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            eprintln!("left out: other users may not run {TRANSOM}");
            return;
        }
        output => output.unwrap(),
    };
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert!(line.contains("file capabilities"), "{line}");
}
