//! What the environment asks to be shown.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

const REPORT: &str = "TRANSOM_REPORT";
const TRACE: &str = "TRANSOM_TRACE";
const WAIT_WARNING: &str = "TRANSOM_WAIT_WARNING";

/// Whether a variable with this value is on or off; `None` if it is empty.
pub(crate) fn switch(name: &str, value: &OsStr) -> Result<Option<bool>, String> {
    match value.to_str() {
        Some("") => Ok(None),
        Some("0" | "false" | "no" | "off") => Ok(Some(false)),
        Some("1" | "true" | "yes" | "on") => Ok(Some(true)),
        _ => Err(format!("{name}={}: it is 1 or 0", value.to_string_lossy())),
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    /// Whether to write a table at the end.
    pub(super) report: bool,
    /// The file of the trace.
    pub(super) trace: Option<PathBuf>,
    /// The time after which a wait causes a warning, if set; zero: never.
    pub(super) wait_warning: Option<Duration>,
    /// Problems with values; such values are ignored.
    pub(super) complaints: Vec<String>,
}

impl Settings {
    pub(super) fn read(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let mut settings = Self::default();
        match switch(REPORT, &variable(REPORT).unwrap_or_default()) {
            Ok(on) => settings.report = on.unwrap_or_default(),
            Err(complaint) => settings
                .complaints
                .push(format!("{complaint}; there will be no report")),
        }
        let trace = variable(TRACE).filter(|path| !path.is_empty());
        settings.trace = trace.map(PathBuf::from);
        if let Some(said) = variable(WAIT_WARNING).filter(|said| !said.is_empty()) {
            let seconds = said.to_str().and_then(|text| text.trim().parse().ok());
            settings.wait_warning =
                seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            if settings.wait_warning.is_none() {
                settings.complaints.push(format!(
                    "{WAIT_WARNING}={}: it is a number of seconds, or 0 for no warnings; 10 are taken",
                    said.to_string_lossy()
                ));
            }
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(report: &str, trace: &str) -> Settings {
        Settings::read(|name| match name {
            REPORT => Some(report.into()),
            TRACE => Some(trace.into()),
            _ => None,
        })
    }

    #[test]
    fn nothing_is_shown_unless_asked_for() {
        assert_eq!(Settings::read(|_| None), Settings::default());
        assert_eq!(read("", ""), Settings::default());
        assert_eq!(read("0", ""), Settings::default());
    }

    #[test]
    fn what_is_asked_for_is_shown_and_a_bad_value_is_told_of() {
        let both = read("1", "/tmp/a b");
        assert!(both.report && both.complaints.is_empty());
        assert_eq!(both.trace, Some(PathBuf::from("/tmp/a b")));
        let bad = read("maybe", "");
        assert!(!bad.report);
        let complaint = &bad.complaints[0];
        assert!(
            complaint.starts_with("TRANSOM_REPORT=maybe: "),
            "{complaint}"
        );
    }

    #[test]
    fn waits_are_warned_of_after_a_number_of_seconds() {
        let read = |text: &str| {
            let variable = |name: &str| (name == WAIT_WARNING).then(|| text.into());
            Settings::read(variable)
        };
        assert_eq!(read("0").wait_warning, Some(Duration::ZERO));
        assert_eq!(read("0.5").wait_warning, Some(Duration::from_millis(500)));
        assert_eq!(read("60").complaints, Vec::<String>::new());
        for bad in ["-1", "ten", "inf", "NaN", "1e300"] {
            let settings = read(bad);
            assert_eq!(settings.wait_warning, None, "{bad}");
            assert!(
                settings.complaints[0].contains("a number of seconds"),
                "{bad}"
            );
        }
    }
}
