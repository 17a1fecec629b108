//! Starting a job of this binary, with a time limit, and looking for what it left behind. The
//! launcher is `transom run`, unless the environment names another.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub(crate) use crate::environment::slowness;

/// The variable that makes a rank of this binary, and names its case.
pub(crate) const CASE: &str = "TRANSOM_CONFORMANCE_CASE";
const MARK: &str = "TRANSOM_CONFORMANCE_MARK";
/// Names another launcher, with its options, such as `mpiexec.hydra -hosts n0,n1`: ranks may then
/// run on several hosts.
const LAUNCHER: &str = "TRANSOM_TEST_LAUNCHER";

/// Far beyond what any case takes, even on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// What becomes of the other ranks when one fails.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    /// The launcher ends them.
    End,
    /// They run on.
    GoOn,
}

/// Whether all ranks run on this host, started by `transom run`.
pub(crate) fn is_our_launcher() -> bool {
    std::env::var_os(LAUNCHER).is_none()
}

fn command(ranks: u32, device: &str, others: Others) -> Command {
    let ranks = ranks.to_string();
    let mut command;
    match std::env::var(LAUNCHER) {
        Err(_) => {
            command = Command::new(env!("CARGO_BIN_EXE_transom"));
            command.args(["run", "-n", &ranks, "--device", device]);
            if others == Others::GoOn {
                command.arg("--keep-going");
            }
        }
        Ok(launcher) => {
            let mut words = launcher.split_whitespace();
            let program = words
                .next()
                .unwrap_or_else(|| panic!("{LAUNCHER} is empty"));
            command = Command::new(program);
            command
                .args(words)
                .args(["-n", &ranks])
                .env("TRANSOM_DEVICE", device);
            if others == Others::GoOn {
                let name = Path::new(program).file_name().unwrap_or_default();
                command.arg(match name.to_string_lossy().starts_with("srun") {
                    true => "--kill-on-bad-exit=0",
                    false => "-disable-auto-cleanup",
                });
            }
        }
    }
    command
}

pub(crate) struct Launched {
    /// `None`: it had to be killed.
    pub(crate) status: Option<ExitStatus>,
    /// What the ranks and the launcher wrote.
    pub(crate) output: String,
    pub(crate) took: Duration,
}

/// Runs a case in a job to its end, which leaves no process behind.
pub(crate) fn job(ranks: u32, device: &str, others: Others, case: &str) -> Launched {
    job_within(LIMIT, ranks, device, others, case)
}

/// The same, with another time limit.
pub(crate) fn job_within(
    limit: Duration,
    ranks: u32,
    device: &str,
    others: Others,
    case: &str,
) -> Launched {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mark = format!("{}-{number}", std::process::id());
    let begun = Instant::now();
    let mut child = command(ranks, device, others)
        .arg(std::env::current_exe().expect("this binary"))
        .env(CASE, case)
        .env(MARK, &mark)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the launcher starts");
    let streams = [
        collect(child.stdout.take().expect("piped")),
        collect(child.stderr.take().expect("piped")),
    ];
    let status = wait(&mut child, begun + limit * slowness());
    let took = begun.elapsed();
    if status.is_none() {
        kill(&mark);
        let _ = child.wait();
    }
    // What was killed may take a moment to be gone.
    let deadline = Instant::now() + Duration::from_secs(5);
    while !processes(&mark).is_empty() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(5));
    }
    let left = kill(&mark);
    let mut output: String = streams
        .map(|stream| String::from_utf8_lossy(&stream.join().expect("reader")).into_owned())
        .concat();
    if left > 0 {
        output += &format!("{left} processes were left behind\n");
    }
    Launched {
        status: status.filter(|_| left == 0),
        output,
        took,
    }
}

fn wait(child: &mut Child, deadline: Instant) -> Option<ExitStatus> {
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().expect("a child") {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(2));
    }
    None
}

/// All living processes of a job.
fn processes(mark: &str) -> Vec<i32> {
    let entry = format!("{MARK}={mark}\0");
    let marked = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .windows(entry.len())
            .any(|window| window == entry.as_bytes())
    };
    fs::read_dir("/proc")
        .expect("proc")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(marked)
        .collect()
}

fn kill(mark: &str) -> usize {
    let found = processes(mark);
    for &pid in &found {
        // SAFETY: kill takes two integers; the process bears the mark of this job.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
    found.len()
}

fn collect(mut stream: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        bytes
    })
}
