//! The options of `transom bench`, which are checked before anything is measured.

use std::fs;
use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::TypedValueParser as _;
use transom::Info;
use transom::launcher::MAX_RANKS;
use transom::lower::check_hints;

use super::error::{BenchError, Result};
use crate::picture::parse_picture;
use crate::{BindToArg, suggested};

/// Measure one-sided operations between the ranks of a job on this machine
///
/// Starts its own ranks, or takes part in a job that was started by `transom run`, `mpiexec.hydra`,
/// `mpirun` or `srun`. Without --op, --sync and --sizes, the standard suite runs.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many ranks to start; -np N does as well [default: 2]
    #[arg(short = 'n', long = "ranks", alias = "np", value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_RANKS)), value_hint = OTHER)]
    pub(super) ranks: Option<u32>,

    /// Which device the ranks use: soft, tcp[:INTERFACE], verbs, or NAME[:PORT[:GID]], as in rxe0:1 (TRANSOM_DEVICE)
    #[arg(long, value_name = "D", value_parser = suggested::device())]
    #[arg(hide_possible_values = true)]
    pub(super) device: Option<String>,

    /// How the ranks that this command starts are bound to processors [default: auto]. Benchmarks that run
    /// side by side would be bound to the same ones: say none
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(super) bind_to: Option<BindToArg>,

    /// This process is a rank that this command has started
    #[arg(long, hide = true)]
    pub(super) started: bool,

    /// Windows over memory that the library allocates, over the caller's memory, or both in turn
    #[arg(long, value_enum, default_value_t = Windows::Both)]
    pub(super) window: Windows,

    /// Operations to measure instead of the standard suite [default: put,get]
    #[arg(long, value_enum, value_delimiter = ',')]
    op: Vec<Operation>,

    /// How each operation is completed [default: flush]
    #[arg(long, value_enum, value_delimiter = ',')]
    sync: Vec<Sync>,

    /// Bytes of each operation, with K, M or G for powers of 1024 [default: 8,4K,64K,1M, and 8
    /// for fetch_and_op and compare_and_swap]
    #[arg(long, value_delimiter = ',', value_parser = parse_size, value_hint = OTHER)]
    sizes: Vec<usize>,

    /// Operations before each synchronisation [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    #[arg(value_hint = OTHER)]
    burst: Option<u32>,

    /// Hint to all windows; may be given more than once
    #[arg(long, value_name = "KEY=VALUE", hide_possible_values = true)]
    #[arg(value_parser = suggested::hint().try_map(|text: String| parse_hint(&text)))]
    hint: Vec<(String, String)>,

    /// Origin buffers in registered memory, from and to which a device transfers without a copy
    #[arg(long)]
    registered: bool,

    /// Repeat each measurement until it took this many seconds, and five times at least
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    #[arg(allow_negative_numbers = true, value_hint = OTHER)]
    pub(super) min_time: Option<f64>,

    /// Write one JSON object per line to FILE (`-`: to standard output, in place of the table)
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(super) json: Option<PathBuf>,

    /// Draw latency and bandwidth over size, as an SVG picture
    #[arg(long, value_name = "FILE.svg", value_parser = parse_picture, value_hint = clap::ValueHint::FilePath)]
    pub(super) plot: Option<PathBuf>,

    /// Plot these results of earlier runs, which --json has saved, instead of measuring
    #[arg(long, value_name = "FILE.json", num_args = 1.., requires = "plot")]
    #[arg(action = clap::ArgAction::Set, conflicts_with_all = MEASURING)]
    #[arg(value_hint = clap::ValueHint::FilePath)]
    pub(super) from: Vec<PathBuf>,

    /// Compare two files of results instead of measuring: exits with 1 if a line of B is worse than A's
    #[arg(long, value_names = ["A.json", "B.json"], num_args = 2)]
    #[arg(action = clap::ArgAction::Set, conflicts_with_all = MEASURING, conflicts_with = "from")]
    #[arg(value_hint = clap::ValueHint::FilePath)]
    pub(super) compare: Vec<PathBuf>,

    /// How much worse a line may be, in percent [default: 5]; what is within the spread of the
    /// repetitions is not worse
    #[arg(long, value_name = "PERCENT", requires = "compare", value_parser = parse_percent)]
    #[arg(allow_negative_numbers = true, conflicts_with_all = MEASURING, value_hint = OTHER)]
    pub(super) tolerance: Option<f64>,

    /// A hundredth of the iterations: to see that all works, not for comparison
    #[arg(long)]
    pub(super) quick: bool,

    /// Also print iterations, repetitions, the range of their results, what each rank has sent in collective
    /// calls, what an RDMA device holds for it (registered bytes, queue pairs, queue entries), and by which
    /// addresses of TCP it is reached and has reached others
    #[arg(long, short)]
    pub(super) verbose: bool,
}

