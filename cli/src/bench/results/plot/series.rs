//! Selects the lines of results for a picture, and labels them.

use super::{PlotError, Result, Source};
use crate::bench::record::{Metric, Record, Run, What, grouped, in_order, median};
use crate::picture::{Chart, Picture, Series, ticks};

/// More lines could not be told apart.
const MOST: usize = 200;

/// The common properties of the points of a series. All repetitions of a line of a job are in one series.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    job: Job,
    /// Does not contain size and metric.
    what: What,
}

/// The index of the source, and the run without its date.
type Job = (usize, Run);

/// Times by size; for each size one time per repetition.
type Times = Vec<(u64, Vec<f64>)>;

const LATENCY: Chart = Chart {
    across: "size of one operation (bytes)",
    across_text: ticks::bytes,
    up: "time of one operation",
    up_text: ticks::time,
    place: |point| point,
};

const BANDWIDTH: Chart = Chart {
    up: "bandwidth (GB/s)",
    up_text: ticks::plain,
    place: |(size, nanoseconds)| (size, size / nanoseconds),
    ..LATENCY
};

impl Picture {
    pub(in crate::bench) fn of(sources: &[Source<'_>]) -> Result<Self> {
        let mut found = collect(sources);
        // A series with one size has no line. In a picture with other series it is left out.
        if found.iter().any(|(_, times)| times.len() > 1) {
            found.retain(|(_, times)| times.len() > 1);
        }
        match found.len() {
            0 => return Err(PlotError::NoSizes),
            1..=MOST => {}
            found => return Err(PlotError::TooManySeries { found, most: MOST }),
        }
        // Series for comparison come last.
        found.sort_by_key(|(key, _)| (key.job.0, key.what.sync == "none"));
        let jobs = in_order(found.iter().map(|(key, _)| &key.job));
        let names = job_names(sources, &jobs);
        let hints_differ = found
            .iter()
            .any(|(key, _)| key.what.hints != found[0].0.what.hints);
        let labels: Vec<_> = found
            .iter()
            .map(|(key, _)| label(&key.what, hints_differ))
            .collect();
        let operations = in_order(labels.iter().cloned());
        let series = found.iter().zip(&labels).map(|((key, times), label)| {
            let run = jobs.iter().position(|job| **job == key.job);
            let operation = operations.iter().position(|other| other == label);
            Series {
                operation: operation.unwrap_or(0),
                run: run.unwrap_or(0),
                is_white: key.what.window == "create",
                points: times
                    .iter()
                    .map(|(size, times)| (*size as f64, median(times)))
                    .collect(),
            }
        });
        let series = series.collect();
        let (title, below) = captions(sources, &jobs);
        Ok(Self {
            title,
            below,
            operations,
            runs: if names.len() > 1 { names } else { Vec::new() },
            kinds: Some(["allocate", "create"]),
            charts: [LATENCY, BANDWIDTH].into(),
            series,
        })
    }
}

fn collect(sources: &[Source<'_>]) -> Vec<(Key, Times)> {
    let records = sources.iter().enumerate().flat_map(|(source, of)| {
        let records = of.1.iter();
        records.map(move |record| (source, record))
    });
    // Special cases, and windows that are made and freed, do not show the cost of a size.
    let shown = records.filter(|(_, record)| {
        let What { size, case, op, .. } = &record.what;
        *size > 0 && case.is_none() && op != "create_free"
    });
    let points = shown.map(|(source, record)| {
        let point = (record.what.size, record.nanoseconds());
        (key(source, record), point)
    });
    let series = grouped(points).into_iter().map(|(key, mut points)| {
        points.sort_by_key(|&(size, _)| size);
        (key, grouped(points))
    });
    series.collect()
}

fn key(source: usize, record: &Record) -> Key {
    let run = Run {
        date: String::new(),
        quick: false,
        watched: None,
        ..record.run.clone()
    };
    let what = What {
        size: 0,
        metric: Metric::Latency,
        ..record.what.clone()
    };
    Key {
        job: (source, run),
        what,
    }
}

/// The name of a job: the properties in which the jobs differ, and the file's name if these are not enough.
fn job_names(sources: &[Source<'_>], jobs: &[&Job]) -> Vec<String> {
    let fields: [fn(&Job) -> String; 4] = [
        |(_, run)| run.device.clone(),
        |(_, run)| format!("{} ranks", run.ranks),
        |(_, run)| run.host.clone(),
        |(_, run)| run.transom.clone(),
    ];
    let differ = |field: &fn(&Job) -> String| jobs.iter().any(|job| field(job) != field(jobs[0]));
    let said: Vec<_> = fields.into_iter().filter(differ).collect();
    let name = |job: &&Job| {
        let parts: Vec<_> = said.iter().map(|field| field(job)).collect();
        parts.join(", ")
    };
    let names: Vec<_> = jobs.iter().map(name).collect();
    if in_order(names.iter()).len() == jobs.len() {
        return names;
    }
    let with_file = |(job, name): (&&Job, String)| match &*name {
        "" => sources[job.0].0.clone(),
        name => format!("{}, {name}", sources[job.0].0),
    };
    jobs.iter().zip(names).map(with_file).collect()
}

fn label(what: &What, hints: bool) -> String {
    let mut text = what.op.clone();
    if what.burst > 1 {
        text += &format!(" ×{}", what.burst);
    }
    if what.sync != "none" {
        text += &format!(" + {}", what.sync);
    }
    if what.registered {
        text += ", registered";
    }
    for (key, value) in what.hints.iter().filter(|_| hints) {
        text += &format!(", {key}={value}");
    }
    text
}

/// The title, and the text below it.
fn captions(sources: &[Source<'_>], jobs: &[&Job]) -> (String, String) {
    let list =
        |field: fn(&Run) -> String| in_order(jobs.iter().map(|(_, run)| field(run))).join(", ");
    let devices = list(|run| run.device.clone());
    let ranks = list(|run| run.ranks.to_string());
    let title = format!("One-sided operations: device {devices}, {ranks} ranks");
    let runs = || sources.iter().flat_map(|(_, records)| *records);
    // The minute is precise enough.
    let minutes = |record: &Record| {
        let date = record.run.date.get(..16).unwrap_or(&record.run.date);
        format!("{} UTC", date.replacen('T', " ", 1))
    };
    let mut dates: Vec<_> = runs().map(minutes).collect();
    dates.sort();
    dates.dedup();
    let date = match &dates[..] {
        [] => String::new(),
        [date] => date.clone(),
        [first, .., last] => format!("{first} to {last}"),
    };
    let hosts = list(|run| run.host.clone());
    let versions = list(|run| run.transom.clone());
    let mut below = format!("host {hosts}, transom {versions}, {date}");
    if runs().any(|record| record.run.quick) {
        below += ", --quick: not for comparison";
    }
    if let Some(watched) = runs().find_map(|record| record.run.watched) {
        below += &format!(", {}: not for comparison", watched.variable());
    }
    (title, below)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::bench::record::tests::record;

    /// For each series: the operation, the run, and whether the windows are over the caller's memory.
    fn looks(picture: &Picture) -> Vec<(usize, usize, bool)> {
        let series = picture.series.iter();
        series
            .map(|one| (one.operation, one.run, one.is_white))
            .collect()
    }

    #[test]
    fn times_come_from_any_metric_and_repetitions_are_one_point() {
        let mut bandwidth = record("put", 4096, 40.96);
        bandwidth.unit = "GB/s".to_owned();
        bandwidth.what.metric = Metric::Bandwidth;
        let records = [
            bandwidth,
            record("put", 8, 9.0),
            record("put", 8, 5.0),
            record("put", 8, 6.0),
        ];
        let picture = Picture::of(&[("a".to_owned(), &records)]).unwrap();
        assert_eq!(picture.operations, ["put + flush"]);
        assert_eq!(picture.series[0].points, [(8.0, 6.0), (4096.0, 100.0)]);
        assert_eq!(picture.title, "One-sided operations: device soft, 2 ranks");
        let below = "host n0, transom 0.1.0, 2026-01-02 03:04 UTC";
        assert_eq!(picture.below, below);
    }

    #[test]
    fn single_sizes_are_left_out_beside_lines_and_are_points_alone() {
        let records = [
            record("get", 8, 3.0),
            record("put", 8, 5.0),
            record("put", 64, 6.0),
        ];
        let picture = Picture::of(&[(String::new(), &records)]).unwrap();
        assert_eq!(picture.operations, ["put + flush"]);
        let picture = Picture::of(&[(String::new(), &records[..2])]).unwrap();
        assert_eq!(picture.series.len(), 2);
        assert_eq!(picture.series[0].points, [(8.0, 3.0)]);
    }

    #[test]
    fn what_is_about_no_size_makes_no_picture() {
        let mut busy = record("put", 8, 5.0);
        busy.what.case = Some("busy_target".to_owned());
        let records = [busy, record("none", 0, 5.0), record("create_free", 8, 5.0)];
        let nothing = Picture::of(&[(String::new(), &records)]);
        assert!(matches!(nothing, Err(PlotError::NoSizes)));
        assert!(matches!(Picture::of(&[]), Err(PlotError::NoSizes)));
        let hinted = |number: usize| {
            let mut record = record("put", 8, 5.0);
            let hint = ("no_locks".to_owned(), number.to_string());
            record.what.hints = BTreeMap::from([hint]);
            record
        };
        let records: Vec<_> = (0..=MOST).map(hinted).collect();
        let too_many = Picture::of(&[(String::new(), &records)]);
        assert!(matches!(too_many, Err(PlotError::TooManySeries { .. })));
    }

    #[test]
    fn runs_are_told_apart_by_what_differs_or_else_by_their_files() {
        let here = [record("put", 8, 5.0)];
        let mut there = here.clone();
        fn drawn(here: &[Record], there: &[Record]) -> Picture {
            Picture::of(&[("a".to_owned(), here), ("b".to_owned(), there)]).unwrap()
        }
        let picture = drawn(&here, &there);
        assert_eq!(picture.runs, ["a", "b"]);
        assert_eq!(picture.operations, ["put + flush"]);
        assert_eq!(looks(&picture), [(0, 0, false), (0, 1, false)]);
        there[0].run.device = "rxe0".to_owned();
        there[0].run.host = "n1".to_owned();
        there[0].run.date = "2026-01-03T00:00:00Z".to_owned();
        let picture = drawn(&here, &there);
        assert_eq!(picture.runs, ["soft, n0", "rxe0, n1"]);
        let title = "One-sided operations: device soft, rxe0, 2 ranks";
        assert_eq!(picture.title, title);
        assert!(picture.below.contains("host n0, n1"));
        assert!(picture.below.contains("03:04 UTC to 2026-01-03"));
    }

    #[test]
    fn windows_share_an_operation_and_hints_are_said_where_they_differ() {
        let mut records = vec![record("put", 8, 5.0); 3];
        records[1].what.window = "create".to_owned();
        let hint = ("no_locks".to_owned(), "true".to_owned());
        records[2].what.hints = BTreeMap::from([hint]);
        records[2].what.burst = 64;
        let picture = Picture::of(&[(String::new(), &records)]).unwrap();
        let expected = ["put + flush", "put ×64 + flush, no_locks=true"];
        assert_eq!(picture.operations, expected);
        assert!(picture.runs.is_empty(), "there is but one");
        assert_eq!(
            looks(&picture),
            [(0, 0, false), (0, 0, true), (1, 0, false)]
        );
    }
}
