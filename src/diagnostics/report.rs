//! The table of what a rank did, which it writes when it leaves the job.

use std::time::Duration;

use rdma_sys_shim::Via;

use super::statistics::{Statistics, TargetKind, Waits};
use super::traffic::Traffic;

/// The columns: the window, the operation, the target, the path, and the amounts.
const HEAD: [&str; 6] = ["window", "operation", "target", "way", "count", "bytes"];
/// The columns from here on are numbers.
const FIRST_NUMBER: usize = 4;

/// Each line begins with the rank, since lines of several ranks may be interleaved. `served`: the number of requests of
/// other ranks, or batches of them by TCP, that this rank carried out while it waited.
pub(super) fn table(
    rank: u32,
    windows: &[(String, Statistics)],
    elsewhere: Waits,
    served: u64,
    traffic: &Traffic,
) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    for (title, counted) in windows {
        rows.extend(counted.accesses.iter().map(|accesses| {
            [
                title.clone(),
                accesses.operation.to_string(),
                accesses.target.to_string(),
                accesses.via.to_string(),
                accesses.count.to_string(),
                accesses.bytes.to_string(),
            ]
        }));
        rows.extend(plain(title, "epochs", counted.epochs));
        rows.extend(plain(title, "flushes", counted.flushes));
        rows.extend(plain(title, &waits(counted.waits), counted.waits.count));
    }
    rows.extend(plain("none", &waits(elsewhere), elsewhere.count));
    rows.extend(plain("none", "served for others", served));
    rows.extend(sent(traffic));
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, &width))| match column < FIRST_NUMBER {
            true => format!("{cell:width$}"),
            false => format!("{cell:>width$}"),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(&format!("[{rank}] {}\n", line.trim_end()));
    }
    text
}

/// A row with only a count, unless that is 0.
fn plain(title: &str, what: &str, count: u64) -> Option<[String; HEAD.len()]> {
    let cells = [title, what, "", "", &count.to_string(), ""];
    (count > 0).then(|| cells.map(str::to_owned))
}

/// Rows for the flags and messages of collective calls, post and complete.
fn sent(traffic: &Traffic) -> impl Iterator<Item = [String; HEAD.len()]> + use<> {
    let ways = [(Via::Mapped, traffic.mapped), (Via::Device, traffic.device)];
    ways.into_iter().flat_map(|(via, sent)| {
        let row = |what: &str, count: u64, bytes: u64| {
            let cells = [
                "none".to_owned(),
                what.to_owned(),
                TargetKind::Other.to_string(),
                via.to_string(),
                count.to_string(),
                bytes.to_string(),
            ];
            (count > 0).then_some(cells)
        };
        let flags = row("flags", sent.flags, 8 * sent.flags);
        let messages = row("messages", sent.messages, sent.bytes);
        [flags, messages].into_iter().flatten()
    })
}

fn waits(all: Waits) -> String {
    format!("waits, {}", span(all.time))
}

/// Formats in the unit that leaves up to three digits before the point.
fn span(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..1e-3 => format!("{:.1} us", seconds * 1e6),
        1e-3..1.0 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::statistics::{Accesses, OperationKind, TargetKind};

    #[test]
    fn columns_stand_below_each_other_and_lines_say_whose_they_are() {
        let statistics = Statistics {
            accesses: vec![
                Accesses {
                    operation: OperationKind::Put,
                    target: TargetKind::Other,
                    via: Via::Mapped,
                    count: 1000,
                    bytes: 8000,
                },
                Accesses {
                    operation: OperationKind::CompareAndSwap,
                    target: TargetKind::Own,
                    via: Via::Device,
                    count: 2,
                    bytes: 16,
                },
            ],
            epochs: 3,
            flushes: 0,
            waits: Waits {
                count: 4,
                time: Duration::from_micros(1500),
            },
        };
        let elsewhere = Waits {
            count: 1,
            time: Duration::from_nanos(2500),
        };
        let windows = [("1 allocate \"té\"".to_owned(), statistics)];
        let expected = "\
[12] window           operation          target  way     count  bytes
[12] 1 allocate \"té\"  put                other   mapped   1000   8000
[12] 1 allocate \"té\"  compare_and_swap   own     device      2     16
[12] 1 allocate \"té\"  epochs                                 3
[12] 1 allocate \"té\"  waits, 1.5 ms                          4
[12] none             waits, 2.5 us                          1
[12] none             served for others                      7
[12] none             flags              other   mapped     12     96
[12] none             messages           other   device      1     80
";
        let mut traffic = Traffic::default();
        traffic.mapped.flags = 12;
        (traffic.device.messages, traffic.device.bytes) = (1, 80);
        assert_eq!(table(12, &windows, elsewhere, 7, &traffic), expected);
    }

    #[test]
    fn spans_have_their_unit() {
        let texts = [0, 999_900, 1_000_000, 999_900_000, 61_000_000_000];
        let texts = texts.map(|nanoseconds| span(Duration::from_nanos(nanoseconds)));
        assert_eq!(
            texts,
            ["0.0 us", "999.9 us", "1.0 ms", "999.9 ms", "61.0 s"]
        );
    }
}
