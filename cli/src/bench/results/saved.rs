//! Results of earlier runs, which --json has saved.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::bench::record::{FORMAT, Record};

/// The most bytes that are read from a file. It bounds the read of a device that never ends.
const LONGEST: u64 = 256 << 20;

/// A file of results.
pub(in crate::bench) struct Saved {
    pub(in crate::bench) path: PathBuf,
    /// There is at least one.
    pub(in crate::bench) records: Vec<Record>,
}

/// A file that cannot be compared or drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot compare or plot {path:?}: {fault}")]
pub(in crate::bench) struct SavedError {
    path: PathBuf,
    fault: Fault,
}

/// Why a file is not a file of results.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("{0}")]
    Read(#[from] io::Error),
    #[error("longer than {LONGEST} bytes")]
    Endless,
    #[error("it has no results")]
    Empty,
    #[error("line {0} is cut off")]
    CutOff(usize),
    #[error("line {0} is no JSON ({1})")]
    Json(usize, serde_json::Error),
    #[error(
        "line {0} names no format: an earlier version than this wrote it, or something else than \
         `transom bench --json`"
    )]
    NoFormat(usize),
    #[error("line {0} is of format {1}, and this version reads format {FORMAT}")]
    Format(usize, Value),
    #[error("line {0} is no record of format {FORMAT} ({1})")]
    Record(usize, serde_json::Error),
    #[error("line {0}: {1}")]
    Value(usize, String),
}

impl Saved {
    pub(in crate::bench) fn read(path: &Path) -> Result<Self, SavedError> {
        let records = load(path).and_then(|text| parse(&text));
        let path = path.to_owned();
        match records {
            Ok(records) => Ok(Self { path, records }),
            Err(fault) => Err(SavedError { path, fault }),
        }
    }

    /// The file's name without its folder and its suffix for JSON.
    pub(in crate::bench) fn name(&self) -> String {
        let stem = self.path.file_stem().unwrap_or(self.path.as_os_str());
        stem.to_string_lossy().replace(char::is_control, "?")
    }
}

fn load(path: &Path) -> Result<Vec<u8>, Fault> {
    let mut text = Vec::new();
    File::open(path)?.take(LONGEST + 1).read_to_end(&mut text)?;
    match text.len() as u64 > LONGEST {
        true => Err(Fault::Endless),
        false => Ok(text),
    }
}

fn parse(text: &[u8]) -> Result<Vec<Record>, Fault> {
    let mut records = Vec::new();
    let lines = text.split_inclusive(|&byte| byte == b'\n');
    for (number, line) in (1..).zip(lines) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let value: Value = serde_json::from_slice(line).map_err(|error| {
            match error.is_eof() && !line.ends_with(b"\n") {
                true => Fault::CutOff(number),
                false => Fault::Json(number, error),
            }
        })?;
        // All formats have this field, and later ones will.
        let format = value.get("format").ok_or(Fault::NoFormat(number))?;
        if *format != FORMAT {
            return Err(Fault::Format(number, format.clone()));
        }
        let record: Record =
            serde_json::from_slice(line).map_err(|error| Fault::Record(number, error))?;
        if let Some(fault) = record.fault() {
            return Err(Fault::Value(number, fault));
        }
        records.push(record);
    }
    match records.is_empty() {
        true => Err(Fault::Empty),
        false => Ok(records),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::record::tests::record;

    fn line(value: f64) -> String {
        serde_json::to_string(&record("put", 8, value)).unwrap()
    }

    #[test]
    fn lines_are_read_in_order_and_empty_ones_passed_over() {
        let text = format!("{}\n\n{}\r\n", line(1.0), line(2.0));
        let records = parse(text.as_bytes()).unwrap();
        assert_eq!(records, [record("put", 8, 1.0), record("put", 8, 2.0)]);
        // An editor may have removed the last end of line.
        assert_eq!(parse(line(1.0).as_bytes()).unwrap().len(), 1);
    }

    #[test]
    fn whatever_is_no_file_of_results_is_told_apart() {
        let good = line(1.0);
        let cases: [(String, &str); 13] = [
            (String::new(), "no results"),
            (" \n\n".to_owned(), "no results"),
            (
                format!("{good}\n{}", &good[..good.len() / 2]),
                "line 2 is cut off",
            ),
            (
                format!("{}\n", &good[..good.len() / 2]),
                "line 1 is no JSON",
            ),
            ("put8_flush 6.5 ns\n".to_owned(), "line 1 is no JSON"),
            ("[]\n".to_owned(), "line 1 names no format"),
            ("7\n".to_owned(), "line 1 names no format"),
            (
                r#"{"name":"allocate.put8_flush","value":6.5}"#.to_owned(),
                "line 1 names no format",
            ),
            (
                good.replacen(":1,", ":7,", 1),
                "line 1 is of format 7, and this version reads format 1",
            ),
            (
                good.replacen(":1,", ":\"x\",", 1),
                "line 1 is of format \"x\"",
            ),
            (
                good.replacen("\"burst\":1", "\"burst\":-1", 1),
                "line 1 is no record of format 1",
            ),
            (good.replacen("\"op\":\"put\",", "", 1), "`op`"),
            (line(0.0), "line 1: a value of 0 was not measured"),
        ];
        for (text, part) in cases {
            let fault = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(fault.contains(part), "{text}: {part:?} is not in {fault:?}");
            assert_eq!(fault.lines().count(), 1, "{fault}");
        }
        assert!(matches!(parse(b"\xff\xfe\n"), Err(Fault::Json(1, _))));
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        for path in ["/no/such/file", "/"] {
            assert!(matches!(load(Path::new(path)), Err(Fault::Read(_))));
        }
    }
}
