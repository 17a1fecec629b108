//! Pictures of values over sizes, both logarithmic: charts side by side, and one legend.

mod draw;
pub(super) mod ticks;

use std::path::PathBuf;

pub(super) use draw::svg;

pub(super) struct Picture {
    pub(super) title: String,
    /// The second line of the title.
    pub(super) below: String,
    /// The names of the operations, which have colours.
    pub(super) operations: Vec<String>,
    /// The names of the runs, which have kinds of lines, if there are several.
    pub(super) runs: Vec<String>,
    /// The names of the two kinds of points, filled ones and ones that are white inside, if there are two.
    pub(super) kinds: Option<[&'static str; 2]>,
    pub(super) charts: Vec<Chart>,
    pub(super) series: Vec<Series>,
}

/// Points of one colour, with one kind of line.
pub(super) struct Series {
    /// The index of its operation in the picture.
    pub(super) operation: usize,
    pub(super) run: usize,
    /// Whether points are white inside.
    pub(super) is_white: bool,
    /// Sorted by the first number.
    pub(super) points: Vec<(f64, f64)>,
}

/// One view of all series.
pub(super) struct Chart {
    /// The titles of the axes.
    pub(super) across: &'static str,
    pub(super) up: &'static str,
    /// The text at a mark.
    pub(super) across_text: fn(f64) -> String,
    pub(super) up_text: fn(f64) -> String,
    /// The position of a point of a series.
    pub(super) place: fn((f64, f64)) -> (f64, f64),
}

/// Parses the name of a file for a picture in an option.
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
