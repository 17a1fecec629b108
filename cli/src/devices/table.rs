//! Devices for people: a line for each, and under it, indented, the parts of an RDMA device.

use std::fmt::Write as _;

use super::super::DEVICE;
use super::super::screen::{GOOD, STRONG};
use super::row::{DeviceRow, GidRow, Jobs, LimitsRow, PortRow};

pub(super) fn format(rows: &[DeviceRow]) -> String {
    let head = ["DEVICE", "PROVIDER", "ATOMICS", "MAX MESSAGE", "STATE"].map(str::to_owned);
    let cells: Vec<_> = rows.iter().map(cells).collect();
    let lines = || [&head].into_iter().chain(&cells);
    let width = |column: usize| lines().map(|line| line[column].len()).max();
    let widths: [usize; 5] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let mut text = format!("{STRONG}{}{STRONG:#}\n", padded(&head, widths));
    for (row, cells) in rows.iter().zip(&cells) {
        let _ = writeln!(text, "{}", padded(cells, widths));
        for line in row
            .addresses
            .iter()
            .cloned()
            .chain(row.ports.iter().flat_map(port))
        {
            let _ = writeln!(text, "  {line}");
        }
        if row.agent_atomics {
            let _ = writeln!(
                text,
                "  a thread of the target carries out its atomics, so that hosts have to reach each other by TCP, too"
            );
        }
        if let Some(choice) = choice(row) {
            let _ = writeln!(text, "  {choice}");
        }
        if let Some(limits) = &row.limits {
            let _ = writeln!(text, "  {}", self::limits(limits));
        }
    }
    text
}

/// Which jobs would run over it, or why none would.
fn choice(row: &DeviceRow) -> Option<String> {
    let jobs = match row.chosen_for {
        None => return row.choice.clone(),
        Some(Jobs::OneHost) => "chosen for jobs on this host alone".to_owned(),
        Some(Jobs::SeveralHosts) => "chosen for jobs on several hosts".to_owned(),
        Some(Jobs::All) => format!("chosen: {DEVICE} names it"),
    };
    let among = row
        .choice
        .as_deref()
        .and_then(|choice| choice.strip_prefix("chosen "));
    let among = among.filter(|_| row.chosen_for == Some(Jobs::SeveralHosts));
    let among = among.map_or_else(String::new, |among| format!(", {among}"));
    Some(format!("{GOOD}{jobs}{GOOD:#}{among}"))
}

fn cells(row: &DeviceRow) -> [String; 5] {
    let (atomics, longest) = match row.atomic_domain {
        None => ("-".to_owned(), "-".to_owned()),
        Some(domain) => (atomics(domain, row), longest(row.max_message)),
    };
    let mut state = row.state.clone();
    if row.named {
        let _ = write!(state, " [{DEVICE}]");
    }
    let (device, provider) = (row.device.clone(), row.provider.to_owned());
    [device, provider, atomics, longest, state]
}

fn padded(cells: &[String; 5], widths: [usize; 5]) -> String {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        let _ = write!(line, "{cell:<width$}  ");
    }
    line.truncate(line.trim_end().len());
    line
}

fn atomics(domain: &str, row: &DeviceRow) -> String {
    let widths: Vec<_> = row.atomic_widths.iter().map(u32::to_string).collect();
    let unit = match domain {
        _ if row.agent_atomics => "an agent over TCP",
        "global" => "the device and cpu",
        "cpu" => "the cpu",
        _ => "the device",
    };
    format!("{} bit, by {unit}", widths.join("/"))
}

fn longest(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "any".to_owned(), |bytes| format!("{bytes} bytes"))
}

/// A port's line, and its GIDs if peers are addressed by them.
fn port(port: &PortRow) -> Vec<String> {
    let mut line = format!("port {}: {}", port.port, port.state);
    let physical = (!port.phys_state.is_empty()).then(|| port.phys_state.clone());
    let layer = match &port.netdev {
        Some(netdev) => format!("{} ({netdev})", port.link_layer),
        None => port.link_layer.clone(),
    };
    let lid = port.lid.map(|lid| format!("LID {lid}"));
    let rate = (!port.rate.is_empty()).then(|| port.rate.clone());
    let chosen = port.chosen.then(|| "chosen".to_owned());
    let details = [physical, Some(layer), lid, rate, chosen];
    for detail in details.into_iter().flatten() {
        let _ = write!(line, ", {detail}");
    }
    let gids = port.gids.iter().filter(|_| port.lid.is_none()).map(gid);
    [line].into_iter().chain(gids).collect()
}

fn gid(gid: &GidRow) -> String {
    let mark = if gid.chosen { ", chosen" } else { "" };
    format!("  GID {}: {}, {}{mark}", gid.index, gid.gid, gid.kind)
}

fn limits(limits: &LimitsRow) -> String {
    format!(
        "limits: atomics {}, inline {} bytes, message {} bytes, MTU {} bytes, {} queue pairs, {} \
         completion queue entries, {} memory regions, {} reads and atomics per queue pair",
        match limits.atomic_scope {
            "none" => "none".to_owned(),
            scope => format!("of {scope} scope"),
        },
        limits.max_inline,
        limits.max_message,
        limits.active_mtu,
        limits.max_qp,
        limits.max_cqe,
        limits.max_mr,
        limits.max_qp_rd_atom
    )
}
