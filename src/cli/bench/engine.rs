//! Timing one measurement on all ranks, and repeating it.

use std::hint::black_box;
use std::time::Instant;

use transom::{Communicator, Info, Job, Op};

use super::args::Plan;
use super::error::Result;
use super::output::Output;

/// The rank whose memory is accessed.
pub(super) const TARGET: u32 = 0;
/// The rank that accesses it.
pub(super) const ORIGIN: u32 = 1;

/// No measurement is repeated more often than this, however short it is.
const MOST_REPEATS: usize = 100_000;

/// How seconds per iteration become the value that is reported.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scale {
    Nanoseconds,
    /// For one of so many operations per iteration.
    NanosecondsEach(f64),
    Microseconds,
    /// So many operations per iteration, in millions a second.
    MegaOperations(f64),
    /// So many bytes per iteration, in 10^9 a second.
    Gigabytes(f64),
}

impl Scale {
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Nanoseconds | Self::NanosecondsEach(_) => "ns",
            Self::Microseconds => "us",
            Self::MegaOperations(_) => "Mops/s",
            Self::Gigabytes(_) => "GB/s",
        }
    }

    /// A rank that took no part has spent no time, and counts for nothing in the greatest value.
    pub(super) fn apply(self, seconds: f64) -> f64 {
        match self {
            Self::Nanoseconds => seconds * 1e9,
            Self::NanosecondsEach(count) => seconds * 1e9 / count,
            Self::Microseconds => seconds * 1e6,
            _ if seconds == 0.0 => 0.0,
            Self::MegaOperations(count) => count / seconds / 1e6,
            Self::Gigabytes(bytes) => bytes / seconds / 1e9,
        }
    }
}

/// A line of the report before it is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    pub(super) iterations: u32,
    pub(super) scale: Scale,
}

/// What was measured: one value per repetition.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) unit: &'static str,
    pub(super) iterations: u32,
    pub(super) values: Vec<f64>,
    /// Work requests for each iteration, on the rank that posted most; `None` where the device
    /// counts none.
    pub(super) requests: Option<f64>,
}

impl Measured {
    /// The middle one, or the mean of the two in the middle.
    pub(super) fn median(&self) -> f64 {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let half = sorted.len() / 2;
        match sorted.len() {
            0 => 0.0,
            odd if odd % 2 == 1 => sorted[half],
            _ => f64::midpoint(sorted[half - 1], sorted[half]),
        }
    }
}

/// One rank's part in the benchmark.
pub(super) struct Bench<'a> {
    job: &'a Job,
    comm: &'a Communicator,
    plan: &'a Plan,
    /// On rank 0.
    output: Option<Output>,
    window: &'static str,
}

impl<'a> Bench<'a> {
    pub(super) fn new(job: &'a Job, plan: &'a Plan, output: Option<Output>) -> Self {
        Self {
            job,
            comm: job.world(),
            plan,
            output,
            window: "",
        }
    }

