//! Lines of the library's log on standard error, for programs that have no subscriber of their own.

use std::fmt;
use std::io;
use std::str::FromStr;

use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;

use super::VARIABLE;

/// Writes the log to standard error from now on, unless the program has a subscriber, which then stays. `default` is
/// the level if the environment has none; if `default` is also `None`, nothing happens. Returns the problem if the
/// environment's value is invalid.
pub(super) fn install(default: Option<&str>) -> Option<String> {
    let said = std::env::var_os(VARIABLE).filter(|text| !text.is_empty());
    let text = match &said {
        Some(said) => said.to_string_lossy().into_owned(),
        None => default?.to_owned(),
    };
    let (levels, complaint) = match levels(&text) {
        Some(levels) => (levels, None),
        None => {
            let complaint = format!(
                "{VARIABLE}={text}: it is off, error, warn, info, debug or trace, or a list such as \
                 info,rdma_sys_shim=debug; warnings are shown"
            );
            (
                Targets::new().with_default(LevelFilter::WARN),
                Some(complaint),
            )
        }
    };
    // If the program has a subscriber, this one is not needed.
    let _ = tracing::subscriber::set_global_default(subscriber(levels, io::stderr));
    complaint
}

/// A level for all modules, or with it levels for some modules.
fn levels(text: &str) -> Option<Targets> {
    // Numbers and the empty text are not levels here.
    let is_word = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic());
    let level = |text: &str| {
        let word = Some(text.trim()).filter(|text| is_word(text));
        LevelFilter::from_str(word?).ok()
    };
    let mut levels = Targets::new();
    for part in text.split(',') {
        levels = match part.split_once('=') {
            Some((module, of)) if !module.trim().is_empty() => {
                levels.with_target(module.trim(), level(of)?)
            }
            Some(_) => return None,
            None => levels.with_default(level(part)?),
        };
    }
    Some(levels)
}

/// Each line is one write.
fn subscriber<W>(levels: Targets, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer()
        .event_format(LogLine)
        .with_writer(writer);
    tracing_subscriber::registry().with(levels).with(lines)
}

/// Time, level, rank, module, and the message.
struct LogLine;

impl<S, N> FormatEvent<S, N> for LogLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        SystemTime.format_time(&mut writer)?;
        let (level, module) = (event.metadata().level(), event.metadata().target());
        write!(writer, " {level:>5} ")?;
        match super::rank() {
            Some(rank) => write!(writer, "rank {rank} ")?,
            None => write!(writer, "process {} ", std::process::id())?,
        }
        write!(writer, "{module}: ")?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Writes(Arc<Mutex<Vec<String>>>);

    impl io::Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            self.0.lock().unwrap().push(text);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_line_is_one_write_also_of_threads_at_once() {
        let writes = Writes::default();
        let made = writes.clone();
        let subscriber = subscriber(levels("info").unwrap(), move || made.clone());
        tracing::subscriber::with_default(subscriber, || {
            let dispatch = tracing::dispatcher::get_default(Clone::clone);
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let dispatch = dispatch.clone();
                    scope.spawn(move || {
                        tracing::dispatcher::with_default(&dispatch, || {
                            for index in 0..50 {
                                let error = "x".repeat(index * 40);
                                tracing::warn!(thread, index, %error, "it went wrong");
                                tracing::debug!("not shown");
                            }
                        });
                    });
                }
            });
        });
        let writes = writes.0.lock().unwrap();
        assert_eq!(writes.len(), 200);
        for line in &*writes {
            assert!(
                line.ends_with('\n') && line.matches('\n').count() == 1,
                "{line:?}"
            );
            assert!(line.contains("  WARN "), "{line:?}");
            assert!(
                line.contains("it went wrong") && line.contains("thread="),
                "{line:?}"
            );
            // 2026-01-31T12:59:59.123456Z
            let (time, _) = line.split_once(' ').unwrap();
            assert!(
                time.len() >= 20 && time.contains('T') && time.ends_with('Z'),
                "{line:?}"
            );
        }
    }

    #[test]
    fn levels_are_words_for_all_or_for_a_module() {
        let enabled = |text: &str, module: &str, level| {
            levels(text).map(|levels| levels.would_enable(module, level))
        };
        let debug = &tracing::Level::DEBUG;
        assert_eq!(enabled("debug", "transom::wait", debug), Some(true));
        assert_eq!(enabled("INFO", "transom::wait", debug), Some(false));
        assert_eq!(
            enabled("off", "transom", &tracing::Level::ERROR),
            Some(false)
        );
        let mixed = "warn, rdma_sys_shim=debug";
        assert_eq!(enabled(mixed, "rdma_sys_shim::soft", debug), Some(true));
        assert_eq!(enabled(mixed, "transom", debug), Some(false));
        for bad in ["inof", "info,", "=debug", "a=b", "3", "info;debug", "a=3"] {
            assert!(levels(bad).is_none(), "{bad}");
        }
    }
}
