//! Starting a job of this binary with `transom run`, with a time limit, and looking for what it
//! left behind.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The variable that makes a rank of this binary, and names its case.
pub(crate) const CASE: &str = "TRANSOM_CONFORMANCE_CASE";
const MARK: &str = "TRANSOM_CONFORMANCE_MARK";

/// Far beyond what any case takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Launched {
    /// `None`: it had to be killed.
    pub(crate) status: Option<ExitStatus>,
    /// What the ranks and the launcher wrote.
    pub(crate) output: String,
    pub(crate) took: Duration,
}

/// Runs a case in a job to its end, which leaves no process behind.
pub(crate) fn job(ranks: u32, device: &str, options: &[&str], case: &str) -> Launched {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mark = format!("{}-{number}", std::process::id());
    let begun = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_transom"))
        .args(["run", "-n", &ranks.to_string(), "--device", device])
        .args(options)
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
    let status = wait(&mut child, begun + LIMIT);
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
