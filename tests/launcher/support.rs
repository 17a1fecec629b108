//! Starting the launcher, waiting for it with a deadline, and looking for what it left behind.

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;

/// Far beyond what anything here takes, even on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

const MARK: &str = "TRANSOM_TEST_MARK";

/// Makes a trial of each function, under its name.
macro_rules! trials {
    ($module:literal: $($test:ident),* $(,)?) => {
        vec![$($crate::support::trial(concat!($module, "::", stringify!($test)), $test)),*]
    };
}
pub(crate) use trials;

pub(crate) fn trial(name: &str, test: fn()) -> Trial {
    Trial::test(name, move || {
        test();
        Ok(())
    })
}

/// `transom run` with these arguments, all pipes captured.
pub(crate) fn transom_run(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
    command
        .arg("run")
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// `transom run -n N` of a shell script.
pub(crate) fn script(ranks: u32, options: &[&str], script: &str) -> Command {
    let ranks = ranks.to_string();
    transom_run(&[&["-n", &ranks], options, &["sh", "-c", script]].concat())
}

/// `transom run -n N` of this binary in one of its roles as a rank.
pub(crate) fn role(ranks: u32, options: &[&str], role: &str) -> Command {
    let ranks = ranks.to_string();
    let this = std::env::current_exe().unwrap();
    let mut command = transom_run(&[&["-n", &ranks], options].concat());
    command.arg(this).env(crate::rank::ROLE, role);
    command
}

/// A started command whose processes, all of them, can be found.
pub(crate) struct Job {
    pub(crate) child: Child,
    mark: String,
}

pub(crate) struct Done {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Job {
    pub(crate) fn start(command: &mut Command) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}-{number}", std::process::id());
        let child = command.env(MARK, &mark).spawn().unwrap();
        Self { child, mark }
    }

    pub(crate) fn signal(&self, signal: i32) {
        let pid = self.child.id().cast_signed();
        // SAFETY: kill takes two integers; the pid is our unreaped child's.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }

    /// All living processes of the job: launcher, warden, ranks, and their children.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let entry = format!("{MARK}={}\0", self.mark);
        let has_mark = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .windows(entry.len())
                .any(|window| window == entry.as_bytes())
        };
        let pids = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(has_mark).collect()
    }

    /// Waits for the launcher, and checks that nothing of the job is left.
    pub(crate) fn finish(mut self) -> Done {
        let stdout = self.child.stdout.take().map(collect);
        let stderr = self.child.stderr.take().map(collect);
        let status = self.wait();
        let take = |output: Option<thread::JoinHandle<Vec<u8>>>| {
            output
                .map(|thread| thread.join().unwrap())
                .unwrap_or_default()
        };
        Done {
            status,
            stdout: take(stdout),
            stderr: String::from_utf8_lossy(&take(stderr)).into_owned(),
        }
    }

    /// Waits for the launcher alone, whose output the caller takes care of.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        until("the launcher ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        // What was killed may take a moment to be gone.
        until("no process is left", || self.processes().is_empty());
        status.unwrap()
    }
}

impl Drop for Job {
    /// After a failed test.
    fn drop(&mut self) {
        for pid in self.processes() {
            // SAFETY: kill takes two integers; the process bears the mark of this job.
            unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
        }
        let _ = self.child.wait();
    }
}

impl Done {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    /// The lines of standard output, sorted, for ranks in any order.
    pub(crate) fn sorted(&self) -> Vec<&str> {
        let mut lines: Vec<_> = self.text().lines().collect();
        lines.sort_unstable();
        lines
    }

    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        let signal = self.status.signal();
        assert_eq!(
            (self.status.code(), signal),
            (Some(code), None),
            "{}",
            self.stderr
        );
        self
    }

    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(
            self.stderr.contains(text),
            "{:?} is not in {:?}",
            text,
            self.stderr
        );
        self
    }
}

/// Runs a command to its end.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Done {
    Job::start(command).finish()
}

/// Polls until the condition holds, and fails if it never does.
#[track_caller]
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Reads until this many lines have come.
pub(crate) fn read_lines(stream: &mut impl Read, count: usize) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    while text.iter().filter(|&&byte| byte == b'\n').count() < count {
        stream.read_exact(&mut byte).unwrap();
        text.push(byte[0]);
    }
    String::from_utf8(text).unwrap()
}

fn collect(mut stream: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    })
}
