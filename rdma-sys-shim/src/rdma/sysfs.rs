//! Reading devices from sysfs. What cannot be read is unknown or absent, never an error, because a
//! device may be removed at any time.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Gid, GidEntry, GidType, LinkLayer, Port, RdmaDevice};
use crate::variable;

/// The kernel's directory of RDMA devices.
pub const CLASS: &str = "/sys/class/infiniband";

/// For tests: another folder than [`CLASS`], with devices of a verbs library that needs no kernel.
const TEST_CLASS: &str = "TRANSOM_TEST_RDMA_CLASS";

/// The folder of this machine's RDMA devices.
#[must_use]
pub fn class() -> PathBuf {
    variable(TEST_CLASS).map_or_else(|| CLASS.into(), PathBuf::from)
}

/// The kernel's directory of administrators' settings for connections that its connection manager makes.
pub const CONNECTION_MANAGER: &str = "/sys/kernel/config/rdma_cm";

/// The traffic class that an administrator has set for a RoCE port under `folder` (on this machine:
/// [`CONNECTION_MANAGER`]). Zero means none.
#[must_use]
pub fn traffic_class(folder: &Path, device: &str, port: u8) -> Option<u8> {
    let file = format!("{device}/ports/{port}/default_roce_tos");
    let class = text(&folder.join(file))?.parse().ok()?;
    (class != 0).then_some(class)
}

/// The devices under `class` (on this machine: [`class`]), by name.
#[must_use]
pub fn read(class: &Path) -> Vec<RdmaDevice> {
    let mut devices: Vec<_> = names(class)
        .map(|name| device(&class.join(&name), name))
        .collect();
    devices.sort_by(|a, b| a.name.cmp(&b.name));
    devices
}

fn device(path: &Path, name: String) -> RdmaDevice {
    let beneath = netdev(path);
    let mut ports: Vec<_> = numbers(&path.join("ports"))
        .filter(|&number| number > 0)
        .map(|number| port(&path.join("ports").join(number.to_string()), number))
        .collect();
    ports.sort_by_key(|port| port.number);
    // Several ports share one folder of network devices, which does not tell their ports.
    if let [port] = ports.as_mut_slice()
        && port.link_layer == LinkLayer::Ethernet
        && port.netdev.is_none()
    {
        port.netdev = beneath;
    }
    RdmaDevice {
        name,
        node_guid: text(&path.join("node_guid")).unwrap_or_default(),
        firmware: text(&path.join("fw_ver")),
        // Soft-RoCE names its network device. A device without hardware is also emulated.
        emulated: path.join("parent").exists() || !path.join("device").exists(),
        numa_node: text(&path.join("device/numa_node")).and_then(|node| node.parse().ok()),
        iwarp: text(&path.join("node_type")).is_some_and(|kind| kind.starts_with("4:")),
        atomics: None,
        fails_to_open: false,
        ports,
    }
}

/// The one network device of an RDMA device: soft-RoCE names it, an adapter lists its own.
fn netdev(device: &Path) -> Option<String> {
    text(&device.join("parent")).or_else(|| {
        let mut nets = names(&device.join("device/net"));
        nets.next().filter(|_| nets.next().is_none())
    })
}

fn port(path: &Path, number: u8) -> Port {
    let link_layer = match text(&path.join("link_layer")).as_deref() {
        Some("InfiniBand") => LinkLayer::InfiniBand,
        Some("Ethernet") => LinkLayer::Ethernet,
        _ => LinkLayer::Other,
    };
    // The text follows the state's number.
    let state = |file| {
        let text = text(&path.join(file))?;
        Some(text.split_once(": ")?.1.to_owned())
    };
    let lid = |file| {
        let digits = text(&path.join(file)).unwrap_or_default();
        u16::from_str_radix(digits.trim_start_matches("0x"), 16).unwrap_or(0)
    };
    let gids = gids(path);
    Port {
        number,
        state: state("state").unwrap_or_else(|| "UNKNOWN".to_owned()),
        phys_state: state("phys_state").unwrap_or_default(),
        link_layer,
        rate: text(&path.join("rate")).unwrap_or_default(),
        lid: lid("lid"),
        sm_lid: lid("sm_lid"),
        netdev: gids.iter().find_map(|entry| entry.netdev.clone()),
        gids,
    }
}

/// The entries that a queue pair can name: its index has eight bits, and a table may be longer.
fn gids(port: &Path) -> Vec<GidEntry> {
    let mut gids: Vec<_> = numbers(&port.join("gids"))
        .filter_map(|index| gid(port, index))
        .collect();
    gids.sort_by_key(|entry| entry.index);
    gids
}

fn gid(port: &Path, index: u8) -> Option<GidEntry> {
    let file = |folder: &str| port.join(folder).join(index.to_string());
    let gid: Gid = text(&file("gids"))?.parse().ok()?;
    if gid.is_unspecified() {
        return None;
    }
    let kind = match text(&file("gid_attrs/types")).as_deref() {
        Some("RoCE v2") => GidType::RoceV2,
        _ => GidType::IbOrRoceV1,
    };
    Some(GidEntry {
        index,
        gid,
        kind,
        netdev: text(&file("gid_attrs/ndevs")),
    })
}

pub(super) fn text(file: &Path) -> Option<String> {
    let content = fs::read_to_string(file).ok()?;
    let content = content.trim();
    (!content.is_empty()).then(|| content.to_owned())
}

pub(super) fn names(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok())
}

