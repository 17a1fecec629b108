//! A folder with devices as the kernel shows them in `/sys/class/infiniband`.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::personality::Link;
use crate::settings::Settings;

pub(crate) const FIRMWARE: &str = "0.1.0";

/// The counter of mlx5 for requests that were not acknowledged in time, and so sent again.
pub(crate) const UNACKNOWLEDGED: &str = "local_ack_timeout_err";

/// The file of the fabric of a job.
pub(crate) fn fabric(root: &Path) -> PathBuf {
    root.join("fabric")
}

/// The file of a job with what its processes did wrong.
pub(crate) fn misuses(root: &Path) -> PathBuf {
    root.join("misuses")
}

/// The folder with the devices of a host.
#[must_use]
pub(crate) fn class(root: &Path, host: usize) -> PathBuf {
    root.join(format!("host{host}/class/infiniband"))
}

/// Writes the devices of a host.
///
/// # Errors
/// The folder cannot be written to.
pub(crate) fn write(settings: &Settings) -> io::Result<()> {
    for (at, name) in settings.names().into_iter().enumerate() {
        let device = class(&settings.root, settings.host).join(name);
        let identity = settings.identity(at);
        let personality = &settings.adapters[at];
        let words = |bytes: &[u8]| {
            let words = bytes
                .chunks(2)
                .map(|pair| format!("{:02x}{:02x}", pair[0], pair[1]));
            words.collect::<Vec<_>>().join(":")
        };
        let guid = words(&identity.guid().to_be_bytes());
        let lid = format!("{:#x}", identity.lid());
        let subnet_manager = format!("{:#x}", identity.subnet_manager());
        let is_ethernet = personality.link == Link::Ethernet;
        let mut files = vec![
            ("node_type", "1: CA"),
            ("fw_ver", FIRMWARE),
            ("node_guid", &*guid),
            ("sys_image_guid", &*guid),
            ("device/numa_node", "0"),
            ("ports/1/state", "4: ACTIVE"),
            ("ports/1/phys_state", "5: LinkUp"),
            (
                "ports/1/link_layer",
                if is_ethernet {
                    "Ethernet"
                } else {
                    "InfiniBand"
                },
            ),
            ("ports/1/rate", "100 Gb/sec (4X EDR)"),
            ("ports/1/lid", &*lid),
            ("ports/1/sm_lid", &*subnet_manager),
            ("ports/1/pkeys/0", "0xffff"),
        ];
        // The kernel's own soft device names the network device that it is made of.
        if personality.driver == "rxe" {
            files.push(("parent", "lo"));
        }
        let unacknowledged = format!("ports/1/hw_counters/{UNACKNOWLEDGED}");
        if personality.driver == "mlx5" {
            // A slot that is as fast as the port, half as wide as the adapter.
            files.extend([
                ("device/current_link_speed", "16.0 GT/s PCIe"),
                ("device/max_link_speed", "16.0 GT/s PCIe"),
                ("device/current_link_width", "8"),
                ("device/max_link_width", "16"),
                (&*unacknowledged, "0"),
                ("ports/1/hw_counters/np_cnp_sent", "0"),
                ("ports/1/counters/port_rcv_errors", "0"),
            ]);
        }
        for (file, content) in files {
            put(&device.join(file), content)?;
        }
        for (index, gid) in identity.gids().into_iter().enumerate() {
            let port = device.join("ports/1");
            let put =
                |file: &str, content: &str| put(&port.join(format!("{file}/{index}")), content);
            put("gids", &words(&gid.0))?;
            match is_ethernet {
                true => {
                    put("gid_attrs/types", "RoCE v2")?;
                    put("gid_attrs/ndevs", "lo")?;
                }
                false => put("gid_attrs/types", "IB/RoCE v1")?,
            }
        }
    }
    Ok(())
}

/// Adds one to a counter of an adapter's port, if it has it.
///
/// # Errors
/// The file is there, and cannot be changed.
pub(crate) fn count(settings: &Settings, at: usize, counter: &str) -> io::Result<()> {
    let device = class(&settings.root, settings.host).join(&settings.names()[at]);
    let path = device.join("ports/1/hw_counters").join(counter);
    let Ok(mut file) = File::options().read(true).write(true).open(&path) else {
        return Ok(());
    };
    // Other processes of the host count, too.
    file.lock()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let count: u64 = text.trim().parse().unwrap_or(0);
    file.write_all_at(format!("{}\n", count + 1).as_bytes(), 0)
}

fn put(path: &Path, content: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, format!("{content}\n"))
}
