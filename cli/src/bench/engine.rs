//! Times one measurement on all ranks, and repeats it.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::exit;
use std::time::Instant;

use transom::{Communicator, Info, Job, Op};

use super::args::Plan;
use super::error::Result;
use super::output::Output;
use super::record::{FORMAT, Metric, Percentiles, Record, What, median};
use super::samples::{Samples, rounds};

/// The rank whose memory is accessed.
pub(super) const TARGET: u32 = 0;
/// The rank that accesses it.
pub(super) const ORIGIN: u32 = 1;

/// The least repetitions of a measurement. A comparison ignores differences within their spread.
const LEAST_REPEATS: usize = 5;
/// The most repetitions, however short the measurement is.
const MOST_REPEATS: usize = 100_000;

/// How to convert seconds per iteration to the reported value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scale {
    /// Nanoseconds of one operation, with this many operations per iteration.
    Nanoseconds(f64),
    Microseconds,
    /// Millions of operations per second, with this many operations per iteration on each of this many ranks.
    MegaOperations {
        each: f64,
        ranks: f64,
    },
    /// Units of 10^9 bytes per second, with this many bytes per iteration.
    Gigabytes(f64),
}

impl Scale {
    fn unit(self) -> &'static str {
        match self {
            Self::Nanoseconds(_) => "ns",
            Self::Microseconds => "us",
            Self::MegaOperations { .. } => "Mops/s",
            Self::Gigabytes(_) => "GB/s",
        }
    }

    fn metric(self) -> Metric {
        match self {
            Self::Nanoseconds(_) | Self::Microseconds => Metric::Latency,
            Self::MegaOperations { .. } => Metric::Rate,
            Self::Gigabytes(_) => Metric::Bandwidth,
        }
    }

    /// How many operations an iteration has on one rank.
    fn operations(self) -> f64 {
        match self {
            Self::Nanoseconds(count) | Self::MegaOperations { each: count, .. } => count,
            _ => 1.0,
        }
    }

    /// A rank that took no part has zero seconds, and does not affect the maximum.
    pub(super) fn apply(self, seconds: f64) -> f64 {
        match self {
            Self::Nanoseconds(count) => seconds * 1e9 / count,
            Self::Microseconds => seconds * 1e6,
            _ if seconds == 0.0 => 0.0,
            Self::MegaOperations { each, ranks } => each * ranks / seconds / 1e6,
            Self::Gigabytes(bytes) => bytes / seconds / 1e9,
        }
    }
}

/// A line of the report, before it has values.
#[derive(Clone, Debug)]
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    pub(super) what: What,
    pub(super) iterations: u32,
    pub(super) scale: Scale,
}

/// The measured values, one per repetition.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) iterations: u32,
    pub(super) values: Vec<f64>,
    /// Work requests per iteration, on the rank that posted most; `None` if the device does not count them.
    pub(super) requests: Option<f64>,
    pub(super) percentiles: Option<Percentiles>,
}

/// What a rank has to do in a measurement.
enum Ask<'a> {
    /// Run all iterations, and return how many seconds each took.
    Total,
    Samples(&'a mut Samples),
}

/// One rank's part in the benchmark.
pub(super) struct Bench<'a> {
    pub(super) job: &'a Job,
    pub(super) comm: &'a Communicator,
    pub(super) plan: &'a Plan<'a>,
    /// Only on rank 0.
    output: Option<Output>,
    window: &'static str,
    /// The hints of the windows in the following lines.
    hints: BTreeMap<String, String>,
}

impl<'a> Bench<'a> {
    pub(super) fn new(job: &'a Job, plan: &'a Plan<'a>, output: Option<Output>) -> Self {
        Self {
            job,
            comm: job.world(),
            plan,
            output,
            window: "",
            hints: BTreeMap::new(),
        }
    }

    pub(super) fn is_origin(&self) -> bool {
        self.comm.rank() == ORIGIN
    }

