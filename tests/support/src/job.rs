//! Jobs of several processes, with a time limit. After each, the tests check that no process is left.

use std::env;
use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::environment::{self, CASE, DEVICE, NEIGHBOURS, slowness};
use crate::launcher;

/// Much longer than a job takes, even on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// How long a killed process may still exist.
const DYING: Duration = Duration::from_secs(10);

/// The variable by which the processes of a job are found, whichever program started them.
const MARK: &str = "TRANSOM_TEST_MARK";

/// The running test binary, which is also the program of its ranks.
pub fn this_binary() -> PathBuf {
    env::current_exe().expect("the path of this binary")
}

/// A command without input. [`Job::finish`] returns its output.
pub fn quiet(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// This binary with `case`, as the program of a launcher that has its options.
pub fn playing(mut launcher: Command, case: &str) -> Command {
    launcher
        .arg(this_binary())
        .env(CASE, case)
        .env(NEIGHBOURS, environment::neighbours());
    launcher
}

/// A started command. All of its processes can be found.
pub struct Job {
    /// The launcher.
    pub child: Child,
    mark: String,
    begun: Instant,
    is_over: bool,
}

/// The end of a job that left no processes.
pub struct Done {
    /// The launcher's exit status.
    pub status: ExitStatus,
    /// The output of all ranks, if it was captured.
    pub stdout: Vec<u8>,
    /// The error output of all ranks and the launcher, if it was captured.
    pub stderr: String,
}

/// The end of a job that may have been killed.
pub struct Launched {
    /// `None` if it had to be killed, or left processes.
    pub status: Option<ExitStatus>,
    /// The output of the ranks and the launcher.
    pub output: String,
    /// The time from its start to the launcher's end.
    pub took: Duration,
}

/// The launcher's exit status, unless it had to be killed, and how many processes were left.
struct Ended {
    status: Option<ExitStatus>,
    took: Duration,
    left: usize,
}

impl Job {
    /// Starts a command.
    pub fn start(command: &mut Command) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}-{number}", std::process::id());
        let begun = Instant::now();
        let child = command.env(MARK, &mark).spawn();
        Self {
            child: child.unwrap_or_else(|error| panic!("{command:?}: {error}")),
            mark,
            begun,
            is_over: false,
        }
    }

    /// Signals only the launcher.
    pub fn signal(&self, signal: i32) {
        let pid = self.child.id().cast_signed();
        // SAFETY: kill takes two integers; the pid is our unreaped child's.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }

    /// All living processes of the job: launcher, warden, ranks, and their children.
    pub fn processes(&self) -> Vec<u32> {
        let entry = format!("{MARK}={}\0", self.mark);
        let is_marked = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let mut variables = environment.split_inclusive(|&byte| byte == 0);
            variables.any(|variable| variable == entry.as_bytes())
        };
        let pids = fs::read_dir("/proc")
            .expect("/proc")
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(is_marked).collect()
    }

    /// Waits for the launcher and all processes of the job. The caller handles the output.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        // Examples may take longer than cases.
        let ended = self.end_within(2 * LIMIT * slowness());
        assert_eq!(ended.left, 0, "processes were left behind");
        let status = ended.status;
        status.unwrap_or_else(|| panic!("killed at the time limit"))
    }

    /// The same, and collects captured output.
    #[track_caller]
    pub fn finish(mut self) -> Done {
        let [stdout, stderr] = self.streams();
        let status = self.wait();
        Done {
            status,
            stdout: take(stdout),
            stderr: String::from_utf8_lossy(&take(stderr)).into_owned(),
        }
    }

    /// The same for a job that may not end by itself.
    pub fn finish_within(mut self, limit: Duration) -> Launched {
        let streams = self.streams();
        let Ended { status, took, left } = self.end_within(limit * slowness());
        let mut output = streams
            .map(|stream| String::from_utf8_lossy(&take(stream)).into_owned())
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

    /// Threads read the output all the time, so that no process waits for room in a pipe.
    fn streams(&mut self) -> [Option<JoinHandle<Vec<u8>>>; 2] {
        let stdout = self.child.stdout.take().map(collect);
        let stderr = self.child.stderr.take().map(collect);
        [stdout, stderr]
    }

    fn end_within(&mut self, limit: Duration) -> Ended {
        let mut status = None;
        within(limit, || {
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        let took = self.begun.elapsed();
        if status.is_none() {
            self.kill();
            let _ = self.child.wait();
        }
        let left = match within(DYING, || self.processes().is_empty()) {
            true => 0,
            false => self.kill(),
        };
        self.is_over = true;
        Ended { status, took, left }
    }

    fn kill(&self) -> usize {
        let processes = self.processes();
        for &pid in &processes {
            // SAFETY: kill takes two integers; the process has the mark of this job.
            unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
        }
        processes.len()
    }
}

impl Drop for Job {
    /// Kills the processes after a failed test.
    fn drop(&mut self) {
        if !self.is_over {
            self.kill();
            let _ = self.child.wait();
        }
    }
}

impl Done {
    /// Standard output.
    #[track_caller]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("text")
    }

    /// The lines of standard output, sorted, for ranks in any order.
    #[track_caller]
    pub fn sorted(&self) -> Vec<&str> {
        let mut lines: Vec<_> = self.text().lines().collect();
        lines.sort_unstable();
        lines
    }

    /// Fails unless this was the exit code.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        let ended = (self.status.code(), self.status.signal());
        assert_eq!(ended, (Some(code), None), "{}", self.stderr);
        self
    }

    /// Fails unless this is in standard error.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        let said = &self.stderr;
        assert!(said.contains(text), "{text:?} is not in {said:?}");
        self
    }
}

