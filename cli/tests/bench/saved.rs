//! Results that are kept: compared, and drawn.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{output, refused, succeed};

/// A record as --json writes it.
fn record(op: &str, size: u64, value: f64) -> Value {
    json!({
        "format": 1, "name": format!("allocate.{op}{size}_flush"), "window": "allocate", "op": op,
        "size": size, "sync": "flush", "burst": 1, "case": null, "registered": false, "hints": {},
        "metric": "latency", "device": "soft", "ranks": 2, "host": "n0", "transom": "0.1.0",
        "date": "2026-01-02T03:04:05Z", "quick": false, "unit": "ns", "value": value, "min": value,
        "max": value, "iterations": 20000, "repeats": 1,
    })
}

fn lines(records: &[Value]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn holds(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path.into_os_string().into_string().unwrap()
    }

    fn names(&self, name: &str) -> String {
        self.path(name).into_os_string().into_string().unwrap()
    }
}

#[test]
fn a_worse_line_is_shown_and_told_by_the_exit_code() {
    let folder = Folder::new();
    let a = folder.holds(
        "a.json",
        lines(&[record("put", 8, 10.0), record("get", 8, 4.0)]),
    );
    let b = folder.holds(
        "b.json",
        lines(&[record("put", 8, 11.0), record("put", 64, 5.0)]),
    );
    let compare =
        |tolerance: &[&str]| output(&[&["bench", "--compare", &a, &b], tolerance].concat());
    for (tolerance, code, worse) in [
        (&[][..], 1, 1),
        (&["--tolerance", "9.9"], 1, 1),
        (&["--tolerance", "10.1"], 0, 0),
    ] {
        let output = compare(tolerance);
        assert_eq!(output.status.code(), Some(code), "{tolerance:?}");
        assert!(output.stderr.is_empty());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(&format!("1 lines: {worse} worse")), "{text}");
        assert!(text.contains("1.100") && text.contains("only in A: allocate.get8_flush"));
        assert!(text.contains("only in B: allocate.put64_flush"), "{text}");
        assert!(!text.contains('\x1b'), "a pipe gets no colours");
    }
}

#[test]
fn what_is_no_file_of_results_is_refused_in_one_line() {
    let folder = Folder::new();
    let good = lines(&[record("put", 8, 10.0)]);
    let right = folder.holds("right.json", &good);
    let missing = folder.names("missing.json");
    let mut other = record("put", 8, 10.0);
    other["format"] = json!(2);
    let mut old = record("put", 8, 10.0);
    old.as_object_mut().unwrap().remove("format");
    let picture = folder.names("picture.svg");
    for (name, text, part) in [
        ("empty.json", String::new(), "no results"),
        ("cut.json", good[..100].to_owned(), "line 1 is cut off"),
        (
            "table.json",
            "put8_flush 6.5 ns\n".to_owned(),
            "line 1 is no JSON",
        ),
        ("old.json", lines(&[old]), "names no format"),
        ("new.json", lines(&[other]), "format 2"),
    ] {
        let wrong = folder.holds(name, text);
        refused(&["--compare", &right, &wrong], &[name, part]);
        refused(&["--compare", &wrong, &right], &[name, part]);
        refused(
            &["--plot", &picture, "--from", &right, &wrong],
            &[name, part],
        );
    }
    refused(
        &["--compare", &right, &missing],
        &["missing.json", "No such file"],
    );
    refused(&["--compare", &right], &["--compare", "2 values"]);
    let apart = folder.holds("apart.json", lines(&[record("get", 8, 1.0)]));
    refused(
        &["--compare", &right, &apart],
        &["right.json", "apart.json", "no line in common"],
    );
    refused(
        &["--compare", &right, &apart, "--plot", &picture],
        &["no line in common"],
    );
    assert!(
        !Path::new(&picture).exists(),
        "what failed has drawn nothing"
    );
}

#[test]
fn what_goes_with_measurements_does_not_go_with_files() {
    let folder = Folder::new();
    let file = folder.holds("a.json", lines(&[record("put", 8, 10.0)]));
    refused(
        &["--compare", &file, &file, "--op", "put"],
        &["--compare", "--op"],
    );
    refused(&["--compare", &file, &file, "--json", "-"], &["--json"]);
    refused(&["--from", &file], &["--plot"]);
    refused(&["--tolerance", "5"], &["--compare"]);
    refused(
        &["--tolerance", "5", "--op", "put"],
        &["--tolerance", "--op"],
    );
    refused(
        &["--compare", &file, &file, "--tolerance", "-5"],
        &["'-5'", "0 to 1000"],
    );
}

