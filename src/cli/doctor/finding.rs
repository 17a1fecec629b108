//! What a check says.

use std::fmt::Write as _;

use anstyle::Style;
use serde::Serialize;

use super::super::screen::{BAD, DOUBTFUL, GOOD, STRONG};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Ok,
    Warning,
    Failure,
}

impl Level {
    /// Shouts where it must not be overlooked.
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failure => "FAILURE",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Ok => GOOD,
            Self::Warning => DOUBTFUL,
            Self::Failure => BAD,
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) check: String,
    pub(super) level: Level,
    pub(super) found: String,
    /// What helps; never there where all is well.
    pub(super) remedy: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            check: check.into(),
            level: Level::Ok,
            found: found.into(),
            remedy: None,
        }
    }

    pub(super) fn bad(
        level: Level,
        check: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<Option<String>>,
    ) -> Self {
        Self {
            check: check.into(),
            level,
            found: found.into(),
            remedy: remedy.into().filter(|_| level != Level::Ok),
        }
    }

    pub(super) fn warning(
        check: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::bad(Level::Warning, check, found, Some(remedy.into()))
    }
}

pub(super) fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let (word, style) = (finding.level.word(), finding.level.style());
        let (check, found) = (&finding.check, &finding.found);
        let _ = write!(text, "{style}{word}{style:#}{:1$}", "", 9 - word.len());
        let _ = write!(text, "{STRONG}{check}{STRONG:#}: {found}");
        if let Some(remedy) = &finding.remedy {
            let _ = write!(text, " -> {remedy}");
        }
        text.push('\n');
    }
    text
}

pub(super) fn json(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        text.push_str(&serde_json::to_string(finding).expect("strings only"));
        text.push('\n');
    }
    text
}

/// 0, 1 or 2: the worst level.
pub(super) fn exit_code(findings: &[Finding]) -> u8 {
    match findings.iter().map(|finding| finding.level).max() {
        None | Some(Level::Ok) => 0,
        Some(Level::Warning) => 1,
        Some(Level::Failure) => 2,
    }
}

/// `n` bytes in the largest unit that it fills, to a tenth.
pub(super) fn bytes(n: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let Some((shift, unit)) = units.into_iter().find(|(shift, _)| n >> shift > 0) else {
        return format!("{n} bytes");
    };
    let tenths = (u128::from(n) * 10) >> shift;
    match tenths % 10 {
        0 => format!("{} {unit}", tenths / 10),
        tenth => format!("{}.{tenth} {unit}", tenths / 10),
    }
}