    /// Tells the progress bar the number of lines.
    pub(super) fn expect(&self, lines: usize) {
        if let Some(output) = &self.output {
            output.expect(lines);
        }
    }

    /// Sets the kind of window, and its hints, for the following lines.
    pub(super) fn of_windows(&mut self, kind: &'static str, info: &Info) {
        self.window = kind;
        let hints = info.iter();
        self.hints = hints
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
    }

    /// Begins a group of lines.
    pub(super) fn group(&mut self, title: &'static str) -> Result<()> {
        let window = self.window;
        self.show(|output| output.group(window, title))
    }

    /// If rank 0 cannot show results, it ends the job here: returning would drop windows without freeing them, which
    /// logs warnings.
    fn show(&mut self, act: impl FnOnce(&mut Output) -> Result<()>) -> Result<()> {
        let shown = self.output.as_mut().map_or(Ok(()), act);
        shown.inspect_err(|error| {
            super::abort(self.plan, self.job, error);
            exit(error.exit_code().into());
        })
    }

    /// Collective. Measures on rank 1; the other ranks wait.
    pub(super) fn origin(
        &mut self,
        line: Line<'_>,
        body: impl FnMut() -> transom::Result<()>,
    ) -> Result<Measured> {
        let takes_part = self.is_origin();
        self.measure(line, takes_part, body)
    }

    /// Collective. Measures on the participating ranks at the same time; the others wait.
    pub(super) fn measure(
        &mut self,
        line: Line<'_>,
        takes_part: bool,
        mut body: impl FnMut() -> transom::Result<()>,
    ) -> Result<Measured> {
        let iterations = self.plan.iterations(line.iterations);
        let line = Line { iterations, ..line };
        let calls = iterations + warm_up(iterations);
        self.repeat(line, Some(calls), &mut |ask| match ask {
            _ if !takes_part => Ok(0.0),
            Ask::Total => Ok(time(iterations, &mut body)?),
            Ask::Samples(samples) => {
                samples.take(&mut body)?;
                Ok(0.0)
            }
        })
    }

    /// Collective. Measures with the caller's method, which returns the seconds that this rank needed for one
    /// iteration.
    pub(super) fn one_by_one(
        &mut self,
        line: Line<'_>,
        mut seconds: impl FnMut() -> Result<f64>,
    ) -> Result<Measured> {
        let mut last = 0.0;
        self.repeat(line, None, &mut |ask| {
            match ask {
                Ask::Total => last = seconds()?,
                Ask::Samples(samples) if last > 0.0 => samples.note(last),
                Ask::Samples(_) => {}
            }
            Ok(last)
        })
    }

