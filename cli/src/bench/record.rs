//! The lines of the report as records of fields: --json writes them, and --compare and --plot read them.

use std::collections::BTreeMap;
use std::{env, fs};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

/// Increases with every change after which a program that reads the records would misunderstand them.
pub(super) const FORMAT: u64 = 1;

/// A line of the report, and of a JSON file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) format: u64,
    /// The name in the table. Programs should identify a line by the fields.
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) what: What,
    #[serde(flatten)]
    pub(super) run: Run,
    pub(super) unit: String,
    /// The median of the repetitions, each of which is a mean over its iterations.
    pub(super) value: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    /// The range of the repetitions without a twentieth at either end. Absent from records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) most_within: Option<[f64; 2]>,
    pub(super) iterations: u32,
    pub(super) repeats: usize,
    /// Absent if the line was computed from another line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) percentiles: Option<Percentiles>,
}

/// What was measured. If these are equal in two runs, the lines are the same line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct What {
    /// Who owns the windows' memory: `allocate` or `create`.
    pub(super) window: String,
    pub(super) op: String,
    /// Bytes of one operation; 0 if it transfers nothing.
    pub(super) size: u64,
    pub(super) sync: String,
    /// Operations before each synchronisation.
    pub(super) burst: u32,
    /// The special case, if this is one: `busy_target`, `contended`.
    pub(super) case: Option<String>,
    /// Whether origin buffers are in registered memory.
    pub(super) registered: bool,
    /// The hints of the windows.
    pub(super) hints: BTreeMap<String, String>,
    pub(super) metric: Metric,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Metric {
    Latency,
    Bandwidth,
    Rate,
}

impl What {
    /// One operation, and its synchronisation. Where it is measured, the other fields are set.
    pub(super) fn new(op: impl Into<String>, size: usize, sync: impl Into<String>) -> Self {
        Self {
            window: String::new(),
            op: op.into(),
            size: size as u64,
            sync: sync.into(),
            burst: 1,
            case: None,
            registered: false,
            hints: BTreeMap::new(),
            metric: Metric::Latency,
        }
    }

    /// Sets the special case.
    pub(super) fn case(self, case: &str) -> Self {
        let case = Some(case.to_owned());
        Self { case, ..self }
    }
}

/// Times of one operation. A sample is a batch of `operations` that were timed together, so a delay of one of them
/// appears divided by the size of the batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Percentiles {
    pub(super) unit: String,
    pub(super) operations: u64,
    pub(super) samples: u64,
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
    pub(super) max: f64,
}

impl Metric {
    fn units(self) -> &'static [&'static str] {
        match self {
            Self::Latency => &["ns", "us"],
            Self::Bandwidth => &["GB/s"],
            Self::Rate => &["Mops/s"],
        }
    }

    pub(super) fn less_is_better(self) -> bool {
        self == Self::Latency
    }
}

/// Where, when and with which version the run was made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) device: String,
    pub(super) ranks: u32,
    pub(super) host: String,
    /// The version of the command.
    pub(super) transom: String,
    /// When the run began: UTC, as in RFC 3339.
    pub(super) date: String,
    /// Whether this run made a hundredth of the iterations, and so is not for comparison.
    pub(super) quick: bool,
    /// The library's diagnostics, which slow operations down. Earlier versions did not record them.
    #[serde(default)]
    pub(super) watched: Option<Diagnostics>,
}

/// The diagnostics of the library that the environment asked for; each operation pays for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Diagnostics {
    /// A trace. It also counts for windows.
    Trace,
    /// A report.
    Report,
}

impl Diagnostics {
    /// As the environment asks for. If a file cannot be written, the library makes none.
    pub(super) fn here() -> Option<Self> {
        let said = |by: Self| env::var(by.variable()).unwrap_or_default();
        match said(Self::Report).as_str() {
            _ if !said(Self::Trace).is_empty() => Some(Self::Trace),
            "1" | "true" | "yes" | "on" => Some(Self::Report),
            _ => None,
        }
    }