    pub(super) fn job(&self) -> &'a Job {
        self.job
    }

    pub(super) fn comm(&self) -> &'a Communicator {
        self.comm
    }

    /// The hints to every window.
    pub(super) fn info(&self) -> &'a Info {
        &self.plan.info
    }

    pub(super) fn is_origin(&self) -> bool {
        self.comm.rank() == ORIGIN
    }

    pub(super) fn barrier(&self) -> Result<()> {
        Ok(self.comm.barrier()?)
    }

    /// Says how many lines there will be.
    pub(super) fn expect(&self, lines: usize) {
        if let Some(output) = &self.output {
            output.expect(lines);
        }
    }

    /// The lines that follow are about this kind of window.
    pub(super) fn of_windows(&mut self, kind: &'static str) {
        self.window = kind;
    }

    /// The lines that follow belong together.
    pub(super) fn group(&mut self, title: &'static str) -> Result<()> {
        match &mut self.output {
            Some(output) => output.group(self.window, title),
            None => Ok(()),
        }
    }

    /// Measures on rank 1; the others wait.
    pub(super) fn origin(
        &mut self,
        line: Line<'_>,
        body: impl FnMut() -> transom::Result<()>,
    ) -> Result<Measured> {
        let takes_part = self.is_origin();
        self.timed(line, takes_part, body)
    }

    /// Measures on every rank at once.
    pub(super) fn every(
        &mut self,
        line: Line<'_>,
        body: impl FnMut() -> transom::Result<()>,
    ) -> Result<Measured> {
        self.timed(line, true, body)
    }

    /// Measures on both ranks of a pair at once; the others wait.
    pub(super) fn pair(
        &mut self,
        line: Line<'_>,
        mut on_origin: impl FnMut() -> transom::Result<()>,
        mut on_target: impl FnMut() -> transom::Result<()>,
    ) -> Result<Measured> {
        let iterations = self.plan.iterations(line.iterations);
        let line = Line { iterations, ..line };
        let me = self.comm.rank();
        self.repeat(line, || match me {
            ORIGIN => Ok(time(iterations, &mut on_origin)?),
            TARGET => Ok(time(iterations, &mut on_target)?),
            _ => Ok(0.0),
        })
    }

    fn timed(
        &mut self,
        line: Line<'_>,
        takes_part: bool,
        mut body: impl FnMut() -> transom::Result<()>,
    ) -> Result<Measured> {
        let iterations = self.plan.iterations(line.iterations);
        let line = Line { iterations, ..line };
        let calls = iterations + warm_up(iterations);
        self.repeat_counted(line, Some(calls), || match takes_part {
            true => Ok(time(iterations, &mut body)?),
            false => Ok(0.0),
        })
    }

    /// Measures by a method of the caller's, which returns the seconds that this rank needed, and
    /// does it once or as often as the plan asks for. Collective.
    pub(super) fn repeat(
        &mut self,
        line: Line<'_>,
        seconds: impl FnMut() -> Result<f64>,
    ) -> Result<Measured> {
        self.repeat_counted(line, None, seconds)
    }

    /// The same; with the number of iterations in each measurement, counts their work requests.
    fn repeat_counted(
        &mut self,
        line: Line<'_>,
        calls: Option<u32>,
        mut seconds: impl FnMut() -> Result<f64>,
    ) -> Result<Measured> {
        if let Some(output) = &mut self.output {
            output.begin(self.window, line.name);
        }
        let mut values = Vec::new();
        let mut requests;
        let begun = Instant::now();
        loop {
            let before = self.posted();
            let value = line.scale.apply(seconds()?);
            let own = match (before, self.posted(), calls) {
                (Some(before), Some(after), Some(calls)) => {
                    Some((after - before) as f64 / f64::from(calls))
                }
                _ => None,
            };
            // The time travels along, so that all ranks agree on whether to go on.
            let spent = begun.elapsed().as_secs_f64();
            let ours = [value, spent, own.unwrap_or(0.0)];
            let greatest = self.comm.allreduce(&ours, Op::Max)?;
            values.push(greatest[0]);
            requests = own.map(|_| greatest[2]);
            if greatest[1] >= self.plan.min_time || values.len() == MOST_REPEATS {
                break;
            }
        }
        let measured = Measured {
            unit: line.scale.unit(),
            iterations: line.iterations,
            values,
            requests,
        };
        self.report(line.name, &measured)?;
        Ok(measured)
    }

    fn posted(&self) -> Option<u64> {
        self.job.device_usage().map(|usage| usage.requests)
    }

    /// Reports what follows from something measured.
    pub(super) fn report(&mut self, name: &str, measured: &Measured) -> Result<()> {
        match &mut self.output {
            Some(output) => output.record(self.window, name, measured),
            None => Ok(()),
        }
    }

    /// A line below the table.
    pub(super) fn note(&self, line: &std::fmt::Arguments<'_>) -> Result<()> {
        match &self.output {
            Some(output) => output.note(line),
            None => Ok(()),
        }
    }

    pub(super) fn finish(&mut self) -> Result<()> {
        match &mut self.output {
            Some(output) => output.finish(),
            None => Ok(()),
        }
    }
}

fn warm_up(iterations: u32) -> u32 {
    iterations / 10 + 1
}

/// Seconds per iteration, after a tenth of them to warm up. Inlined together with its body, as the
/// macro of the C program is.
#[inline(always)]
fn time(iterations: u32, body: &mut impl FnMut() -> transom::Result<()>) -> transom::Result<f64> {
    let iterations = black_box(iterations);
    for _ in 0..warm_up(iterations) {
        body()?;
    }
    let start = Instant::now();
    for _ in 0..iterations {
        body()?;
    }
    Ok(start.elapsed().as_secs_f64() / f64::from(iterations))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        let median = |values: &[f64]| {
            let values = values.to_vec();
            Measured {
                unit: "ns",
                iterations: 1,
                values,
                requests: None,
            }
            .median()
        };
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), 3.0);
    }

    #[test]
    fn scales_convert_and_pass_over_ranks_that_took_no_part() {
        assert_eq!(Scale::Nanoseconds.apply(2e-9), 2.0);
        assert_eq!(Scale::NanosecondsEach(4.0).apply(8e-9), 2.0);
        assert_eq!(Scale::Microseconds.apply(0.0), 0.0);
        assert_eq!(Scale::MegaOperations(64.0).apply(1e-6), 64.0);
        assert_eq!(Scale::Gigabytes(4096.0).apply(0.0), 0.0);
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
