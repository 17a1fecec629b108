//! Pictures of values over sizes, both logarithmic: charts side by side, and one legend.

mod draw;
pub(super) mod ticks;

use std::path::PathBuf;

pub(super) use draw::svg;

pub(super) struct Picture {
    pub(super) title: String,
    /// Of what it is, in a second line.
    pub(super) below: String,
    /// What colours stand for.
    pub(super) operations: Vec<String>,
    /// What lines stand for, if there are several kinds.
    pub(super) runs: Vec<String>,
    /// What points stand for, filled ones and those that are white inside, if there are two kinds.
    pub(super) kinds: Option<[&'static str; 2]>,
    pub(super) charts: Vec<Chart>,
    pub(super) series: Vec<Series>,
}

/// Points of one colour, with one kind of line.
pub(super) struct Series {
    /// Which of the picture's.
    pub(super) operation: usize,
    pub(super) run: usize,
    /// Whether points are white inside.
    pub(super) is_white: bool,
    /// In the order of the first number.
    pub(super) points: Vec<(f64, f64)>,
}

/// One view of all series.
pub(super) struct Chart {
    /// What the axes are called.
    pub(super) across: &'static str,
    pub(super) up: &'static str,
    /// What stands at their marks.
    pub(super) across_text: fn(f64) -> String,
    pub(super) up_text: fn(f64) -> String,
    /// Where a point of a series stands.
    pub(super) place: fn((f64, f64)) -> (f64, f64),
}

/// The name of a file for a picture, as options have it.
pub(super) fn parse_picture(text: &str) -> Result<PathBuf, &'static str> {
    let path = PathBuf::from(text);
    match path.extension() {
        Some(extension) if extension.eq_ignore_ascii_case("svg") => Ok(path),
        _ => Err("the picture is an SVG file, and so ends in .svg"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_what_they_are_called() {
        assert_eq!(parse_picture("a/b.SVG").unwrap(), PathBuf::from("a/b.SVG"));
        for text in ["", "-", ".svg", "b.png", "svg"] {
            assert!(parse_picture(text).is_err(), "{text:?}");
        }
    }
}
