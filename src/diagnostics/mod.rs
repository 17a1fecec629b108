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

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) use call::{InCall, Waiting};
pub(crate) use counters::{Counters, TracedEpoch};
use rdma_sys_shim::Assist;
use settings::Settings;
pub use statistics::{Accesses, OperationKind, Statistics, TargetKind, Waits};
pub use traffic::{Sent, Traffic, count_traffic, traffic};
pub(crate) use traffic::{counts_traffic, note_flag, note_message};

/// The environment variable that says what is logged.
const VARIABLE: &str = "TRANSOM_LOG";

/// Of the job that this process is in.
static RANK: AtomicU32 = AtomicU32::new(NO_RANK);
const NO_RANK: u32 = u32::MAX;
/// Whether windows count that do not say so themselves.
static COUNTS_ALL: AtomicBool = AtomicBool::new(false);
static REPORTS: AtomicBool = AtomicBool::new(false);
/// Whether anybody wants to know of waits.
static COUNTS_WAITS: AtomicBool = AtomicBool::new(false);
/// After how many milliseconds a wait is warned of; 0: never.
static WAIT_WARNING: AtomicU64 = AtomicU64::new(10_000);
/// What is wrong with the environment, until a rank knows whether it is to say so.
static COMPLAINT: Mutex<Option<String>> = Mutex::new(None);

/// A process is about to become a rank: has it log, if the environment says so.
pub(crate) fn prepare() {
    if let Some(complaint) = install(None) {
        *locked(&COMPLAINT) = Some(complaint);
    }
}

/// Has this process log to standard error; see [`log_to_stderr`](crate::lower::log_to_stderr).
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

/// This process is a rank now, and `speaks` for those of its host. `job` says what no other job is called, if that
/// is needed.
pub(crate) fn joined(rank: u32, speaks: bool, job: u64) {
    RANK.store(rank, Ordering::Relaxed);
    let settings = Settings::read(|name| std::env::var_os(name));
    let complaint = locked(&COMPLAINT).take();
    // All ranks would say the same.
    if rank == 0 {
        let complaints = complaint.iter().chain(&settings.complaints);
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
                // The ranks of a host have most such errors in common.
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

/// This rank is about to leave its job.
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

/// It has left.
pub(crate) fn left() {
    trace::end();
}

/// After how long a wait is warned of, if at all.
pub(crate) fn warns_of_waits_after() -> Option<Duration> {
    let after = WAIT_WARNING.load(Ordering::Relaxed);
    (after > 0).then(|| Duration::from_millis(after))
}

/// Whether windows are to count.
pub(crate) fn counts_all() -> bool {
    COUNTS_ALL.load(Ordering::Relaxed)
}

/// The call that this thread is in while the guard lives, where something is to be seen of calls that
/// belong to no window.
pub(crate) fn in_call(name: &'static str) -> Option<InCall> {
    counts_waits().then(|| InCall::enter(name, None, None, true))
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

/// One line on standard error.
fn say(line: &str) {
    transom_launch::say(&format_args!("transom: {line}"));
}

/// Standard error has no buffer: what is written in one piece stays together.
fn write_at_once(text: &str) {
    // Where it is gone, nobody reads it.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Locks it, also if another thread has panicked meanwhile.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