#[test]
fn pictures_are_drawn_of_files() {
    let folder = Folder::new();
    let of = |device: &str, scale: f64| {
        let records = [8, 4096, 65_536].map(|size| {
            let mut record = record("put", size, scale * (5.0 + size as f64 / 50.0));
            record["device"] = json!(device);
            record
        });
        lines(&records)
    };
    let (a, b) = (
        folder.holds("a.json", of("soft", 1.0)),
        folder.holds("b.json", of("rxe0", 900.0)),
    );
    let picture = folder.names("both.svg");
    assert_eq!(
        succeed(&["bench", "--plot", &picture, "--from", &a, &b]),
        ""
    );
    let svg = fs::read_to_string(&picture).unwrap();
    for text in [
        "\nput + flush\n",
        "\nallocate\n",
        "\nsoft\n",
        "\nrxe0\n",
        "host n0",
        "(GB/s)",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    // Beside a comparison, and in place of an earlier picture.
    let table = succeed(&["bench", "--compare", &a, &a, "--plot", &picture]);
    assert!(table.contains("3 lines: 0 worse"), "{table}");
    assert!(!fs::read_to_string(&picture).unwrap().contains("rxe0"));
    let point = folder.holds("point.json", lines(&[record("put", 8, 10.0)]));
    succeed(&["bench", "--plot", &picture, "--from", &point]);
    assert_eq!(
        fs::read_to_string(&picture)
            .unwrap()
            .matches("<circle ")
            .count(),
        3
    );
}

#[test]
fn a_picture_that_cannot_be_is_refused_before_anything_is_lost() {
    let folder = Folder::new();
    let file = folder.holds("a.json", lines(&[record("none", 0, 10.0)]));
    let picture = folder.holds("there.svg", "what was there before");
    refused(&["--plot", &picture, "--from", &file], &["about a size"]);
    assert_eq!(
        fs::read_to_string(&picture).unwrap(),
        "what was there before"
    );
    refused(
        &["--plot", "picture.png", "--from", &file],
        &["'picture.png'", ".svg"],
    );
    let nowhere = folder.names("no/such/folder.svg");
    refused(
        &["--plot", &nowhere, "--from", &file],
        &[&nowhere, "No such file"],
    );
    let json = folder.holds("results.svg", lines(&[record("put", 8, 10.0)]));
    refused(&["--plot", &json, "--from", &json], &[&json, "overwrite"]);
    // Of a measurement, which then does not begin, and leaves what an earlier one has written.
    let results = folder.holds("results.json", "what was there before");
    let measure = ["--quick", "--json", &results, "--plot"];
    refused(
        &[&measure[..], &[&nowhere]].concat(),
        &[&nowhere, "No such file"],
    );
    assert_eq!(
        fs::read_to_string(&results).unwrap(),
        "what was there before"
    );
    refused(
        &["--quick", "--json", &picture, "--plot", &picture],
        &["there.svg", "overwrite"],
    );
}

#[test]
fn a_measurement_is_drawn_kept_and_compared_with_itself() {
    let folder = Folder::new();
    let (results, picture) = (folder.names("run.json"), folder.names("run.svg"));
    let measure = [
        "bench", "--quick", "--sizes", "8,4K,64K", "--json", &results,
    ];
    succeed(&[&measure[..], &["--plot", &picture]].concat());
    let svg = fs::read_to_string(&picture).unwrap();
    for text in [
        "\nput + flush\n",
        "\nget + flush\n",
        "\nallocate\n",
        "\ncreate\n",
        "time of one operation",
        "device soft",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    let again = folder.names("again.svg");
    succeed(&["bench", "--plot", &again, "--from", &results]);
    assert_eq!(
        fs::read_to_string(&again).unwrap(),
        svg,
        "the file says all that the run knew"
    );
    let table = succeed(&["bench", "--compare", &results, &results]);
    assert!(table.contains("24 lines: 0 worse and 0 better"), "{table}");
    assert!(table.contains("--quick is not for comparison"), "{table}");
}
