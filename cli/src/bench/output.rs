//! The output of rank 0: a table, a progress bar, lines of JSON.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::slice;

use indicatif::{ProgressBar, ProgressStyle};
use transom::Job;
use transom::devices::REGISTRY;
use transom::launcher::processors;

use super::args::Plan;
use super::error::{BenchError, Result};
use super::record::{Diagnostics, Metric, Percentiles, Record, Run, significant};
use super::results::PlotFile;
use crate::screen::json_lines;

/// Whether there is a terminal for a progress bar.
pub(super) fn has_terminal() -> bool {
    io::stderr().is_terminal()
}

pub(super) struct Output {
    pub(super) run: Run,
    verbose: bool,
    table: bool,
    json: Option<JsonFile>,
    plot: Option<PlotFile>,
    /// The records for the picture.
    records: Vec<Record>,
    bar: ProgressBar,
}

impl Output {
    pub(super) fn open(plan: &Plan<'_>, job: &Job) -> Result<Self> {
        let plot = plan.args.plot.as_deref().map(PlotFile::probe).transpose()?;
        let json = plan.args.json.as_ref().map(JsonFile::create).transpose()?;
        let watched = Diagnostics::here();
        let output = Self {
            run: Run::begin(
                device_spec(job),
                job.world().size(),
                plan.args.quick,
                watched,
            ),
            verbose: plan.args.verbose,
            table: !json.as_ref().is_some_and(JsonFile::is_stdout),
            json,
            plot,
            records: Vec::new(),
            bar: match has_terminal() {
                true => bar(),
                false => ProgressBar::hidden(),
            },
        };
        output.show(format_args!(
            "{} ranks, device {}, rank 0 on processors {}{}{}",
            output.run.ranks,
            output.run.device,
            processors().as_deref().unwrap_or("unknown"),
            if plan.args.quick {
                ", a hundredth of the iterations: not for comparison"
            } else {
                ""
            },
            watched.map_or(String::new(), |by| format!(
                ", slowed down by {}: not for comparison",
                by.variable()
            )),
        ))?;
        output.show(format_args!("{}", head(plan.args.verbose)))?;
        Ok(output)
    }

    pub(super) fn expect(&self, lines: usize) {
        self.bar.set_length(lines as u64);
    }

    pub(super) fn group(&mut self, window: &str, title: &str) -> Result<()> {
        self.show(format_args!("\n{window}: {title}"))
    }

    pub(super) fn begin(&mut self, window: &str, name: &str) {
        self.bar.set_message(format!("{window}.{name}"));
    }

    /// `requests`: how many work requests each iteration took.
    pub(super) fn record(&mut self, record: Record, requests: Option<f64>) -> Result<()> {
        if let Some(json) = &mut self.json {
            json.write(&record)?;
        }
        let mut text = row(&record, self.verbose);
        if let Some(requests) = requests.filter(|_| self.verbose) {
            text = format!("{text}, {requests:.2} work requests each");
        }
        self.show(format_args!("{}", text.trim_end()))?;
        if self.plot.is_some() {
            self.records.push(record);
        }
        self.bar.inc(1);
        Ok(())
    }

    pub(super) fn finish(&mut self) -> Result<()> {
        debug_assert_eq!(Some(self.bar.position()), self.bar.length());
        self.bar.finish_and_clear();
        match &self.plot {
            Some(plot) => Ok(plot.draw(&[(String::new(), &self.records)])?),
            None => Ok(()),
        }
    }

    pub(super) fn note(&self, line: &str) -> Result<()> {
        self.show(format_args!("\n{line}"))
    }

    /// Prints a line of the table, with the bar hidden meanwhile.
    fn show(&self, line: std::fmt::Arguments<'_>) -> Result<()> {
        if !self.table {
            return Ok(());
        }
        let print = || writeln!(io::stdout(), "{line}");
        self.bar.suspend(print).map_err(BenchError::Output)
    }
}

/// The bar is drawn only between measurements: a thread that updates it would disturb them.
fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {eta} left, {msg}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// The head of the table.
fn head(verbose: bool) -> String {
    let mut line = format!("  {:<34}{:>10} {:<6}", "", "mean", "");
    for (_, name) in columns(verbose) {
        let _ = write!(line, "{name:>9}");
    }
    line
}

