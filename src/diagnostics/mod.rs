//! Diagnostics for users: the log on standard error, the counts of windows, a table of them at the end of the
//! job, and a trace. All are off by default. Then they cost nothing on fast paths, because counting is reached
//! only from slow paths (see `Window::counters`).

mod call;
mod counters;
#[cfg(feature = "log")]
mod log;
mod report;
mod settings;
mod sink;
mod statistics;
mod trace;
mod traffic;
mod variables;

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) use call::{InCall, Waiting};
pub(crate) use counters::{Counters, TracedEpoch};
use rdma_sys_shim::Assist;
use settings::Settings;
pub(crate) use settings::switch;
pub use statistics::{Accesses, OperationKind, Statistics, TargetKind, Waits};
pub use traffic::{Sent, Traffic, count_traffic, traffic};
pub(crate) use traffic::{counts_traffic, note_flag, note_message};

/// The environment variable with the levels of the log.
const VARIABLE: &str = "TRANSOM_LOG";

/// The rank of this process in its job.
static RANK: AtomicU32 = AtomicU32::new(NO_RANK);
const NO_RANK: u32 = u32::MAX;
/// Whether windows count that do not decide this by a hint.
static COUNTS_ALL: AtomicBool = AtomicBool::new(false);
static REPORTS: AtomicBool = AtomicBool::new(false);
/// Whether waits are counted.
static COUNTS_WAITS: AtomicBool = AtomicBool::new(false);
/// The number of milliseconds after which a wait causes a warning; 0: never.
static WAIT_WARNING: AtomicU64 = AtomicU64::new(10_000);
/// The problem with the environment, until it is known which rank reports it.
static COMPLAINT: Mutex<Option<String>> = Mutex::new(None);

/// Called before a process becomes a rank: starts the log, if the environment says so.
pub(crate) fn prepare() {
    if let Some(complaint) = install(None) {
        *locked(&COMPLAINT) = Some(complaint);
    }
}

/// Makes this process log to standard error; see [`log_to_stderr`](crate::lower::log_to_stderr).
pub(crate) fn install(default: Option<&str>) -> Option<String> {
    #[cfg(feature = "log")]
    return log::install(default);
    #[cfg(not(feature = "log"))]
    {
        let _ = default;
        let said = std::env::var_os(VARIABLE).filter(|said| !said.is_empty());
        said.map(|_| format!("{VARIABLE}: the library was built without the feature `log`"))
    }
}

/// After how long a wait the environment asks for a warning; `None`: never.
pub(crate) fn wait_warning() -> Option<Duration> {
    let said = Settings::read(|name| std::env::var_os(name)).wait_warning;
    let after = said.unwrap_or(Duration::from_millis(WAIT_WARNING.load(Ordering::Relaxed)));
    (!after.is_zero()).then_some(after)
}

/// Called when this process has become a rank; it `speaks` for the ranks of its host. `job` is a number that no other
/// job has, if one is needed.
pub(crate) fn joined(rank: u32, speaks: bool, job: u64) {
    RANK.store(rank, Ordering::Relaxed);
    let settings = Settings::read(|name| std::env::var_os(name));
    let complaint = locked(&COMPLAINT).take();
    // All ranks would log the same.
    if rank == 0 {
        let misspelt = variables::misspelt(std::env::vars_os().map(|(name, _)| name));
        let complaints = complaint
            .iter()
            .chain(&settings.complaints)
            .chain(&misspelt);
        complaints.for_each(|complaint| say(complaint));
    }
    if let Some(after) = settings.wait_warning {
        WAIT_WARNING.store(after.as_millis() as u64, Ordering::Relaxed);
    }
    if settings.report {
        REPORTS.store(true, Ordering::Relaxed);
        count_waits();
        count_traffic();
    }
    let mut traced = false;
    if let Some(path) = &settings.trace {
        match trace::begin(path, job, rank) {
            Ok(()) => traced = true,
            Err(error) => {
                let what = format!(
                    "TRANSOM_TRACE: {}: {error}; this rank is not in the trace",
                    path.display()
                );
                // The ranks of a host usually have the same errors.
                match speaks {
                    true => say(&format!(
                        "rank {rank}: {what}, nor are others of its host that find the same"
                    )),
                    false => tracing::warn!("{what}"),
                }
            }
        }
    }
    COUNTS_ALL.store(settings.report || traced, Ordering::Relaxed);
}

/// Called before this rank leaves its job.
pub(crate) fn leaving() {
    if REPORTS.swap(false, Ordering::Relaxed) {
        let rank = RANK.load(Ordering::Relaxed);
        let served = Assist::served_by_process();
        write_at_once(&report::table(
            rank,
            &counters::all(),
            call::ELSEWHERE.waits(),
            served,
            &traffic(),
        ));
    }
}

/// Called after it has left.
pub(crate) fn left() {
    trace::end();
}

/// Warns of a long wait. If the program has no subscriber, the warning goes to standard error, once a minute at most, and
/// only where `speaks`: so many ranks that wait for each other do not all say it.
pub(crate) fn warn_of_wait(text: &str, speaks: bool) {
    const SELDOM: Duration = Duration::from_secs(60);
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    if tracing::dispatcher::has_been_set() {
        tracing::warn!(target: "transom::wait", "{text}");
        return;
    }
    let mut last = locked(&LAST);
    if speaks && last.is_none_or(|last| last.elapsed() >= SELDOM) {
        *last = Some(Instant::now());
        drop(last);
        transom_launch::say(&format_args!("transom: {text}"));
    }
}

/// The time after which a wait causes a warning, if any.
pub(crate) fn warns_of_waits_after() -> Option<Duration> {
    let after = WAIT_WARNING.load(Ordering::Relaxed);
    (after > 0).then(|| Duration::from_millis(after))
}

/// Whether windows should count.
pub(crate) fn counts_all() -> bool {
    COUNTS_ALL.load(Ordering::Relaxed)
}

/// Marks the call of this thread while the guard lives, if calls outside of windows are to be shown.
pub(crate) fn in_call(name: &'static str) -> Option<InCall> {
    counts_waits().then(|| InCall::enter(name, None, None, true))
}

/// The same, unless the thread is in a call already, which then makes this one.
pub(crate) fn in_call_of_its_own(name: &'static str) -> Option<InCall> {
    (counts_waits() && !call::is_in_call()).then(|| InCall::enter(name, None, None, true))
}

#[cfg(feature = "log")]
fn rank() -> Option<u32> {
    Some(RANK.load(Ordering::Relaxed)).filter(|&rank| rank != NO_RANK)
}

fn reports() -> bool {
    REPORTS.load(Ordering::Relaxed)
}

#[inline]
fn counts_waits() -> bool {
    COUNTS_WAITS.load(Ordering::Relaxed)
}

fn count_waits() {
    COUNTS_WAITS.store(true, Ordering::Relaxed);
}

/// Writes one line to standard error.
fn say(line: &str) {
    transom_launch::say(&format_args!("transom: {line}"));
}

/// Standard error has no buffer, so one write stays in one piece.
fn write_at_once(text: &str) {
    // If standard error is closed, nobody reads it.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Locks it, even if another thread has panicked with the lock held.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