    pub(super) fn variable(self) -> &'static str {
        match self {
            Self::Trace => "TRANSOM_TRACE",
            Self::Report => "TRANSOM_REPORT",
        }
    }
}

impl Run {
    /// A run that begins now, on this host.
    pub(super) fn begin(
        device: String,
        ranks: u32,
        quick: bool,
        watched: Option<Diagnostics>,
    ) -> Self {
        let host = fs::read_to_string("/proc/sys/kernel/hostname");
        Self {
            device,
            ranks,
            host: host.map_or_else(|_| "unknown".to_owned(), |name| name.trim_end().to_owned()),
            transom: env!("CARGO_PKG_VERSION").to_owned(),
            date: now(),
            quick,
            watched,
        }
    }
}

impl Record {
    /// Nanoseconds of one operation.
    pub(super) fn nanoseconds(&self) -> f64 {
        match self.what.metric {
            Metric::Latency => convert(self.value, &self.unit, "ns"),
            Metric::Rate => 1e3 / self.value,
            Metric::Bandwidth => self.what.size as f64 / self.value,
        }
    }

    /// What is wrong with a record from another program.
    pub(super) fn fault(&self) -> Option<String> {
        // Texts are printed on terminals and in pictures.
        let fields = serde_json::to_value(self).unwrap_or_default();
        if let Some(text) = control_characters(&fields) {
            return Some(format!("{text:?} has a control character"));
        }
        let metric = self.what.metric;
        if !metric.units().contains(&&*self.unit) {
            return Some(format!("{metric:?} in {:?}", self.unit));
        }
        let value = self.value;
        (!value.is_finite() || value <= 0.0).then(|| format!("a value of {value} was not measured"))
    }
}

/// A text or a field's name in the value that has a control character.
fn control_characters(value: &Value) -> Option<&String> {
    let found = |text| Some(text).filter(|text: &&String| text.contains(char::is_control));
    match value {
        Value::String(text) => found(text),
        Value::Object(fields) => fields
            .iter()
            .find_map(|(name, value)| found(name).or_else(|| control_characters(value))),
        _ => None,
    }
}

/// The distinct values, in the order of their first occurrence.
pub(super) fn in_order<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// The values of each key, in the order in which the keys first occur.
pub(super) fn grouped<K: Clone + Ord, V>(
    all: impl IntoIterator<Item = (K, V)>,
) -> Vec<(K, Vec<V>)> {
    let mut places = BTreeMap::new();
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in all {
        let at = *places.entry(key.clone()).or_insert(groups.len());
        match groups.get_mut(at) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// A value in another unit of the same metric.
pub(super) fn convert(value: f64, from: &str, to: &str) -> f64 {
    match (from, to) {
        ("us", "ns") => value * 1e3,
        ("ns", "us") => value / 1e3,
        _ => value,
    }
}

/// The middle value, or the mean of the two middle ones.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => sorted[half],
        _ => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}

/// Four significant digits, without an exponent.
pub(super) fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let decimals = 3 - value.abs().log10().floor() as i32;
    format!("{value:.*}", decimals.clamp(0, 9) as usize)
}