/// Neither a file nor another value that a shell could complete.
const OTHER: clap::ValueHint = clap::ValueHint::Other;

/// Options for a measurement, which have no meaning without one.
const MEASURING: [&str; 14] = [
    "ranks",
    "device",
    "bind_to",
    "window",
    "op",
    "sync",
    "sizes",
    "burst",
    "hint",
    "registered",
    "min_time",
    "json",
    "quick",
    "verbose",
];

/// Bytes of each rank's window and buffer.
pub(super) const SPAN: usize = 16 << 20;

/// Columns of the matrix that strided puts go to.
pub(super) const COLUMNS: usize = 1024;

/// Which windows the operations work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Windows {
    Allocate,
    Create,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum Operation {
    Put,
    Get,
    /// Of elements of 8 bytes, to a column of a matrix that has 1,024 columns
    PutStrided,
    /// Sum of 64-bit integers
    Accumulate,
    /// Sum of doubles
    AccumulateF64,
    /// Sum of one integer of 4 or 8 bytes
    FetchAndOp,
    /// One integer of 4 or 8 bytes
    CompareAndSwap,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum Sync {
    /// Operation and flush, under lock_all
    Flush,
    /// Exclusive lock, operation, unlock
    Lock,
    /// lock_all, operation, unlock_all
    LockAll,
    /// Operation and fence, which every rank takes part in
    Fence,
    /// Shared lock, operation, unlock
    LockShared,
}

/// The measurements that the user chose.
pub(super) struct Selected {
    pub(super) lines: Vec<(Operation, usize)>,
    pub(super) syncs: Vec<Sync>,
    /// Operations before each synchronisation.
    pub(super) burst: u32,
    /// Whether origin buffers are in registered memory.
    pub(super) registered: bool,
    /// Bytes of each rank's window and buffer.
    pub(super) span: usize,
}

/// What to measure, and how.
pub(super) struct Plan<'a> {
    pub(super) args: &'a Args,
    /// The hints for all windows, without unknown ones.
    pub(super) info: Info,
    pub(super) unknown_hints: Vec<String>,
    /// `None`: the standard suite.
    pub(super) selected: Option<Selected>,
}

impl Args {
    /// Whether the command measures anything.
    pub(crate) fn measures(&self) -> bool {
        self.compare.is_empty() && self.from.is_empty()
    }

    pub(super) fn plan(&self) -> Result<Plan<'_>> {
        let standard = self.op.is_empty()
            && self.sync.is_empty()
            && self.sizes.is_empty()
            && self.burst.is_none()
            && !self.registered;
        if let Some(path) = self.plot.as_ref().filter(|_| self.plot == self.json) {
            return Err(BenchError::SameFile { path: path.clone() });
        }
        let (known, unknown): (Vec<_>, Vec<_>) = self
            .hint
            .iter()
            .partition(|(key, _)| Info::KEYS.contains(&&**key));
        Ok(Plan {
            args: self,
            info: known
                .into_iter()
                .fold(Info::new(), |info, (key, value)| info.with(key, value)),
            unknown_hints: unknown.into_iter().map(|(key, _)| key.clone()).collect(),
            selected: (!standard).then(|| self.selected()).transpose()?,
        })
    }

    fn selected(&self) -> Result<Selected> {
        let operations = non_empty(&self.op, &[Operation::Put, Operation::Get]);
        let mut lines = Vec::new();
        for &operation in operations {
            for &size in non_empty(&self.sizes, operation.usual_sizes()) {
                operation.check(size)?;
                lines.push((operation, size));
            }
        }
        let reaches = lines.iter().map(|&(operation, size)| operation.reach(size));
        let longest = reaches.max().unwrap_or(0);
        Ok(Selected {
            syncs: non_empty(&self.sync, &[Sync::Flush]).to_vec(),
            burst: self.burst.unwrap_or(1),
            registered: self.registered,
            span: longest.max(SPAN),
            lines,
        })
    }
}

fn non_empty<'a, T>(given: &'a [T], otherwise: &'a [T]) -> &'a [T] {
    if given.is_empty() { otherwise } else { given }
}