    /// Collective. Measures five times, or for the time in the plan. Counts the work requests of the iterations that
    /// each measurement makes.
    fn repeat(
        &mut self,
        line: Line<'_>,
        calls: Option<u32>,
        measure: &mut dyn FnMut(Ask<'_>) -> Result<f64>,
    ) -> Result<Measured> {
        if let Some(output) = &mut self.output {
            output.begin(self.window, line.name);
        }
        let operations = line.scale.operations();
        let mut values = Vec::new();
        let mut samples = None;
        let begun = Instant::now();
        let (requests, percentiles) = loop {
            let before = self.posted();
            let seconds = measure(Ask::Total)?;
            let own = match (before, self.posted(), calls) {
                (Some(before), Some(after), Some(calls)) => {
                    Some((after - before) as f64 / f64::from(calls))
                }
                _ => None,
            };
            // The ranks exchange the times, so that they agree on whether to continue, and on samples.
            let spent = begun.elapsed().as_secs_f64();
            let ours = [
                line.scale.apply(seconds),
                spent,
                own.unwrap_or(0.0),
                seconds,
            ];
            let greatest = self.comm.allreduce(&ours, Op::Max)?;
            values.push(greatest[0]);
            let samples = samples.get_or_insert_with(|| Samples::new(line.iterations, greatest[3]));
            measure(Ask::Samples(samples))?;
            let has_lasted = values.len() >= LEAST_REPEATS
                && greatest[1] >= self.plan.args.min_time.unwrap_or(0.0);
            if has_lasted || values.len() == MOST_REPEATS {
                let figures = self.comm.allreduce(&samples.figures(operations), Op::Max)?;
                let percentiles = samples.percentiles(operations, &figures);
                break (own.map(|_| greatest[2]), percentiles);
            }
        };
        let measured = Measured {
            iterations: line.iterations,
            values,
            requests,
            percentiles,
        };
        self.report(&line, &measured)?;
        Ok(measured)
    }

    fn posted(&self) -> Option<u64> {
        self.job.device_usage().map(|usage| usage.requests)
    }

    /// Reports a line that follows from a measurement.
    pub(super) fn report(&mut self, line: &Line<'_>, measured: &Measured) -> Result<()> {
        let what = What {
            window: self.window.to_owned(),
            registered: self.plan.registered(),
            hints: self.hints.clone(),
            metric: line.scale.metric(),
            ..line.what.clone()
        };
        let mut sorted = measured.values.clone();
        sorted.sort_by(f64::total_cmp);
        self.show(|output| {
            let record = Record {
                format: FORMAT,
                name: format!("{}.{}", what.window, line.name),
                what,
                run: output.run.clone(),
                unit: line.scale.unit().to_owned(),
                value: median(&sorted),
                min: sorted[0],
                max: sorted[sorted.len() - 1],
                most_within: Some(most_within(&sorted)),
                iterations: measured.iterations,
                repeats: measured.values.len(),
                percentiles: measured.percentiles.clone(),
            };
            output.record(record, measured.requests)
        })
    }

    /// Prints a line below the table.
    pub(super) fn note(&mut self, line: &str) -> Result<()> {
        self.show(|output| output.note(line))
    }

    pub(super) fn finish(&mut self) -> Result<()> {
        self.show(Output::finish)
    }
}

fn warm_up(iterations: u32) -> u32 {
    iterations / 10 + 1
}

/// Seconds per iteration, measured after a tenth of the iterations as warm-up.
fn time(iterations: u32, body: &mut impl FnMut() -> transom::Result<()>) -> transom::Result<f64> {
    let iterations = black_box(iterations);
    rounds(warm_up(iterations), body)?;
    let start = Instant::now();
    rounds(iterations, body)?;
    Ok(start.elapsed().as_secs_f64() / f64::from(iterations))
}

/// The range without a twentieth of the values at either end. There is at least one value, and they are sorted.
fn most_within(sorted: &[f64]) -> [f64; 2] {
    let cut = sorted.len() / 20;
    [sorted[cut], sorted[sorted.len() - 1 - cut]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_convert_and_pass_over_ranks_that_took_no_part() {
        assert_eq!(Scale::Nanoseconds(1.0).apply(2e-9), 2.0);
        assert_eq!(Scale::Nanoseconds(4.0).apply(8e-9), 2.0);
        assert_eq!(Scale::Microseconds.apply(0.0), 0.0);
        let rate = |each, ranks| Scale::MegaOperations { each, ranks }.apply(1e-6);
        assert_eq!((rate(64.0, 1.0), rate(1.0, 2.0)), (64.0, 2.0));
        assert_eq!(Scale::Gigabytes(4096.0).apply(0.0), 0.0);
    }

    #[test]
    fn most_repetitions_lie_within() {
        let values: Vec<f64> = (1..=40).map(f64::from).collect();
        assert_eq!(most_within(&values), [3.0, 38.0]);
        assert_eq!(most_within(&values[..5]), [1.0, 5.0]);
        assert_eq!(most_within(&[7.0]), [7.0; 2]);
    }

    #[test]
    fn a_tenth_and_one_more_warms_up() {
        let mut calls = 0;
        time(20, &mut || {
            calls += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(calls, 23);
    }
}
