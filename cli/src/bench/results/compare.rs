//! Compares two files of results: for each line that both have, the ratio, and which file is better.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use super::saved::Saved;
use crate::bench::record::{
    Diagnostics, Record, Run, What, convert, grouped, in_order, median, significant,
};

/// The largest number of runs of a file that are described.
const SHOWN: usize = 4;

/// Lines of two files are the same line if their keys are equal. Device and ranks count only if a file has several.
type Key = (What, Option<(String, u32)>);

/// A line that both files have.
struct Row {
    name: String,
    unit: String,
    less_is_better: bool,
    a: f64,
    b: f64,
    /// The range of most repetitions of A, plus that of B.
    spread: f64,
    /// The ratio of the 99th percentiles, if both files have them.
    tail: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Better,
    Same,
    Worse,
}

impl Row {
    /// B's value divided by A's.
    fn ratio(&self) -> f64 {
        self.b / self.a
    }

    /// A change by a factor counts alike in either direction and for either kind of metric. A change that is not
    /// greater than the spread of the repetitions may be chance.
    fn verdict(&self, tolerance: f64) -> Verdict {
        if (self.b - self.a).abs() <= self.spread {
            return Verdict::Same;
        }
        let worse = match self.less_is_better {
            true => self.ratio(),
            false => self.a / self.b,
        };
        match worse {
            worse if worse > 1.0 + tolerance => Verdict::Worse,
            worse if 1.0 / worse > 1.0 + tolerance => Verdict::Better,
            _ => Verdict::Same,
        }
    }
}

impl Verdict {
    fn text(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Same => "",
            Self::Worse => "WORSE",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Better => AnsiColor::Green.on_default(),
            Self::Same => Style::new(),
            Self::Worse => AnsiColor::Red.on_default().bold(),
        }
    }
}

pub(in crate::bench) struct Ratios<'a> {
    files: [&'a Saved; 2],
    rows: Vec<Row>,
    /// Names of the lines that only one of the files has.
    only: [Vec<String>; 2],
}