/// Runs a command to its end.
#[track_caller]
pub fn run(command: &mut Command) -> Done {
    Job::start(command).finish()
}

/// How a job of [`play`] has to end.
#[derive(Clone, Copy)]
pub struct Ending {
    /// The launcher's exit code.
    code: i32,
    /// How many ranks fail.
    failures: usize,
}

impl Ending {
    /// All ranks end well.
    pub const WELL: Self = Self {
        code: 0,
        failures: 0,
    };

    /// One rank fails, with this code.
    #[must_use]
    pub fn with_code(code: i32) -> Self {
        Self { code, failures: 1 }
    }

    /// One more rank fails.
    #[must_use]
    pub fn and_one_more(self) -> Self {
        let failures = self.failures + 1;
        Self { failures, ..self }
    }

    /// Whether the launcher says what is expected. What another launcher makes of a rank that fails is its own
    /// business.
    #[must_use]
    pub fn is_told(self) -> bool {
        self.failures == 0 || environment::is_our_launcher()
    }

    /// Fails, with all output, if the job ended otherwise.
    ///
    /// # Errors
    /// What happened instead.
    pub fn check(self, ended: &Launched) -> Result<(), String> {
        let Launched { status, output, .. } = ended;
        // The launcher's code is that of the first rank that fails; it names each that does.
        let failed = output.matches(" (pid ").count();
        let is_expected = failed == self.failures || !environment::is_our_launcher();
        match status {
            Some(status) if status.code() == Some(self.code) && is_expected => Ok(()),
            _ => Err(format!("{status:?} instead of {}:\n{output}", self.code)),
        }
    }
}

/// Ends this process as if it had crashed.
pub fn kill_oneself() -> ! {
    // SAFETY: both calls take integers.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    unreachable!("the signal cannot be caught")
}

/// What happens to the other ranks when one fails.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// The launcher ends them.
    End,
    /// They continue.
    GoOn,
}

/// Runs a job of this binary with `case` over a device. The launcher is the one that the environment names, or this
/// binary.
pub fn play(ranks: u32, device: &str, others: Others, case: &str) -> Launched {
    play_within(LIMIT, ranks, device, others, case)
}

/// The same, with another time limit.
pub fn play_within(
    limit: Duration,
    ranks: u32,
    device: &str,
    others: Others,
    case: &str,
) -> Launched {
    let mut command = playing(launcher_for(ranks, device, others), case);
    command.env("RUST_BACKTRACE", "0");
    // The C library overwrites freed memory, to expose code that still uses it.
    command.env("MALLOC_PERTURB_", "90");
    Job::start(&mut command).finish_within(limit)
}

/// The launcher that the environment names, or ours, for a job on this device. The program is to be added.
pub fn launcher_for(ranks: u32, device: &str, others: Others) -> Command {
    let Some(launcher) = environment::launcher() else {
        let mut command = launcher::command(ranks, &["--device", device]);
        if others == Others::GoOn {
            command.arg("--keep-going");
        }
        return command;
    };
    let mut words = launcher.split_whitespace();
    let program = words.next().unwrap_or_default();
    let mut command = quiet(program);
    command.args(words).args(["-n", &ranks.to_string()]);
    command.env(DEVICE, device);
    if others == Others::GoOn {
        let name = Path::new(program).file_name().unwrap_or_default();
        command.args(match name.to_string_lossy() {
            name if name.starts_with("srun") => Some("--kill-on-bad-exit=0"),
            name if name.starts_with("mpirun") => Some("--enable-recovery"),
            name if name.starts_with("soft-hca") => None,
            _ => Some("-disable-auto-cleanup"),
        });
    }
    command
}

/// Polls until the condition holds or the time is over. Returns whether it held.
fn within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        if condition() {
            return true;
        }
        if begun.elapsed() > limit {
            return false;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Polls until the condition holds, and fails if it never does.
#[track_caller]
pub fn until(what: &str, condition: impl FnMut() -> bool) {
    let limit = LIMIT * slowness();
    assert!(within(limit, condition), "not within {limit:?}: {what}");
}

/// Reads until this many lines have come.
pub fn read_lines(stream: &mut impl Read, count: usize) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    while text.iter().filter(|&&byte| byte == b'\n').count() < count {
        stream.read_exact(&mut byte).expect("another line");
        text.push(byte[0]);
    }
    String::from_utf8(text).expect("text")
}

fn collect(mut stream: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        bytes
    })
}

fn take(stream: Option<JoinHandle<Vec<u8>>>) -> Vec<u8> {
    stream
        .map(|stream| stream.join().expect("a reader"))
        .unwrap_or_default()
}
