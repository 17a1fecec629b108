//! `transom devices`: what there is to communicate over.

use std::fmt::Write as _;
use std::process::ExitCode;

use rdma_sys_shim::{AtomicDomain, DeviceInfo, State};
use serde::Serialize;

/// List the devices of this machine, and what they can do
#[derive(clap::Args)]
pub(super) struct Args {
    /// Print one JSON object per device
    #[arg(long)]
    json: bool,
}

/// A device as it is shown.
#[derive(Serialize)]
struct Row {
    device: String,
    provider: &'static str,
    usable: bool,
    state: &'static str,
    atomic_domain: Option<&'static str>,
    /// Bits of the words that atomics work on.
    atomic_widths: Vec<u32>,
    /// Bytes; `None` where transfers are not limited or the limit is not known.
    max_message: Option<u64>,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let rows: Vec<Row> = rdma_sys_shim::list().into_iter().map(row).collect();
    let text = match args.json {
        true => json(&rows),
        false => table(&rows),
    };
    super::print(&text)
}

fn row(device: DeviceInfo) -> Row {
    let (usable, state) = match device.state {
        State::Ready => (true, "ready"),
        State::Unusable(reason) => (false, reason),
        _ => (false, "unknown"),
    };
    let capabilities = device.capabilities.as_ref();
    Row {
        device: device.name,
        provider: device.provider,
        usable,
        state,
        atomic_domain: capabilities.map(|can| match can.atomic_domain {
            AtomicDomain::Cpu => "cpu",
            AtomicDomain::Device => "device",
        }),
        atomic_widths: match capabilities {
            Some(can) if can.narrow_atomics => vec![32, 64],
            Some(_) => vec![64],
            None => Vec::new(),
        },
        max_message: capabilities
            .map(|can| can.max_message)
            .filter(|&bytes| bytes != u64::MAX),
    }
}

fn json(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let line = serde_json::to_string(row).expect("strings, numbers and lists only");
        text.push_str(&line);
        text.push('\n');
    }
    text
}

fn table(rows: &[Row]) -> String {
    let head = ["DEVICE", "PROVIDER", "ATOMICS", "MAX MESSAGE", "STATE"].map(str::to_owned);
    let cells = rows.iter().map(|row| {
        let (atomics, longest) = match row.atomic_domain {
            None => ("-".to_owned(), "-".to_owned()),
            Some(domain) => (
                atomics(domain, &row.atomic_widths),
                longest(row.max_message),
            ),
        };
        let (device, provider) = (row.device.clone(), row.provider.to_owned());
        [device, provider, atomics, longest, row.state.to_owned()]
    });
    let lines: Vec<_> = [head].into_iter().chain(cells).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max();
    let widths: [usize; 5] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let mut text = String::new();
    for line in &lines {
        let mut padded = String::new();
        for (cell, width) in line.iter().zip(widths) {
            let _ = write!(padded, "{cell:<width$}  ");
        }
        text.push_str(padded.trim_end());
        text.push('\n');
    }
    text
}

fn atomics(domain: &str, widths: &[u32]) -> String {
    let widths: Vec<_> = widths.iter().map(u32::to_string).collect();
    format!("{} bit, by the {domain}", widths.join("/"))
}

fn longest(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "any".to_owned(), |bytes| format!("{bytes} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_without_a_provider_are_shown_with_the_reason() {
        let soft = rdma_sys_shim::list().remove(0);
        let mut verbs = soft.clone();
        verbs.name = "mlx5_0".to_owned();
        verbs.provider = "verbs";
        verbs.state = State::Unusable("this build has no verbs provider");
        verbs.capabilities = None;
        let rows = [row(soft), row(verbs)];
        let text = table(&rows);
        let lines: Vec<_> = text.lines().collect();
        assert!(
            lines[1].starts_with("soft ") && lines[1].ends_with("ready"),
            "{text}"
        );
        assert!(lines[1].contains("32/64 bit, by the cpu"), "{text}");
        assert!(lines[2].starts_with("mlx5_0 "), "{text}");
        assert!(
            lines[2].ends_with("this build has no verbs provider"),
            "{text}"
        );
        let json = json(&rows);
        let parsed: serde_json::Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
        assert_eq!(parsed["usable"], false);
        assert_eq!(parsed["atomic_domain"], serde_json::Value::Null);
    }
}
