//! What the environment asks to be shown.

use std::ffi::OsString;
use std::path::PathBuf;

const REPORT: &str = "TRANSOM_REPORT";
const TRACE: &str = "TRANSOM_TRACE";

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    /// Whether there is to be a table at the end.
    pub(super) report: bool,
    /// The file of the trace.
    pub(super) trace: Option<PathBuf>,
    /// What is wrong with a value, which then counts as none.
    pub(super) complaint: Option<String>,
}

impl Settings {
    pub(super) fn read(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let mut settings = Self::default();
        let report = variable(REPORT).unwrap_or_default();
        match report.to_str() {
            Some("" | "0" | "false" | "no" | "off") => {}
            Some("1" | "true" | "yes" | "on") => settings.report = true,
            _ => {
                settings.complaint = Some(format!(
                    "{REPORT}={}: it is 1 or 0; there will be no report",
                    report.to_string_lossy()
                ));
            }
        }
        let trace = variable(TRACE).filter(|path| !path.is_empty());
        settings.trace = trace.map(PathBuf::from);
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(report: &str, trace: &str) -> Settings {
        Settings::read(|name| {
            Some(match name {
                REPORT => report.into(),
                _ => trace.into(),
            })
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
        assert!(both.report && both.complaint.is_none());
        assert_eq!(both.trace, Some(PathBuf::from("/tmp/a b")));
        let bad = read("maybe", "");
        assert!(!bad.report);
        let complaint = bad.complaint.unwrap();
        assert!(
            complaint.starts_with("TRANSOM_REPORT=maybe: "),
            "{complaint}"
        );
    }
}
