//! `transom devices`: what there is to communicate over.

mod row;
mod table;

use std::process::ExitCode;

use rdma_sys_shim::DeviceInfo;
use rdma_sys_shim::rdma::{self, Choice, RdmaDevice, Seat, Selector};
use row::{DeviceRow, Jobs};
use transom_launch::oversubscription;

/// List the devices of this machine, and what they can do
///
/// Of RDMA devices, also the ports, with the GIDs of those that have no LID, which of them
/// Transom would choose, and whether it would choose the device, or why not.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Print one JSON object per device
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let spec = super::device_variable();
    let (rows, complaint) = rows(
        rdma_sys_shim::list(),
        spec.as_deref(),
        &Seat::here(&oversubscription::allowed()),
    );
    let text = match args.json {
        true => json(&rows),
        false => table::format(&rows),
    };
    if let Some(complaint) = complaint {
        // What is listed is right all the same.
        super::fail(&format_args!("{}: {complaint}", super::DEVICE), 0);
    }
    super::print(&text)
}

/// A row for each device, and what is wrong with the name in the environment.
fn rows(
    devices: Vec<DeviceInfo>,
    spec: Option<&str>,
    seat: &Seat,
) -> (Vec<DeviceRow>, Option<String>) {
    let rdma: Vec<RdmaDevice> = devices
        .iter()
        .filter_map(|info| info.rdma.clone())
        .collect();
    let named = spec.map(|spec| named(spec, &rdma, seat));
    let mut rows: Vec<_> = devices.into_iter().map(DeviceRow::from).collect();
    rows[0].chosen_for = Some(Jobs::OneHost);
    for (device, standing) in rdma::standings(&rdma, &Selector::default(), seat) {
        let row = rows.iter_mut().find(|row| row.device == device);
        row.into_iter().for_each(|row| row.compare(&standing));
    }
    let complaint = match named {
        None => None,
        Some(Named::Soft) => {
            mark(&mut rows, |row| row.provider == "soft", None);
            None
        }
        Some(Named::Rdma(choice)) => {
            mark(&mut rows, |row| row.device == choice.device, Some(&choice));
            None
        }
        Some(Named::Nothing(error)) => {
            rows.iter_mut().for_each(|row| row.chosen_for = None);
            Some(error.to_string())
        }
    };
    (rows, complaint)
}

/// Marks the device that the environment names, which leaves the others out.
fn mark(rows: &mut [DeviceRow], is_named: impl Fn(&DeviceRow) -> bool, choice: Option<&Choice>) {
    for row in rows {
        match is_named(row) {
            true => row.name(choice),
            false => row.pass_over(),
        }
    }
}

/// What the environment's name leads to.
enum Named {
    Soft,
    Rdma(Choice),
    Nothing(rdma_sys_shim::Error),
}

fn named(spec: &str, devices: &[RdmaDevice], seat: &Seat) -> Named {
    if spec.split(':').next() == Some("soft") {
        return Named::Soft;
    }
    let choice =
        rdma::selector(spec, devices).and_then(|selector| rdma::choose(devices, &selector, seat));
    choice.map_or_else(|error| Named::Nothing(error.into()), Named::Rdma)
}

fn json(rows: &[DeviceRow]) -> String {
    let mut text = String::new();
    for row in rows {
        let line = serde_json::to_string(row).expect("strings, numbers and lists only");
        text.push_str(&line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
