//! What this rank does, as events of a trace: Chrome's format, which Perfetto opens. Ranks are its processes.
//! Calls and waits are on the track of their thread. Epochs have separate tracks, since epochs of several
//! targets overlap.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::sink::Sink;
use super::{locked, say};

/// Whether there is a trace; a fast check for events without one.
static ON: AtomicBool = AtomicBool::new(false);
static TRACE: Mutex<Option<Trace>> = Mutex::new(None);

struct Trace {
    sink: Sink,
    rank: u32,
    process: u32,
    /// The start of the job's trace in nanoseconds since 1970.
    origin: u64,
}

#[inline]
pub(super) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// The time on a clock that the ranks of several hosts share, and that never goes back, in nanoseconds since 1970.
fn clock(at: Instant) -> u64 {
    static START: OnceLock<(Instant, u64)> = OnceLock::new();
    let &(start, then) = START.get_or_init(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        (
            Instant::now(),
            since.map_or(0, |since| since.as_nanos() as u64),
        )
    });
    match at.checked_duration_since(start) {
        Some(later) => then + later.as_nanos() as u64,
        None => then.saturating_sub((start - at).as_nanos() as u64),
    }
}

/// `job`: the same number for all its ranks; no other job has it.
pub(super) fn begin(path: &Path, job: u64, rank: u32) -> std::io::Result<()> {
    let now = clock(Instant::now());
    let (sink, origin) = Sink::open(path, job, now)?;
    let process = std::process::id();
    let mut trace = Trace {
        sink,
        rank,
        process,
        origin,
    };
    for (name, key, value) in [
        (
            "process_name",
            "name",
            format!("\"rank {rank} (process {process})\""),
        ),
        ("process_sort_index", "sort_index", rank.to_string()),
    ] {
        let event = format!(
            "{{\"name\":\"{name}\",\"ph\":\"M\",\"pid\":{rank},\"args\":{{\"{key}\":{value}}}}}"
        );
        trace.sink.push(&event);
    }
    trace.sink.write_out()?;
    *locked(&TRACE) = Some(trace);
    ON.store(true, Ordering::Relaxed);
    super::count_waits();
    Ok(())
}

/// Writes the remaining events, and none after that.
pub(super) fn end() {
    ON.store(false, Ordering::Relaxed);
    let Some(mut trace) = locked(&TRACE).take() else {
        return;
    };
    if trace.process == std::process::id()
        && let Err(error) = trace.sink.close()
    {
        complain(&trace, &error);
    }
}

/// Writes the events so far.
pub(super) fn flush() {
    with(|trace| trace.sink.write_out());
}

fn complain(trace: &Trace, error: &std::io::Error) {
    say(&format!(
        "rank {}: TRANSOM_TRACE: {}: {error}; the rest of this rank's trace is missing",
        trace.rank,
        trace.sink.path().display()
    ));
}

fn with(act: impl FnOnce(&mut Trace) -> std::io::Result<()>) {
    if !is_on() {
        return;
    }
    let mut current = locked(&TRACE);
    // A forked child has a copy; the trace belongs to its parent.
    let Some(trace) = current
        .as_mut()
        .filter(|trace| trace.process == std::process::id())
    else {
        return;
    };
    if let Err(error) = act(trace) {
        complain(trace, &error);
        ON.store(false, Ordering::Relaxed);
        *current = None;
    }
}

/// The details of an event besides its name and time.
struct Event<'a> {
    /// The letter of the Chrome trace format.
    phase: char,
    name: &'a str,
    category: &'a str,
    at: Instant,
    /// For slices that are written at their end.
    lasts: Option<u64>,
    /// For events with a track of their own.
    id: Option<u64>,
    window: Option<String>,
    target: Option<u32>,
}

impl<'a> Event<'a> {
    fn new(
        phase: char,
        name: &'a str,
        category: &'a str,
        at: Instant,
        window: Option<String>,
        target: Option<u32>,
    ) -> Self {
        Self {
            phase,
            name,
            category,
            at,
            lasts: None,
            id: None,
            window,
            target,
        }
    }

