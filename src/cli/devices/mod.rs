//! `transom devices`: what there is to communicate over.

mod row;
mod table;

use std::process::ExitCode;

use rdma_sys_shim::DeviceInfo;
use rdma_sys_shim::rdma::{self, Choice, RdmaDevice};
use row::DeviceRow;

/// List the devices of this machine, and what they can do
///
/// Of RDMA devices, also the ports, with the GIDs of those that have no LID, and which of them
/// Transom would choose.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Print one JSON object per device
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let spec = super::device_variable();
    let (rows, complaint) = rows(rdma_sys_shim::list(), spec.as_deref());
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
fn rows(devices: Vec<DeviceInfo>, spec: Option<&str>) -> (Vec<DeviceRow>, Option<String>) {
    let named = spec.map(|spec| named(spec, &devices));
    let mut rows: Vec<_> = devices.into_iter().map(DeviceRow::from).collect();
    let complaint = match named {
        None => None,
        Some(Named::Soft) => {
            let soft = rows.iter_mut().find(|row| row.provider == "soft");
            soft.into_iter().for_each(|row| row.named = true);
            None
        }
        Some(Named::Rdma(choice)) => {
            let row = rows.iter_mut().find(|row| row.device == choice.device);
            row.into_iter().for_each(|row| row.name(&choice));
            None
        }
        Some(Named::Nothing(error)) => Some(error.to_string()),
    };
    (rows, complaint)
}

/// What the environment's name leads to.
enum Named {
    Soft,
    Rdma(Choice),
    Nothing(rdma_sys_shim::Error),
}

fn named(spec: &str, devices: &[DeviceInfo]) -> Named {
    if spec.split(':').next() == Some("soft") {
        return Named::Soft;
    }
    let devices = devices.iter().filter_map(|device| device.rdma.clone());
    let devices: Vec<RdmaDevice> = devices.collect();
    let choice =
        rdma::selector(spec, &devices).and_then(|selector| rdma::choose(&devices, &selector));
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
