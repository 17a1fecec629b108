//! Where logarithmic axes are marked, and what stands there.

use std::ops::Range;

/// Marks with a text, and those between without.
#[derive(Debug, PartialEq)]
pub(super) struct Ticks {
    pub(super) range: Range<f64>,
    pub(super) bold: Vec<f64>,
    pub(super) light: Vec<f64>,
}

/// What values span, with room at the ends; one alone stands in the middle.
fn span(values: impl Iterator<Item = f64>, room: f64) -> Range<f64> {
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    for value in values {
        (low, high) = (low.min(value), high.max(value));
    }
    low / room..high * room
}

/// Sizes: powers of two, no more than fit.
pub(super) fn sizes(values: impl Iterator<Item = f64>) -> Ticks {
    const MOST: i32 = 9;
    let range = span(values, 1.6);
    let (first, last) = (
        range.start.log2().ceil() as i32,
        range.end.log2().floor() as i32,
    );
    let step = ((last - first) / MOST + 1).max(1);
    // From a mark that is a power of the step, so that 1 KiB and 1 MiB are among them where that can be.
    let bold = (first..=last).filter(|power| power.rem_euclid(step) == 0);
    let bold: Vec<_> = bold.map(|power| 2_f64.powi(power)).collect();
    let light = (first..=last).map(|power| 2_f64.powi(power)).collect();
    Ticks { range, bold, light }
}

/// Values: powers of ten, and what is between them where there are few.
pub(super) fn decades(values: impl Iterator<Item = f64>) -> Ticks {
    let range = span(values, 1.5);
    let (first, last) = (
        range.start.log10().floor() as i32,
        range.end.log10().ceil() as i32,
    );
    let ticks = |digits: &[f64]| -> Vec<f64> {
        let powers = (first..=last).map(|power| 10_f64.powi(power));
        let all = powers.flat_map(|power| digits.iter().map(move |digit| digit * power));
        all.filter(|mark| range.contains(mark)).collect()
    };
    let few = (range.end / range.start).log10() < 2.5;
    let digits = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
    let tenths: Vec<f64> = (10..100).map(|tenths| f64::from(tenths) / 10.0).collect();
    let all: [&[f64]; 4] = [&[1.0], &[1.0, 2.0, 5.0], &digits, &tenths];
    // A single text says nothing of what is beside it.
    let mut bold = all[usize::from(few)..].iter().map(|digits| ticks(digits));
    let bold = bold.find(|ticks| ticks.len() > 1).unwrap_or_default();
    let light = ticks(&digits);
    Ticks { range, bold, light }
}

pub(super) fn bytes(size: f64) -> String {
    let unit = |shift: i32, name: &str| format!("{} {name}", size / 2_f64.powi(shift));
    match size {
        size if size >= 2_f64.powi(30) => unit(30, "GiB"),
        size if size >= 2_f64.powi(20) => unit(20, "MiB"),
        size if size >= 2_f64.powi(10) => unit(10, "KiB"),
        _ => format!("{size} B"),
    }
}

pub(super) fn time(nanoseconds: f64) -> String {
    let (value, unit) = match nanoseconds {
        ns if ns >= 0.999e9 => (ns / 1e9, "s"),
        ns if ns >= 0.999e6 => (ns / 1e6, "ms"),
        ns if ns >= 0.999e3 => (ns / 1e3, "µs"),
        ns => (ns, "ns"),
    };
    format!("{} {unit}", plain(value))
}

/// A mark, without what is left of binary fractions.
pub(super) fn plain(value: f64) -> String {
    format!("{}", (value * 1e9).round() / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_marked_at_powers_of_two() {
        let ticks = sizes([8.0, 16_777_216.0].into_iter());
        let texts: Vec<_> = ticks.bold.iter().map(|&size| bytes(size)).collect();
        let expected = [
            "8 B", "64 B", "512 B", "4 KiB", "32 KiB", "256 KiB", "2 MiB", "16 MiB",
        ];
        assert_eq!(texts, expected);
        assert!(ticks.range.start < 8.0 && ticks.range.end > 16_777_216.0);
    }

    #[test]
    fn one_value_stands_between_ticks() {
        for ticks in [sizes([8.0].into_iter()), decades([8.0].into_iter())] {
            assert!(ticks.range.contains(&8.0) && !ticks.range.is_empty());
            assert!(!ticks.bold.is_empty(), "{ticks:?}");
        }
        // With texts on two ticks at least, to read it by.
        for tenths in 10..100 {
            let value = 10_f64.powi(tenths % 7) * f64::from(tenths) / 10.0;
            let ticks = decades([value].into_iter());
            assert!(ticks.bold.len() > 1, "{value}: {ticks:?}");
        }
        assert_eq!(decades([8.0].into_iter()).bold, [6.0, 7.0, 8.0, 9.0, 10.0]);
        // As does a value that no power of two is near to.
        assert!(!sizes([3.0].into_iter()).bold.is_empty());
    }

    #[test]
    fn values_are_marked_at_powers_of_ten_and_between_if_they_are_few() {
        let wide = decades([3.0, 2_000_000.0].into_iter());
        assert_eq!(wide.bold, [10.0, 100.0, 1e3, 1e4, 1e5, 1e6]);
        let narrow = decades([3.0, 70.0].into_iter());
        assert_eq!(narrow.bold, [2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
    }

    #[test]
    fn ticks_have_units() {
        let texts = [1.0, 20.0, 1e3, 5e5, 1e6, 1e9].map(time);
        assert_eq!(texts, ["1 ns", "20 ns", "1 µs", "500 µs", "1 ms", "1 s"]);
        assert_eq!(plain(10_f64.powi(-3) * 2.0), "0.002");
        assert_eq!(bytes(4096.0), "4 KiB");
        assert_eq!(bytes(2_f64.powi(33)), "8 GiB");
    }
}