    /// As JSON. `origin` is the start of the trace's time.
    fn json(&self, rank: u32, thread: i32, origin: u64) -> String {
        let mut text = String::with_capacity(160);
        text.push_str("{\"name\":");
        push_string(&mut text, self.name);
        let (category, phase) = (self.category, self.phase);
        // Writing to a string does not fail.
        let _ = write!(text, ",\"cat\":\"{category}\",\"ph\":\"{phase}\",\"ts\":");
        push_microseconds(&mut text, clock(self.at).saturating_sub(origin));
        if let Some(lasts) = self.lasts {
            text.push_str(",\"dur\":");
            push_microseconds(&mut text, lasts);
        }
        let _ = write!(text, ",\"pid\":{rank},\"tid\":{thread}");
        if let Some(id) = self.id {
            let _ = write!(text, ",\"id2\":{{\"local\":\"{id:#x}\"}}");
        }
        if phase == 'i' {
            text.push_str(",\"s\":\"t\"");
        }
        text.push_str(",\"args\":{");
        if let Some(window) = &self.window {
            text.push_str("\"window\":");
            push_string(&mut text, window);
        }
        if let Some(target) = self.target {
            let comma = if self.window.is_some() { "," } else { "" };
            let _ = write!(text, "{comma}\"target\":{target}");
        }
        text.push_str("}}");
        text
    }

    fn tell(self) {
        with(|trace| {
            // SAFETY: without arguments, and without effects.
            let thread = unsafe { libc::gettid() };
            trace
                .sink
                .push(&self.json(trace.rank, thread, trace.origin));
            trace.sink.write_out_if_due()
        });
    }
}

fn push_microseconds(text: &mut String, nanoseconds: u64) {
    let (whole, rest) = (nanoseconds / 1000, nanoseconds % 1000);
    let _ = write!(text, "{whole}.{rest:03}");
}

/// The program chooses the names of windows.
fn push_string(text: &mut String, value: &str) {
    text.push('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => {
                text.push('\\');
                text.push(c);
            }
            c if c.is_control() => {
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('"');
}

/// An event that lasted from `begun` until now.
pub(super) fn slice(
    name: &str,
    category: &str,
    begun: Instant,
    window: Option<String>,
    target: Option<u32>,
) {
    let lasts = Some(begun.elapsed().as_nanos() as u64);
    let event = Event::new('X', name, category, begun, window, target);
    Event { lasts, ..event }.tell();
}

/// The beginning of a wait that continues.
pub(super) fn begin_wait(name: &str, begun: Instant, window: Option<String>, target: Option<u32>) {
    Event::new('B', name, "wait", begun, window, target).tell();
}

/// The end of the wait of [`begin_wait`].
pub(super) fn end_wait(name: &str) {
    Event::new('E', name, "wait", Instant::now(), None, None).tell();
}

/// An event without a duration.
pub(super) fn mark(name: &str, window: String, target: Option<u32>) {
    Event::new('i', name, "call", Instant::now(), Some(window), target).tell();
}

/// The beginning or end of an epoch; `id` differs between epochs that can be open at the same time.
pub(super) fn epoch(begins: bool, name: &str, id: u64, window: String, target: Option<u32>) {
    let phase = if begins { 'b' } else { 'e' };
    let event = Event::new(phase, name, "epoch", Instant::now(), Some(window), target);
    Event {
        id: Some(id),
        ..event
    }
    .tell();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_json_whatever_its_window_is_called() {
        let at = Instant::now();
        let event = Event {
            phase: 'X',
            name: "wait in fence",
            category: "wait",
            at,
            lasts: Some(1_234_567),
            id: Some(0x1_0000_0002),
            window: Some("1 allocate \"a\\\n\u{1}é\"".to_owned()),
            target: Some(3),
        };
        let origin = clock(at) - 5_000_007;
        let text = event.json(2, 77, origin);
        assert!(!text.contains('\n'), "{text}");
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["name"], "wait in fence");
        assert_eq!(read["ph"], "X");
        assert_eq!(read["ts"], 5000.007);
        assert_eq!(read["dur"], 1234.567);
        assert_eq!((&read["pid"], &read["tid"]), (&2.into(), &77.into()));
        assert_eq!(read["id2"]["local"], "0x100000002");
        assert_eq!(read["args"]["window"], "1 allocate \"a\\\n\u{1}é\"");
        assert_eq!(read["args"]["target"], 3);
    }

    #[test]
    fn time_goes_on_from_where_it_was() {
        let before = Instant::now();
        let first = clock(before);
        assert!(clock(Instant::now()) >= first);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let off = (since.as_nanos() as u64).abs_diff(first);
        assert!(off < 60_000_000_000, "{off} ns");
    }
}
