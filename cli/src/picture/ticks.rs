//! Logarithmic axes, and the texts at their marks.

use plotters::coord::combinators::{IntoLogRange as _, LogCoord};

/// Sizes are marked at powers of two.
pub(super) fn sizes(values: impl Iterator<Item = f64>) -> LogCoord<f64> {
    let (low, high) = span(values);
    (low / 1.6..high * 1.6).log_scale().base(2.0).into()
}

/// Values are marked at powers of ten, or at powers of two if they contain few powers of ten. With the margin at either
/// end, even one value has two marks beside it.
pub(super) fn values(values: impl Iterator<Item = f64>) -> LogCoord<f64> {
    let (low, high) = span(values);
    let base = if high / low < 300.0 { 2.0 } else { 10.0 };
    (low / 2.1..high * 2.1).log_scale().base(base).into()
}

/// The range of the values that have a place on a logarithmic axis; that of the value 1 if none has.
fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let values = values.filter(|value| *value > 0.0);
    let (low, high) = values.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), value| {
        (low.min(value), high.max(value))
    });
    if low <= high { (low, high) } else { (1.0, 1.0) }
}

pub(crate) fn bytes(size: f64) -> String {
    let unit = |shift: i32, name: &str| format!("{} {name}", size / 2_f64.powi(shift));
    match size {
        size if size >= 2_f64.powi(30) => unit(30, "GiB"),
        size if size >= 2_f64.powi(20) => unit(20, "MiB"),
        size if size >= 2_f64.powi(10) => unit(10, "KiB"),
        _ => format!("{size} B"),
    }
}

pub(crate) fn time(nanoseconds: f64) -> String {
    let (value, unit) = match nanoseconds {
        ns if ns >= 0.999e9 => (ns / 1e9, "s"),
        ns if ns >= 0.999e6 => (ns / 1e6, "ms"),
        ns if ns >= 0.999e3 => (ns / 1e3, "µs"),
        ns => (ns, "ns"),
    };
    format!("{} {unit}", plain(value))
}

/// The text of a mark, without the rounding errors of binary fractions.
pub(crate) fn plain(value: f64) -> String {
    format!("{}", (value * 1e9).round() / 1e9)
}

#[cfg(test)]
mod tests {
    use plotters::coord::ranged1d::{BoldPoints, Ranged as _};

    use super::*;

    #[test]
    fn axes_are_marked_at_powers() {
        let ticks = |axis: LogCoord<f64>| axis.key_points(BoldPoints(9));
        let texts: Vec<_> = ticks(sizes([8.0, 16_777_216.0].into_iter()));
        let texts: Vec<_> = texts.into_iter().map(bytes).collect();
        let expected = [
            "8 B", "64 B", "512 B", "4 KiB", "32 KiB", "256 KiB", "2 MiB", "16 MiB",
        ];
        assert_eq!(texts, expected);
        let wide = ticks(values([3.0, 2_000_000.0].into_iter()));
        assert_eq!(wide, [10.0, 100.0, 1e3, 1e4, 1e5, 1e6]);
        let narrow = ticks(values([3.0, 70.0].into_iter()));
        assert_eq!(narrow, [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]);
        for tenths in 10..100 {
            let value = 10_f64.powi(tenths % 7) * f64::from(tenths) / 10.0;
            let ticks = ticks(values([value].into_iter()));
            assert!(ticks.len() > 1, "{value}: {ticks:?}");
        }
        assert!(!ticks(sizes([3.0].into_iter())).is_empty());
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