fn numbers(folder: &Path) -> impl Iterator<Item = u8> + use<> {
    names(folder).filter_map(|name| name.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, file: &str, content: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{content}\n")).unwrap();
    }

    #[test]
    fn a_soft_roce_device_is_read() {
        let class = tempfile::tempdir().unwrap();
        let root = class.path();
        put(root, "rxe0/node_guid", "5054:00ff:fe12:3456");
        put(root, "rxe0/node_type", "1: CA");
        put(root, "rxe0/fw_ver", "");
        put(root, "rxe0/parent", "dummy0");
        put(root, "rxe0/ports/1/state", "4: ACTIVE");
        put(root, "rxe0/ports/1/phys_state", "5: LinkUp");
        put(root, "rxe0/ports/1/link_layer", "Ethernet");
        put(root, "rxe0/ports/1/rate", "2.5 Gb/sec (1X SDR)");
        put(root, "rxe0/ports/1/lid", "0x0");
        let zero = "0000:0000:0000:0000:0000:0000:0000:0000";
        let mapped = "0000:0000:0000:0000:0000:ffff:0a00:0001";
        let local = "fe80:0000:0000:0000:5054:00ff:fe12:3456";
        for (index, gid) in [(0, local), (1, mapped), (2, zero), (256, mapped)] {
            put(root, &format!("rxe0/ports/1/gids/{index}"), gid);
        }
        put(root, "rxe0/ports/1/gid_attrs/types/0", "IB/RoCE v1");
        put(root, "rxe0/ports/1/gid_attrs/types/1", "RoCE v2");
        put(root, "rxe0/ports/1/gid_attrs/ndevs/1", "dummy0");

        let devices = read(root);
        let [device] = devices.as_slice() else {
            panic!("{devices:?}")
        };
        assert_eq!(device.name, "rxe0");
        assert_eq!(device.node_guid, "5054:00ff:fe12:3456");
        assert_eq!(device.firmware, None);
        assert!(device.emulated && !device.iwarp);
        assert_eq!((device.numa_node, device.ports[0].speed()), (None, 2500));
        let port = device.port(1).unwrap();
        assert_eq!(port.state, "ACTIVE");
        assert_eq!(port.phys_state, "LinkUp");
        assert_eq!(port.link_layer, LinkLayer::Ethernet);
        assert_eq!(port.rate, "2.5 Gb/sec (1X SDR)");
        assert_eq!(port.netdev.as_deref(), Some("dummy0"));
        let indexes: Vec<_> = port.gids.iter().map(|entry| entry.index).collect();
        assert_eq!(indexes, [0, 1], "no empty entry, none beyond eight bits");
        assert_eq!(port.gids[0].kind, GidType::IbOrRoceV1);
        assert_eq!(port.gids[1].kind, GidType::RoceV2);
        assert_eq!(port.gids[1].netdev.as_deref(), Some("dummy0"));
    }

    #[test]
    fn an_infiniband_device_is_read_and_names_are_sorted() {
        let class = tempfile::tempdir().unwrap();
        let root = class.path();
        for name in ["mlx5_1", "mlx5_0"] {
            put(root, &format!("{name}/fw_ver"), "20.31.1014");
            for port in [2, 1] {
                let port = format!("{name}/ports/{port}");
                put(root, &format!("{port}/state"), "2: INIT");
                put(root, &format!("{port}/link_layer"), "InfiniBand");
                put(root, &format!("{port}/lid"), "0x1f");
                put(root, &format!("{port}/sm_lid"), "0x1");
            }
        }
        let devices = read(root);
        assert_eq!(devices[0].name, "mlx5_0");
        assert_eq!(devices[1].firmware.as_deref(), Some("20.31.1014"));
        let ports = &devices[1].ports;
        assert_eq!((ports[0].number, ports[1].number), (1, 2));
        assert_eq!(ports[0].state, "INIT");
        assert_eq!((ports[0].lid, ports[0].sm_lid), (0x1f, 1));
        assert_eq!(ports[0].netdev, None);
    }

    #[test]
    fn a_traffic_class_that_an_administrator_has_set_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (port, class) in [(1, "104"), (2, "0"), (3, "256")] {
            put(
                root,
                &format!("mlx5_0/ports/{port}/default_roce_tos"),
                class,
            );
        }
        let classes = [1, 2, 3, 4].map(|port| traffic_class(root, "mlx5_0", port));
        assert_eq!(classes, [Some(104), None, None, None]);
    }

    #[test]
    fn half_a_device_and_no_class_at_all_are_read_without_complaint() {
        let class = tempfile::tempdir().unwrap();
        fs::create_dir_all(class.path().join("mlx5_0/ports/1")).unwrap();
        let port = &read(class.path())[0].ports[0];
        assert_eq!(port.state, "UNKNOWN");
        assert_eq!(port.link_layer, LinkLayer::Other);
        assert!(read(&class.path().join("absent")).is_empty());
    }

    #[test]
    fn the_network_device_of_an_adapter_that_is_down_is_known() {
        let class = tempfile::tempdir().unwrap();
        let root = class.path();
        put(root, "mlx5_0/ports/1/link_layer", "Ethernet");
        put(root, "mlx5_0/device/net/eth4/mtu", "1500");
        assert_eq!(read(root)[0].ports[0].netdev.as_deref(), Some("eth4"));
        put(root, "mlx5_0/device/net/eth5/mtu", "1500");
        assert_eq!(read(root)[0].ports[0].netdev, None, "which of two?");
    }
}
