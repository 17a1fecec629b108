//! The result of a check.

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
    /// In capitals if it must not be overlooked.
    pub(super) fn word(self) -> &'static str {
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
    /// How to correct it. Never present if the level is `Ok`.
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

/// The width of the text before the name of the check.
const MARGIN: usize = 9;

/// A line for each finding. A line is continued on the next one where a terminal of `columns` would break a word.
pub(super) fn text(findings: &[Finding], columns: Option<usize>) -> String {
    let columns = columns.unwrap_or(usize::MAX);
    let mut text = String::new();
    for finding in findings {
        let (word, style) = (finding.level.word(), finding.level.style());
        let (check, found) = (&finding.check, &finding.found);
        let _ = write!(text, "{style}{word}{style:#}{:1$}", "", MARGIN - word.len());
        let _ = write!(text, "{STRONG}{check}{STRONG:#}:");
        let arrow = finding.remedy.iter().flat_map(|remedy| ["->", remedy]);
        let said = [&**found].into_iter().chain(arrow);
        let mut column = MARGIN + check.chars().count() + 1;
        for word in said.flat_map(|part| part.split(' ')) {
            let length = word.chars().count();
            if column.saturating_add(1 + length) <= columns {
                let _ = write!(text, " {word}");
                column += 1 + length;
            } else {
                let _ = write!(text, "\n{:MARGIN$}{word}", "");
                column = MARGIN + length;
            }
        }
        text.push('\n');
    }
    text
}

/// The worst level.
pub(super) fn worst(findings: &[Finding]) -> Level {
    let levels = findings.iter().map(|finding| finding.level);
    levels.max().unwrap_or(Level::Ok)
}

/// 0, 1 or 2, by the worst level.
pub(super) fn exit_code(findings: &[Finding]) -> u8 {
    match worst(findings) {
        Level::Ok => 0,
        Level::Warning => 1,
        Level::Failure => 2,
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
