//! `transom devices`: lists the devices.

mod row;
mod table;

use std::process::ExitCode;

use super::screen::json_lines;
use rdma_sys_shim::rdma::{self, RdmaDevice, Seat, Selector};
use rdma_sys_shim::{DeviceInfo, Found, State};
use row::{DeviceRow, Jobs};
use transom::devices::REGISTRY;
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
    let mut devices = REGISTRY.list();
    if let Err(error) = super::try_soft() {
        // Every machine has it, and lists it without a trial.
        devices[0].state = State::Unusable(error.to_string());
    }
    let (rows, complaint) = rows(
        devices,
        spec.as_deref(),
        &Seat::here(&oversubscription::allowed()),
    );
    let text = match args.json {
        true => json_lines(&rows),
        false => table::format(&rows),
    };
    if let Some(complaint) = complaint {
        // The list is correct nevertheless.
        super::fail(&format_args!("{}: {complaint}", super::DEVICE), 0);
    }
    super::print(&text)
}

/// A row for each device, and an error if the environment names a device wrongly.
fn rows(
    devices: Vec<DeviceInfo>,
    spec: Option<&str>,
    seat: &Seat,
) -> (Vec<DeviceRow>, Option<String>) {
    let rdma: Vec<RdmaDevice> = devices
        .iter()
        .filter_map(|info| Some(info.rdma.as_ref()?.device.clone()))
        .collect();
    let named = spec.map(|spec| REGISTRY.find(spec, &devices, seat));
    let between_hosts = REGISTRY.find_between_hosts(&devices, seat);
    let mut rows: Vec<_> = devices.into_iter().map(DeviceRow::from).collect();
    rows[0].chosen_for = rows[0].usable.then_some(Jobs::OneHost);
    for standing in rdma::standings(&rdma, &Selector::default(), seat) {
        let row = rows.iter_mut().find(|row| row.device == standing.device);
        row.into_iter().for_each(|row| row.compare(&standing));
    }
    let is_taken = |row: &&mut DeviceRow| {
        row.usable && (between_hosts.as_ref()).is_some_and(|found| found.device == row.device)
    };
    if let Some(row) = rows.iter_mut().find(is_taken) {
        row.chosen_for = Some(Jobs::SeveralHosts);
    }
    let complaint = match named {
        None => None,
        Some(Ok(named)) => {
            mark(&mut rows, &named);
            None
        }
        Some(Err(error)) => {
            rows.iter_mut().for_each(|row| row.chosen_for = None);
            Some(error.to_string())
        }
    };
    (rows, complaint)
}

/// Marks the device that the environment names. The other devices are not used then.
fn mark(rows: &mut [DeviceRow], named: &Found) {
    for row in rows {
        match row.device == named.device {
            true => row.name(named),
            false => row.pass_over(),
        }
    }
}

#[cfg(test)]
mod tests;
