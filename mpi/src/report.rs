//! Whether the program's windows were ours or the host's: reported at the end, if the user asked for it.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use transom::lower::switch;

use crate::windows::lock;
use crate::{host_progress, world};

static OURS: AtomicU64 = AtomicU64::new(0);
static HOSTS: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());
static NO_JOB: Mutex<Option<String>> = Mutex::new(None);

/// Sessions have no world from which to make a job.
pub(crate) const ONLY_SESSIONS: &str = "the program began by MPI_Session_init";

const MPI: &str = "TRANSOM_MPI";
const STRICT: &str = "TRANSOM_MPI_STRICT";
const REPORT: &str = "TRANSOM_MPI_REPORT";

/// Call it before the host begins: a value that is not known ends the process.
pub(crate) fn check_variables() {
    for name in [MPI, STRICT, REPORT] {
        if let Err(complaint) = switch(name) {
            trouble(&complaint);
            std::process::exit(1);
        }
    }
}

fn is_set(name: &str) -> bool {
    switch(name) == Ok(Some(true))
}

/// Whether this rank takes part in a job.
pub(crate) fn takes_part() -> bool {
    switch(MPI) != Ok(Some(false))
}

/// Whether a window that cannot be ours is an error.
pub(crate) fn strict() -> bool {
    is_set(STRICT)
}

pub(crate) fn window_is_ours() {
    OURS.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn window_is_the_hosts(why: &str) {
    *lock(&HOSTS).entry(why.to_owned()).or_default() += 1;
}

/// Whether the user wants to read which windows were ours.
pub(crate) fn is_asked_for() -> bool {
    is_set(REPORT)
}

/// Whether this library was asked for a window.
pub(crate) fn has_windows() -> bool {
    OURS.load(Ordering::Relaxed) > 0 || !lock(&HOSTS).is_empty()
}

/// For a reason that may differ between ranks.
pub(crate) fn failed(why: &str) {
    if strict() || is_asked_for() {
        trouble(&format!("all windows stay the host's: {why}"));
    }
}

/// Call it if there is no job, and there will be none.
pub(crate) fn no_job(why: String) {
    *lock(&NO_JOB) = Some(why);
}

/// Why there is no job.
pub(crate) fn why_no_job() -> String {
    let why = lock(&NO_JOB).clone();
    why.unwrap_or_else(|| match world::has_begun() {
        true => "MPI_Init was not called through this library".to_owned(),
        false => ONLY_SESSIONS.to_owned(),
    })
}

/// Prints a line that no error handler can report, or a line of a report.
pub(crate) fn trouble(text: &str) {
    // In one write, so that lines of several ranks do not mix.
    let line = format!("transom mpi: {text}\n");
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Reports on rank 0 which of its windows were ours, and the device, if there was a job.
pub(crate) fn print(rank: u32, device: Option<&str>) {
    if rank != 0 || !is_asked_for() {
        return;
    }
    let of = match device {
        Some(device) => format!("device {device}"),
        None => format!("no job: {}", why_no_job()),
    };
    let hosts = lock(&HOSTS);
    let count: u64 = hosts.values().sum();
    let ours = OURS.load(Ordering::Relaxed);
    trouble(&format!(
        "windows of rank 0: {ours} of Transom, {count} of the host's; {of}"
    ));
    for (why, count) in &*hosts {
        trouble(&format!("  {count} of the host's: {why}"));
    }
    if device.is_some() {
        let served = host_progress::in_words();
        trouble(&format!(
            "served for other ranks by rank 0 in the host's waits: {served}"
        ));
    }
}
