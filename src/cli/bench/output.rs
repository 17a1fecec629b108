//! What rank 0 shows: a table, a progress bar, lines of JSON.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use transom::Job;
use transom::launcher::processors;

use super::args::Plan;
use super::engine::Measured;
use super::error::{BenchError, Result};

/// Whether there is something to draw a progress bar on.
pub(super) fn has_terminal() -> bool {
    io::stderr().is_terminal()
}

/// One line of JSON.
#[derive(Serialize)]
struct Record<'a> {
    name: &'a str,
    value: f64,
    unit: &'static str,
    device: &'a str,
    ranks: u32,
    window: &'a str,
    iterations: u32,
    repeats: usize,
    min: f64,
    max: f64,
    quick: bool,
}

pub(super) struct Output {
    device: String,
    ranks: u32,
    quick: bool,
    verbose: bool,
    table: bool,
    json: Option<JsonFile>,
    bar: ProgressBar,
}

impl Output {
    pub(super) fn open(plan: &Plan, job: &Job) -> Result<Self> {
        let json = plan.json.as_ref().map(JsonFile::create).transpose()?;
        let output = Self {
            device: device_spec(job),
            ranks: job.world().size(),
            quick: plan.quick,
            verbose: plan.verbose,
            table: !json.as_ref().is_some_and(JsonFile::is_stdout),
            json,
            bar: match has_terminal() {
                true => bar(),
                false => ProgressBar::hidden(),
            },
        };
        output.show(format_args!(
            "{} ranks, device {}, rank 0 on processors {}{}",
            output.ranks,
            output.device,
            processors().as_deref().unwrap_or("unknown"),
            if plan.quick {
                ", a hundredth of the iterations: not for comparison"
            } else {
                ""
            },
        ))?;
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

    pub(super) fn record(&mut self, window: &str, name: &str, measured: &Measured) -> Result<()> {
        let name = format!("{window}.{name}");
        let value = measured.median();
        let (min, max) = range(&measured.values);
        if let Some(json) = &mut self.json {
            json.write(&Record {
                name: &name,
                value,
                unit: measured.unit,
                device: &self.device,
                ranks: self.ranks,
                window,
                iterations: measured.iterations,
                repeats: measured.values.len(),
                min,
                max,
                quick: self.quick,
            })?;
        }
        let mut line = format!(
            "  {name:<36}{:>10} {:<6}",
            significant(value),
            measured.unit
        );
        if self.verbose {
            let times = format!("{} x {}", measured.values.len(), measured.iterations);
            let between = format!("{} to {}", significant(min), significant(max));
            line = format!("{line}{times:>16}   {between}");
            if let Some(requests) = measured.requests {
                line = format!("{line}, {requests:.2} work requests each");
            }
        }
        self.show(format_args!("{}", line.trim_end()))?;
        self.bar.inc(1);
        Ok(())
    }

    pub(super) fn finish(&mut self) -> Result<()> {
        debug_assert_eq!(Some(self.bar.position()), self.bar.length());
        self.bar.finish_and_clear();
        match &mut self.json {
            Some(json) => json.finish(),
            None => Ok(()),
        }
    }

    pub(super) fn note(&self, line: &std::fmt::Arguments<'_>) -> Result<()> {
        self.show(format_args!("\n{line}"))
    }

    /// Prints a line of the table, with the bar out of its way.
    fn show(&self, line: std::fmt::Arguments<'_>) -> Result<()> {
        if !self.table {
            return Ok(());
        }
        let print = || writeln!(io::stdout(), "{line}");
        self.bar.suspend(print).map_err(BenchError::Output)
    }
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(0).with_style(style)
}

/// The device, with the options that it was asked for with, as `--device` takes it.
fn device_spec(job: &Job) -> String {
    let spec = std::env::var(super::DEVICE).unwrap_or_default();
    spec_of(&spec, job.device_name())
}

/// What names the device `name`, if `spec` was asked for.
fn spec_of(spec: &str, name: &str) -> String {
    let soft = name.split(':').next() == Some("soft");
    match spec.split_once(':') {
        _ if spec.starts_with(name) => spec.to_owned(),
        Some(("" | "auto", options)) if soft => format!("soft:{options}"),
        Some(("verbs", port)) => format!("{name}:{port}"),
        _ => name.to_owned(),
    }
}

fn range(values: &[f64]) -> (f64, f64) {
    values
        .iter()
        .fold((f64::INFINITY, 0.0), |(min, max), &value| {
            (min.min(value), f64::max(max, value))
        })
}

/// Four significant digits, without an exponent.
fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let decimals = 3 - value.abs().log10().floor() as i32;
    format!("{value:.*}", decimals.clamp(0, 9) as usize)
}

/// Where lines of JSON go.
pub(super) struct JsonFile {
    path: PathBuf,
    to: BufWriter<Box<dyn Write>>,
}

impl JsonFile {
    /// Sees whether the file can be written, and leaves what is in it.
    pub(super) fn probe(path: &PathBuf) -> Result<Option<File>> {
        if path == Path::new("-") {
            return Ok(None);
        }
        let open = OpenOptions::new().create(true).append(true).open(path);
        open.map(Some).map_err(|source| failed(path, source))
    }

    fn create(path: &PathBuf) -> Result<Self> {
        let to: Box<dyn Write> = match path == Path::new("-") {
            true => Box::new(io::stdout()),
            false => Box::new(File::create(path).map_err(|source| failed(path, source))?),
        };
        let (path, to) = (path.clone(), BufWriter::new(to));
        Ok(Self { path, to })
    }

    fn is_stdout(&self) -> bool {
        self.path == Path::new("-")
    }

    /// Each line is there as soon as it is known.
    fn write(&mut self, record: &Record<'_>) -> Result<()> {
        serde_json::to_writer(&mut self.to, record)
            .map_err(io::Error::from)
            .and_then(|()| self.to.write_all(b"\n"))
            .and_then(|()| self.to.flush())
            .map_err(|source| failed(&self.path, source))
    }

    fn finish(&mut self) -> Result<()> {
        self.to.flush().map_err(|source| failed(&self.path, source))
    }
}

fn failed(path: &Path, source: io::Error) -> BenchError {
    if path == Path::new("-") {
        return BenchError::Output(source);
    }
    let path = path.to_owned();
    BenchError::Json { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_are_enough() {
        for (value, text) in [
            (13.2345, "13.23"),
            (0.01234, "0.01234"),
            (123_456.0, "123456"),
            (9.999_96, "10.000"),
            (0.0, "0"),
        ] {
            assert_eq!(significant(value), text);
        }
    }

    #[test]
    fn a_device_is_named_as_it_can_be_asked_for() {
        for (spec, name, expected) in [
            ("", "soft", "soft"),
            ("auto:map=off", "soft", "soft:map=off"),
            ("soft:cma=off", "soft", "soft:cma=off"),
            (
                "auto:adversarial,seed=7",
                "soft:adversarial",
                "soft:adversarial,seed=7",
            ),
            ("soft:adversarial", "soft:adversarial", "soft:adversarial"),
            ("verbs:1:3", "rxe0", "rxe0:1:3"),
            ("rxe0:1", "rxe0", "rxe0:1"),
            // Options of soft are none of the device that ranks on several hosts take.
            ("auto:map=off", "rxe0", "rxe0"),
        ] {
            assert_eq!(spec_of(spec, name), expected, "{spec}");
        }
    }

    #[test]
    fn the_range_of_values_is_found() {
        assert_eq!(range(&[3.0, 1.0, 2.0]), (1.0, 3.0));
    }
}