type Column = (fn(&Percentiles) -> f64, &'static str);

fn columns(verbose: bool) -> Vec<Column> {
    let all: [Column; 5] = [
        (|of| of.p50, "p50"),
        (|of| of.p90, "p90"),
        (|of| of.p99, "p99"),
        (|of| of.p999, "p99.9"),
        (|of| of.max, "max"),
    ];
    let shown = |&(_, name): &Column| verbose || !matches!(name, "p90" | "p99.9");
    all.into_iter().filter(shown).collect()
}

/// A line of the table. Percentiles are times, so only lines with times have them.
fn row(record: &Record, verbose: bool) -> String {
    let Record { name, unit, .. } = record;
    let mut text = format!("  {name:<34}{:>10} {unit:<6}", significant(record.value));
    let percentiles = record.percentiles.as_ref();
    let percentiles = percentiles.filter(|_| record.what.metric == Metric::Latency);
    for (of, _) in columns(verbose) {
        let value = percentiles.map(|all| match &**unit {
            "us" => of(all) / 1e3,
            _ => of(all),
        });
        let _ = write!(text, "{:>9}", value.map_or_else(String::new, significant));
    }
    if verbose {
        let times = format!("{} x {}", record.repeats, record.iterations);
        let between = format!("{} to {}", significant(record.min), significant(record.max));
        let _ = write!(text, "{times:>16}   {between}");
    }
    text
}

/// The device with the options that were given for it, in the form that `--device` accepts.
fn device_spec(job: &Job) -> String {
    let spec = rdma_sys_shim::variable(super::DEVICE).unwrap_or_default();
    REGISTRY.spec_of(&spec, job.device_name())
}

/// The file, or standard output, for lines of JSON.
pub(super) struct JsonFile {
    path: PathBuf,
    to: Box<dyn Write>,
}

impl JsonFile {
    /// Checks that the file can be written, without changing its content.
    pub(super) fn probe(path: &PathBuf) -> Result<Option<File>> {
        if path == Path::new("-") {
            return Ok(None);
        }
        let open = OpenOptions::new().create(true).append(true).open(path);
        open.map(Some)
            .map_err(|source| BenchError::file(path, source))
    }

    fn create(path: &PathBuf) -> Result<Self> {
        let to: Box<dyn Write> = match path == Path::new("-") {
            true => Box::new(io::stdout()),
            false => Box::new(File::create(path).map_err(|source| BenchError::file(path, source))?),
        };
        let path = path.clone();
        Ok(Self { path, to })
    }

    fn is_stdout(&self) -> bool {
        self.path == Path::new("-")
    }

    /// Each line is written as soon as it is known.
    fn write(&mut self, record: &Record) -> Result<()> {
        let line = json_lines(slice::from_ref(record));
        let written = self.to.write_all(line.as_bytes());
        written.map_err(|source| BenchError::file(&self.path, source))
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::record;
    use super::*;

    #[test]
    fn percentiles_stand_beside_times_in_their_unit() {
        let mut line = record("put", 8, 6.5);
        line.percentiles = Some(Percentiles {
            unit: "ns".to_owned(),
            operations: 150,
            samples: 2_000,
            p50: 6_400.0,
            p90: 6_600.0,
            p99: 7_000.0,
            p999: 9_500.0,
            max: 60_000.0,
        });
        line.unit = "us".to_owned();
        let cells = |text: &str| {
            let cells = text.split_whitespace().map(str::to_owned);
            cells.collect::<Vec<_>>().join(" ")
        };
        let short = "allocate.put8_flush 6.500 us 6.400 7.000 60.00";
        assert_eq!(cells(&row(&line, false)), short);
        assert_eq!(
            cells(&row(&line, true)),
            "allocate.put8_flush 6.500 us 6.400 6.600 7.000 9.500 60.00 1 x 20000 6.500 to 6.500"
        );
        line.what.metric = Metric::Bandwidth;
        assert_eq!(cells(&row(&line, false)), "allocate.put8_flush 6.500 us");
        assert_eq!(cells(&head(false)), "mean p50 p99 max");
        assert_eq!(head(false).find("p50"), Some(59));
    }
}