/// The time in UTC, as in RFC 3339, without fractions of a second.
fn now() -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text.split('.').next().unwrap_or_default().to_owned() + "Z"
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A line of eight bytes. Tests change one or two fields of it.
    pub(in super::super) fn record(op: &str, size: u64, value: f64) -> Record {
        Record {
            format: FORMAT,
            name: format!("allocate.{op}{size}_flush"),
            what: What {
                window: "allocate".to_owned(),
                ..What::new(op, size as usize, "flush")
            },
            run: Run {
                device: "soft".to_owned(),
                ranks: 2,
                host: "n0".to_owned(),
                transom: "0.1.0".to_owned(),
                date: "2026-01-02T03:04:05Z".to_owned(),
                quick: false,
                watched: None,
            },
            unit: "ns".to_owned(),
            value,
            min: value,
            max: value,
            most_within: None,
            iterations: 20_000,
            repeats: 1,
            percentiles: None,
        }
    }

    const GOLDEN: &str = r#"{"format":1,"name":"allocate.put8_flush","window":"allocate","op":"put","size":8,"sync":"flush","burst":1,"case":null,"registered":false,"hints":{"no_locks":"true"},"metric":"latency","device":"soft","ranks":2,"host":"n0","transom":"0.1.0","date":"2026-01-02T03:04:05Z","quick":false,"watched":null,"unit":"ns","value":6.5,"min":6.5,"max":6.5,"iterations":20000,"repeats":1,"percentiles":{"unit":"ns","operations":154,"samples":2000,"p50":6.4,"p90":6.6,"p99":7.0,"p999":9.5,"max":60.25}}"#;

    fn golden() -> Record {
        let mut record = record("put", 8, 6.5);
        record.what.hints = BTreeMap::from([("no_locks".to_owned(), "true".to_owned())]);
        record.percentiles = Some(Percentiles {
            unit: "ns".to_owned(),
            operations: 154,
            samples: 2_000,
            p50: 6.4,
            p90: 6.6,
            p99: 7.0,
            p999: 9.5,
            max: 60.25,
        });
        record
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), 3.0);
    }

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
    fn the_format_is_what_readers_expect() {
        assert_eq!(serde_json::to_string(&golden()).unwrap(), GOLDEN);
        assert_eq!(serde_json::from_str::<Record>(GOLDEN).unwrap(), golden());
    }

    #[test]
    fn what_is_not_known_yet_is_passed_over_and_what_misses_is_named() {
        let more = GOLDEN.replacen('{', r#"{"later":[1],"#, 1);
        assert_eq!(serde_json::from_str::<Record>(&more).unwrap(), golden());
        let earlier = GOLDEN.replacen(r#""watched":null,"#, "", 1);
        assert_eq!(serde_json::from_str::<Record>(&earlier).unwrap(), golden());
        let less = GOLDEN.replacen(r#""sync":"flush","#, "", 1);
        let error = serde_json::from_str::<Record>(&less).unwrap_err();
        assert!(error.to_string().contains("`sync`"), "{error}");
        let derived = record("put", 8, 6.5);
        let text = serde_json::to_string(&derived).unwrap();
        assert!(!text.contains("percentiles"), "{text}");
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), derived);
    }

    #[test]
    fn any_unit_leads_to_the_time_of_an_operation() {
        for (unit, metric, size, value, nanoseconds) in [
            ("ns", Metric::Latency, 8, 5.0, 5.0),
            ("us", Metric::Latency, 8, 5.0, 5_000.0),
            ("Mops/s", Metric::Rate, 8, 50.0, 20.0),
            ("GB/s", Metric::Bandwidth, 4096, 40.96, 100.0),
        ] {
            let mut record = record("put", size, value);
            record.unit = unit.to_owned();
            record.what.metric = metric;
            assert_eq!(record.fault(), None);
            assert_eq!(record.nanoseconds(), nanoseconds, "{record:?}");
        }
        assert_eq!(convert(convert(7.0, "ns", "us"), "us", "ns"), 7.0);
    }

    #[test]
    fn what_nobody_measured_is_found() {
        assert_eq!(record("put", 8, 1.0).fault(), None);
        assert!(record("put", 8, 0.0).fault().unwrap().contains('0'));
        assert!(record("put", 8, -1.0).fault().unwrap().contains("-1"));
        let mut wrong = record("put", 8, 1.0);
        wrong.unit = "GB/s".to_owned();
        assert!(wrong.fault().unwrap().contains("GB/s"));
        let mut record = record("put", 8, 1.0);
        record.run.host = "\x1b[2J".to_owned();
        assert!(record.fault().unwrap().contains("control character"));
    }

    #[test]
    fn dates_are_of_utc() {
        let form = now().replace(|c: char| c.is_ascii_digit(), "0");
        assert_eq!(form, "0000-00-00T00:00:00Z");
        let seconds = now()[17..19].parse::<u64>().unwrap();
        assert!(seconds < 61);
    }
}