impl<'a> Ratios<'a> {
    /// `None` if the files have no line in common.
    pub(in crate::bench) fn of(files: [&'a Saved; 2]) -> Option<Self> {
        let tells_apart = files.iter().any(|file| jobs(file).len() > 1);
        let [a, b] = files.map(|file| lines(file, tells_apart));
        let mut there: BTreeMap<_, _> = b.iter().map(|(key, records)| (key, records)).collect();
        let mut rows = Vec::new();
        let mut only = [Vec::new(), Vec::new()];
        for (key, records) in &a {
            match there.remove(key) {
                Some(others) => rows.push(row(name(key, records), records, others)),
                None => only[0].push(name(key, records)),
            }
        }
        let alone = b.iter().filter(|(key, _)| there.contains_key(key));
        only[1].extend(alone.map(|(key, records)| name(key, records)));
        (!rows.is_empty()).then_some(Self { files, rows, only })
    }

    /// The number of lines that are worse in the second file by more than this fraction.
    pub(in crate::bench) fn worse(&self, tolerance: f64) -> usize {
        self.count(Verdict::Worse, tolerance)
    }

    fn count(&self, wanted: Verdict, tolerance: f64) -> usize {
        let verdicts = self.rows.iter().map(|row| row.verdict(tolerance));
        verdicts.filter(|&verdict| verdict == wanted).count()
    }

    /// Writes colours too. `to` removes them if the output does not show colours.
    pub(in crate::bench) fn write(&self, to: &mut impl Write, tolerance: f64) -> io::Result<()> {
        for (letter, file) in ["A", "B"].into_iter().zip(self.files) {
            let runs = in_order(file.records.iter().map(|record| &record.run));
            for run in runs.iter().take(SHOWN) {
                writeln!(to, "{letter}  {}: {}", file.name(), describe(run))?;
            }
            if runs.len() > SHOWN {
                let more = runs.len() - SHOWN;
                writeln!(to, "{letter}  {}: and {more} more runs", file.name())?;
            }
        }
        for line in self.differences() {
            writeln!(to, "{line}")?;
        }
        let width = self.rows.iter().map(|row| row.name.chars().count()).max();
        let width = width.unwrap_or(0);
        writeln!(
            to,
            "\n{:<width$}  {:<6}{:>10} {:>10} {:>8} {:>8}",
            "", "", "A", "B", "B/A", "p99 B/A"
        )?;
        for row in &self.rows {
            let verdict = row.verdict(tolerance);
            let style = verdict.style();
            let tail = row.tail.map_or_else(String::new, significant);
            let line = format!(
                "{:<width$}  {:<6}{:>10} {:>10} {style}{:>8}{style:#} {tail:>8}  {style}{}{style:#}",
                row.name,
                row.unit,
                significant(row.a),
                significant(row.b),
                significant(row.ratio()),
                verdict.text(),
            );
            writeln!(to, "{}", line.trim_end())?;
        }
        writeln!(to)?;
        for (letter, names) in ["A", "B"].into_iter().zip(&self.only) {
            if !names.is_empty() {
                writeln!(to, "only in {letter}: {}", names.join(", "))?;
            }
        }
        writeln!(
            to,
            "{} lines: {} worse and {} better in B by more than {} % and the spread of repetitions (for ns and us less is better, for GB/s \
             and Mops/s more)",
            self.rows.len(),
            self.count(Verdict::Worse, tolerance),
            self.count(Verdict::Better, tolerance),
            tolerance * 100.0,
        )
    }

    /// In which respects the two files were measured differently.
    fn differences(&self) -> Vec<String> {
        let fields: [Field; 6] = [
            ("host", |run| run.host.clone()),
            ("device", |run| run.device.clone()),
            ("ranks", |run| run.ranks.to_string()),
            ("version of transom", |run| run.transom.clone()),
            ("number of iterations (--quick)", |run| {
                run.quick.to_string()
            }),
            ("counting of operations", |run| format!("{:?}", run.watched)),
        ];
        let differs = |&(_, field): &Field| {
            let [a, b] = self.files.map(|file| distinct(file, field));
            a != b
        };
        let names = fields.into_iter().filter(differs).map(|(name, _)| name);
        let mut lines: Vec<_> = names
            .map(|name| format!("note: A and B differ in the {name}"))
            .collect();
        let quick = |file: &Saved| file.records.iter().any(|record| record.run.quick);
        if self.files.into_iter().any(quick) {
            lines.push("note: --quick is not for comparison".to_owned());
        }
        let watched = self.files.map(|file| distinct(file, |run| run.watched));
        let watched: BTreeSet<_> = watched.into_iter().flatten().flatten().collect();
        lines.extend(watched.into_iter().map(|by| {
            let variable = by.variable();
            format!("note: what was measured with {variable} is not for comparison")
        }));
        lines
    }
}

/// A field of a run: its name, and its value.
type Field = (&'static str, fn(&Run) -> String);

fn distinct<T: Ord>(file: &Saved, field: impl Fn(&Run) -> T) -> BTreeSet<T> {
    file.records
        .iter()
        .map(|record| field(&record.run))
        .collect()
}

/// The jobs whose results a file has.
fn jobs(file: &Saved) -> BTreeSet<(String, u32)> {
    distinct(file, |run| (run.device.clone(), run.ranks))
}

fn describe(run: &Run) -> String {
    let Run { device, host, .. } = run;
    let watched = run.watched.map_or("", Diagnostics::variable);
    let comma = if watched.is_empty() { "" } else { ", " };
    let quick = if run.quick { ", --quick" } else { "" };
    format!(
        "device {device}, {} ranks, host {host}, transom {}, {}{quick}{comma}{watched}",
        run.ranks, run.transom, run.date
    )
}

/// The lines of a file, in the order of their first records. Further records of a line are further runs of it.
fn lines(file: &Saved, tells_apart: bool) -> Vec<(Key, Vec<&Record>)> {
    grouped(file.records.iter().map(|record| {
        let job = tells_apart.then(|| (record.run.device.clone(), record.run.ranks));
        ((record.what.clone(), job), record)
    }))
}

fn name((_, job): &Key, records: &[&Record]) -> String {
    let name = &records[0].name;
    match job {
        Some((device, ranks)) => format!("{name} [{device}, {ranks}]"),
        None => name.clone(),
    }
}

fn row(name: String, a: &[&Record], b: &[&Record]) -> Row {
    let Record { unit, what, .. } = a[0];
    let less_is_better = what.metric.less_is_better();
    let value = |records: &[&Record]| {
        let values = records
            .iter()
            .map(|one| convert(one.value, &one.unit, unit));
        median(&values.collect::<Vec<_>>())
    };
    // The range that contains most repetitions of all runs.
    let spread = |records: &[&Record]| {
        let ends = records.iter().flat_map(|one| {
            let [low, high] = one.most_within.unwrap_or([one.min, one.max]);
            [low, high, one.value].map(|value| convert(value, &one.unit, unit))
        });
        let (least, greatest) = ends.fold((f64::INFINITY, 0.0), |(least, greatest), value| {
            (value.min(least), value.max(greatest))
        });
        greatest - least
    };
    let tail = |records: &[&Record]| {
        let tails = records.iter().filter_map(|one| one.percentiles.as_ref());
        let tails: Vec<_> = tails.map(|of| of.p99).filter(|&tail| tail > 0.0).collect();
        (!tails.is_empty() && less_is_better).then(|| median(&tails))
    };
    Row {
        name,
        unit: unit.clone(),
        less_is_better,
        a: value(a),
        b: value(b),
        spread: spread(a) + spread(b),
        tail: tail(a).zip(tail(b)).map(|(a, b)| b / a),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::bench::record::Metric;
    use crate::bench::record::Percentiles;
    use crate::bench::record::tests::record;

    fn saved(name: &str, records: Vec<Record>) -> Saved {
        let path = PathBuf::from(format!("/tmp/{name}.json"));
        Saved { path, records }
    }

    fn bandwidth(size: u64, value: f64) -> Record {
        let mut record = record("put", size, value);
        record.name = format!("allocate.put{size}_bw");
        record.what.metric = Metric::Bandwidth;
        record.unit = "GB/s".to_owned();
        record
    }

    fn with_tail(mut record: Record, p99: f64) -> Record {
        record.percentiles = Some(Percentiles {
            unit: "ns".to_owned(),
            operations: 1,
            samples: 1_000,
            p50: record.value,
            p90: record.value,
            p99,
            p999: p99,
            max: p99,
        });
        record
    }

    /// The written text without colours, with runs of blanks as one.
    fn written(ratios: &Ratios<'_>, tolerance: f64) -> Vec<String> {
        let mut out = anstream::StripStream::new(Vec::new());
        ratios.write(&mut out, tolerance).unwrap();
        let text = String::from_utf8(out.into_inner()).unwrap();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines().map(words).collect()
    }

    #[test]
    fn each_metric_has_its_own_better() {
        let row = |less_is_better, b| Row {
            name: String::new(),
            unit: String::new(),
            less_is_better,
            a: 100.0,
            b,
            spread: 0.0,
            tail: None,
        };
        for (less_is_better, b, verdict) in [
            (true, 105.0, Verdict::Same),
            (true, 105.1, Verdict::Worse),
            (true, 95.3, Verdict::Same),
            (true, 95.2, Verdict::Better),
            (false, 105.0, Verdict::Same),
            (false, 105.1, Verdict::Better),
            (false, 95.3, Verdict::Same),
            (false, 95.2, Verdict::Worse),
        ] {
            let found = row(less_is_better, b).verdict(0.05);
            assert_eq!(found, verdict, "{less_is_better} {b}");
        }
        assert_eq!(row(true, 100.0).verdict(0.0), Verdict::Same);
        assert_eq!(row(true, 100.1).verdict(0.0), Verdict::Worse);
    }

    #[test]
    fn ratios_stand_in_the_order_of_the_first_file_and_the_rest_is_named() {
        let a = saved(
            "old",
            vec![
                with_tail(record("put", 8, 10.0), 20.0),
                bandwidth(4096, 40.0),
                record("get", 8, 4.0),
            ],
        );
        let b = saved(
            "new",
            vec![
                bandwidth(4096, 50.0),
                with_tail(record("put", 8, 11.0), 30.0),
                record("get", 64, 4.0),
            ],
        );
        let ratios = Ratios::of([&a, &b]).unwrap();
        assert_eq!(ratios.worse(0.05), 1);
        assert_eq!(ratios.worse(0.1), 0);
        let job = "device soft, 2 ranks, host n0, transom 0.1.0, 2026-01-02T03:04:05Z";
        assert_eq!(
            written(&ratios, 0.05),
            [
                &*format!("A old: {job}"),
                &*format!("B new: {job}"),
                "",
                "A B B/A p99 B/A",
                "allocate.put8_flush ns 10.00 11.00 1.100 1.500 WORSE",
                "allocate.put4096_bw GB/s 40.00 50.00 1.250 better",
                "",
                "only in A: allocate.get8_flush",
                "only in B: allocate.get64_flush",
                "2 lines: 1 worse and 1 better in B by more than 5 % and the spread of repetitions (for ns and us \
                 less is better, for GB/s and Mops/s more)",
            ]
        );
    }

    #[test]
    fn colours_are_on_what_is_better_or_worse_alone() {
        let a = saved("a", vec![record("put", 8, 10.0), record("get", 8, 10.0)]);
        let b = saved("b", vec![record("put", 8, 20.0), record("get", 8, 10.0)]);
        let mut out = Vec::new();
        let ratios = Ratios::of([&a, &b]).unwrap();
        ratios.write(&mut out, 0.05).unwrap();
        let text = String::from_utf8(out).unwrap();
        let coloured: Vec<_> = text.lines().filter(|line| line.contains('\x1b')).collect();
        assert!(
            matches!(coloured[..], [line] if line.contains("put8")),
            "{text}"
        );
    }

    #[test]
    fn repetitions_count_as_their_median() {
        let times = |values: [f64; 3]| values.map(|value| record("put", 8, value)).to_vec();
        let (a, b) = (
            saved("a", times([10.0, 1.0, 99.0])),
            saved("b", times([20.0, 99.0, 1.0])),
        );
        let ratios = Ratios::of([&a, &b]).unwrap();
        assert_eq!(ratios.rows.len(), 1);
        assert_eq!(ratios.rows[0].ratio(), 2.0);
    }

    /// A record of repetitions that took these times.
    fn repeated(size: u64, times: &[f64]) -> Record {
        Record {
            min: times.iter().copied().fold(f64::INFINITY, f64::min),
            max: times.iter().copied().fold(0.0, f64::max),
            repeats: times.len(),
            ..record("put", size, median(times))
        }
    }

    #[test]
    fn runs_of_one_distribution_do_not_differ_and_twice_the_time_does() {
        // Values around 10 that vary as on a machine with other load.
        let mut state = 1_u64;
        let mut times = |scale: f64| {
            let mut next = || {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                scale * (9.0 + 2.0 * (state >> 33) as f64 / f64::from(1_u32 << 31))
            };
            [(); 5].map(|()| next())
        };
        let mut run = |scale: f64| (0..100).map(|size| repeated(size, &times(scale))).collect();
        let [a, again, twice] = [
            saved("a", run(1.0)),
            saved("again", run(1.0)),
            saved("twice", run(2.0)),
        ];
        let far_apart = |ratios: &Ratios<'_>| {
            let ratios = ratios.rows.iter().map(Row::ratio);
            ratios.filter(|ratio| !(0.95..1.05).contains(ratio)).count()
        };
        let same = Ratios::of([&a, &again]).unwrap();
        assert!(far_apart(&same) > 10, "else the spread decides nothing");
        assert_eq!(same.worse(0.05), 0);
        let other = Ratios::of([&a, &twice]).unwrap();
        assert_eq!(other.worse(0.05), 100);
        let back = Ratios::of([&twice, &a]).unwrap();
        assert!(
            back.rows
                .iter()
                .all(|row| row.verdict(0.05) == Verdict::Better)
        );
    }

    #[test]
    fn a_repetition_that_was_interrupted_hides_no_difference() {
        let mut one = repeated(8, &[[10.0; 999].as_slice(), &[300.0]].concat());
        one.most_within = Some([10.0, 10.0]);
        let [a, b] = [
            saved("a", vec![one]),
            saved("b", vec![repeated(8, &[20.0; 5])]),
        ];
        assert_eq!(Ratios::of([&a, &b]).unwrap().worse(0.05), 1);
    }

    #[test]
    fn joined_runs_are_spread_over_all_of_them() {
        let a = saved(
            "a",
            vec![repeated(8, &[9.0, 10.0, 11.0]), repeated(8, &[14.0, 15.0])],
        );
        let b = saved("b", vec![repeated(8, &[17.0])]);
        let ratios = Ratios::of([&a, &b]).unwrap();
        assert_eq!((ratios.rows[0].spread, ratios.worse(0.05)), (6.0, 0));
        let b = saved("b", vec![repeated(8, &[19.0])]);
        assert_eq!(Ratios::of([&a, &b]).unwrap().worse(0.05), 1);
    }

    #[test]
    fn units_of_one_metric_are_converted() {
        let a = saved("a", vec![record("put", 8, 2_000.0)]);
        let mut there = record("put", 8, 3.0);
        there.unit = "us".to_owned();
        let b = saved("b", vec![there]);
        let ratios = Ratios::of([&a, &b]).unwrap();
        assert_eq!(ratios.rows[0].ratio(), 1.5);
    }

    #[test]
    fn other_machines_are_compared_and_said() {
        let a = saved("a", vec![record("put", 8, 10.0)]);
        let mut there = record("put", 8, 10.0);
        there.run.host = "n1".to_owned();
        there.run.device = "rxe0".to_owned();
        there.run.quick = true;
        there.run.watched = Some(Diagnostics::Trace);
        let b = saved("b", vec![there]);
        let lines = written(&Ratios::of([&a, &b]).unwrap(), 0.05);
        for field in [
            "host",
            "device",
            "number of iterations (--quick)",
            "counting of operations",
        ] {
            let note = format!("note: A and B differ in the {field}");
            assert!(lines.contains(&note), "{note} is not in {lines:?}");
        }
        assert!(lines.contains(&"note: --quick is not for comparison".to_owned()));
        let traced = "note: what was measured with TRANSOM_TRACE is not for comparison";
        assert!(lines.contains(&traced.to_owned()), "{lines:?}");
        assert!(lines[1].ends_with(", --quick, TRANSOM_TRACE"), "{lines:?}");
        assert!(
            !lines
                .iter()
                .any(|line| line.contains("differ in the ranks"))
        );
        // If both files agree, there are no differences to report.
        let lines = written(&Ratios::of([&a, &a]).unwrap(), 0.05);
        assert!(!lines.iter().any(|line| line.contains("note")), "{lines:?}");
    }

    #[test]
    fn a_file_of_several_devices_is_compared_device_by_device() {
        let both = |soft, other| {
            let mut there = record("put", 8, other);
            there.run.device = "rxe0".to_owned();
            vec![record("put", 8, soft), there]
        };
        let (a, b) = (saved("a", both(1.0, 8.0)), saved("b", both(2.0, 4.0)));
        let ratios = Ratios::of([&a, &b]).unwrap();
        let rows = ratios.rows.iter().map(|row| (&*row.name, row.ratio()));
        assert_eq!(
            rows.collect::<Vec<_>>(),
            [
                ("allocate.put8_flush [soft, 2]", 2.0),
                ("allocate.put8_flush [rxe0, 2]", 0.5)
            ]
        );
    }

    #[test]
    fn files_without_a_common_line_are_not_compared() {
        let a = saved("a", vec![record("put", 8, 10.0)]);
        let b = saved("b", vec![record("put", 16, 10.0)]);
        assert!(Ratios::of([&a, &b]).is_none());
    }
}
