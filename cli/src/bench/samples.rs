//! How times spread around their mean: iterations are timed in small batches, in addition to the measurement that times
//! all of them together.

use std::hint::black_box;
use std::time::Instant;

use hdrhistogram::Histogram;

use super::record::Percentiles;

/// Seconds of a batch: so long that reading the clock (about 20 ns) does not matter.
const BATCH: f64 = 1e-6;
/// The most samples that a measurement takes at once.
const MOST: u32 = 2_000;
/// The significant digits that a histogram keeps of each sample.
const DIGITS: u8 = 3;

/// One rank's samples of one line.
pub(super) struct Samples {
    /// Iterations of a measurement.
    iterations: u32,
    /// Iterations of a sample.
    batch: u32,
    /// How many samples to take next.
    count: u32,
    /// The samples that were just taken, in nanoseconds. There is room for all, so that taking them allocates nothing.
    taken: Vec<u64>,
    /// Nanoseconds of a batch.
    histogram: Histogram<u64>,
}

impl Samples {
    /// For a measurement that took `seconds` per iteration. Ranks that pass the same numbers make the same number of
    /// iterations.
    pub(super) fn new(iterations: u32, seconds: f64) -> Self {
        let count = iterations.clamp(1, MOST);
        Self {
            iterations,
            // If the time is zero, the quotient is infinite or not a number, and the cast saturates.
            batch: ((BATCH / seconds).ceil() as u32).clamp(1, 10_000),
            count,
            taken: Vec::with_capacity(count as usize),
            histogram: Histogram::new(DIGITS).expect("histograms keep up to five digits"),
        }
    }

    /// Times batches of `body`.
    pub(super) fn take(
        &mut self,
        body: &mut impl FnMut() -> transom::Result<()>,
    ) -> transom::Result<()> {
        let batch = black_box(self.batch);
        for _ in 0..self.count {
            let start = Instant::now();
            rounds(batch, body)?;
            self.taken.push(start.elapsed().as_nanos() as u64);
        }
        self.settle();
        // The first pass takes enough samples for a histogram. The next passes take no longer than the measurement.
        self.count = (self.iterations / batch).clamp(1, MOST);
        Ok(())
    }

    /// Records the time of one iteration that the measurement itself has taken.
    pub(super) fn note(&mut self, seconds: f64) {
        self.batch = 1;
        self.taken.push((seconds * 1e9) as u64);
        self.settle();
    }

    fn settle(&mut self) {
        for nanoseconds in self.taken.drain(..) {
            // The histogram grows as needed, so that this does not fail.
            let _ = self.histogram.record(nanoseconds);
        }
    }

    /// The number of samples, p50, p90, p99, p99.9 and the maximum, in nanoseconds of one operation. `operations` is
    /// the number per iteration. A rank that took no part returns zeros.
    pub(super) fn figures(&self, operations: f64) -> [f64; 6] {
        let share = operations * f64::from(self.batch);
        let at = |quantile| self.histogram.value_at_quantile(quantile) as f64 / share;
        [
            self.histogram.len() as f64,
            at(0.5),
            at(0.9),
            at(0.99),
            at(0.999),
            self.histogram.max() as f64 / share,
        ]
    }

    /// The percentiles of all ranks: of each figure, the maximum.
    pub(super) fn percentiles(&self, operations: f64, greatest: &[f64]) -> Option<Percentiles> {
        let &[samples, p50, p90, p99, p999, max] = greatest else {
            return None;
        };
        (samples > 0.0).then(|| Percentiles {
            unit: "ns".to_owned(),
            operations: (operations * f64::from(self.batch)) as u64,
            samples: samples as u64,
            p50,
            p90,
            p99,
            p999,
            max,
        })
    }
}

/// The loop around a body. It is the only caller of the body, so the body is inlined here even if this function has
/// several callers. The macro of the C program does the same.
#[inline(never)]
pub(super) fn rounds(
    count: u32,
    body: &mut impl FnMut() -> transom::Result<()>,
) -> transom::Result<()> {
    for _ in 0..count {
        body()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_outlast_the_clock_and_slow_iterations_stand_alone() {
        for (iterations, seconds, batch, count) in [
            (20_000, 5e-9, 200, MOST),
            (20_000, 7e-9, 143, MOST),
            (8, 8e-4, 1, 8),
            (2_000, 1e-6, 1, 2_000),
            (200, 0.0, 10_000, 200),
            (0, f64::NAN, 1, 1),
        ] {
            let samples = Samples::new(iterations, seconds);
            assert_eq!((samples.batch, samples.count), (batch, count), "{seconds}");
        }
    }

    #[test]
    fn later_passes_take_no_more_iterations_than_the_measurement() {
        let mut calls = 0;
        let mut body = || {
            calls += 1;
            Ok(())
        };
        let mut samples = Samples::new(1_000, 1e-8);
        samples.take(&mut body).unwrap();
        samples.take(&mut body).unwrap();
        assert_eq!(calls, 1_000 * 100 + 10 * 100);
        assert_eq!(samples.figures(1.0)[0], 1_010.0);
        assert_eq!(samples.taken.capacity(), 1_000);
    }

    #[test]
    fn percentiles_are_of_one_operation() {
        let mut samples = Samples::new(1_000, 1e-7);
        assert_eq!(samples.batch, 10);
        samples
            .taken
            .extend((1..=1_000).map(|number| number * 1_000));
        samples.settle();
        let figures = samples.figures(2.0);
        let expected = [1_000.0, 25_000.0, 45_000.0, 49_500.0, 49_950.0, 50_000.0];
        for (figure, expected) in figures.into_iter().zip(expected) {
            let off = (figure / expected - 1.0).abs();
            assert!(off <= 2e-3, "{figure} and not {expected}");
        }
        let percentiles = samples.percentiles(2.0, &figures).unwrap();
        assert_eq!(percentiles.operations, 20);
        assert_eq!(percentiles.samples, 1_000);
        assert_eq!(percentiles.max, figures[5]);
    }

    #[test]
    fn a_rank_that_took_no_part_counts_for_nothing() {
        let samples = Samples::new(1_000, 1e-7);
        let figures = samples.figures(1.0);
        assert_eq!(figures, [0.0; 6]);
        assert_eq!(samples.percentiles(1.0, &figures), None);
    }

    #[test]
    fn one_sample_is_all_of_its_percentiles() {
        let mut samples = Samples::new(1, 2e-7);
        samples.note(7.81e-7);
        assert_eq!(
            samples.figures(1.0),
            [1.0, 781.0, 781.0, 781.0, 781.0, 781.0]
        );
    }
}