/// The name in options and records.
pub(super) fn name(of: impl ValueEnum) -> String {
    let value = of.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

impl Operation {
    /// The name in lines of the table.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::PutStrided => "put_strided",
            Self::Accumulate => "acc_i64_",
            Self::AccumulateF64 => "acc_f64_",
            Self::FetchAndOp => "fetch_add",
            Self::CompareAndSwap => "cas",
        }
    }

    /// The number of bytes of the target's memory over which `size` bytes are spread.
    pub(super) fn reach(self, size: usize) -> usize {
        match self {
            Self::PutStrided => size.saturating_mul(COLUMNS),
            _ => size,
        }
    }

    fn usual_sizes(self) -> &'static [usize] {
        match self {
            Self::Put | Self::Get | Self::Accumulate | Self::AccumulateF64 => {
                &[8, 4 << 10, 64 << 10, 1 << 20]
            }
            Self::PutStrided => &[8 << 10],
            Self::FetchAndOp | Self::CompareAndSwap => &[8],
        }
    }

    fn check(self, size: usize) -> Result<()> {
        let (fits, legal) = match self {
            Self::Put | Self::Get => return Ok(()),
            Self::PutStrided | Self::Accumulate | Self::AccumulateF64 => {
                (size.is_multiple_of(8), "multiples of 8")
            }
            Self::FetchAndOp | Self::CompareAndSwap => (matches!(size, 4 | 8), "4 and 8"),
        };
        let operation = name(self);
        match fits {
            true => Ok(()),
            false => Err(BenchError::Size {
                operation,
                size,
                legal,
            }),
        }
    }
}

impl Plan<'_> {
    /// Whether origin buffers are in registered memory.
    pub(super) fn registered(&self) -> bool {
        self.selected.as_ref().is_some_and(|it| it.registered)
    }

    /// How many iterations a measurement makes where the standard suite makes `standard`.
    pub(super) fn iterations(&self, standard: u32) -> u32 {
        match self.args.quick {
            true => (standard / 100).max(1),
            false => standard,
        }
    }

    /// Refuses values of hints that no window accepts.
    pub(super) fn check_hints(&self) -> Result<()> {
        check_hints(&self.info).map_err(BenchError::Hint)
    }

    /// Refuses a measurement for which the system does not have enough memory.
    pub(super) fn check_memory(&self, ranks: u32) -> Result<()> {
        let (Some(selected), Some(available)) = (&self.selected, available_memory()) else {
            return Ok(());
        };
        // Every rank has the caller's memory and an allocated window; the origin also has a buffer.
        let needed = (selected.span as u128) * (2 * u128::from(ranks) + 1);
        if needed > u128::from(available) {
            let size = selected.span;
            return Err(BenchError::Memory {
                size,
                ranks,
                needed,
                available,
            });
        }
        Ok(())
    }
}

/// The number of bytes that this machine can still allocate.
fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The parsed value of an option, or the values that it may have.
type Parsed<T> = std::result::Result<T, &'static str>;

fn parse_size(text: &str) -> Parsed<usize> {
    const TOO_LARGE: &str = "more than the 2^63 − 1 bytes that an object can have";
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("a size is a whole number of bytes, with K, M or G for powers of 1024");
    }
    let number: u128 = digits.parse().map_err(|_| TOO_LARGE)?;
    let bytes = number.checked_mul(1 << shift).ok_or(TOO_LARGE)?;
    match usize::try_from(bytes) {
        Ok(0) => Err("sizes start at 1"),
        Ok(size) if size <= isize::MAX as usize => Ok(size),
        _ => Err(TOO_LARGE),
    }
}

fn parse_seconds(text: &str) -> Parsed<f64> {
    parse_up_to(text, 3600.0).ok_or("legal: 0 to 3600 seconds")
}

fn parse_percent(text: &str) -> Parsed<f64> {
    parse_up_to(text, 1000.0).ok_or("legal: 0 to 1000 percent")
}

fn parse_up_to(text: &str, most: f64) -> Option<f64> {
    let number = text.parse().ok()?;
    // A NaN is in no range, and so is refused.
    (0.0..=most).contains(&number).then_some(number)
}

fn parse_hint(text: &str) -> Parsed<(String, String)> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a hint is KEY=VALUE"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes_and_limits() {
        for (text, bytes) in [("8", 8), ("4K", 4096), ("64k", 65_536), ("1M", 1 << 20)] {
            assert_eq!(parse_size(text).unwrap(), bytes);
        }
        for text in ["", "K", "-8", "+8", "1.5K", "8 ", "0x10", "4KiB", "é"] {
            let refused = parse_size(text).unwrap_err();
            assert!(refused.contains("whole number"), "{text:?}");
        }
        assert_eq!(parse_size("0K"), Err("sizes start at 1"));
        for text in ["99999999999G", "9223372036854775808", &"9".repeat(60)] {
            let refused = parse_size(text).unwrap_err();
            assert!(refused.contains("2^63"), "{text}");
        }
    }

    #[test]
    fn percents_are_what_they_are_called() {
        assert_eq!(parse_percent("2.5").unwrap(), 2.5);
        for text in ["-1", "NaN", "inf", "5%", ""] {
            assert!(parse_percent(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn seconds_are_finite_and_sensible() {
        assert_eq!(parse_seconds("0.25").unwrap(), 0.25);
        for text in ["-1", "-0.001", "NaN", "inf", "1e9", "1s", ""] {
            assert!(parse_seconds(text).is_err(), "{text:?}");
        }
    }
}
