use std::fs;
use std::path::Path;

use rdma_sys_shim::rdma::{RdmaInfo, VerbsLimits};
use rdma_sys_shim::{DeviceInfo, State};
use serde_json::Value;

use super::*;

fn rdma_device(class: &Path, name: &str, files: &[(&str, &str)]) -> DeviceInfo {
    for (file, content) in files {
        let path = class.join(name).join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let devices = rdma::read(class);
    let choice = rdma::choose(&devices, &name.parse().unwrap(), &Seat::default());
    let mut info = REGISTRY.list().remove(0);
    info.name = name.to_owned();
    info.provider = "verbs";
    info.state = State::Unusable("this build has no verbs provider".to_owned());
    info.capabilities = None;
    let device = devices.into_iter().find(|device| device.name == name);
    info.rdma = device.map(|device| RdmaInfo {
        device,
        choice: choice.ok(),
        limits: None,
        agent_atomics: false,
    });
    info.joins_hosts = true;
    info
}

fn devices() -> Vec<DeviceInfo> {
    let class = tempfile::tempdir().unwrap();
    let rxe = [
        ("node_guid", "5054:00ff:fe12:3456"),
        ("parent", "dummy0"),
        ("ports/1/state", "4: ACTIVE"),
        ("ports/1/phys_state", "5: LinkUp"),
        ("ports/1/link_layer", "Ethernet"),
        ("ports/1/rate", "2.5 Gb/sec (1X SDR)"),
        ("ports/1/gids/0", "fe80:0000:0000:0000:5054:00ff:fe12:3456"),
        ("ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0001"),
        ("ports/1/gid_attrs/types/0", "RoCE v2"),
        ("ports/1/gid_attrs/types/1", "RoCE v2"),
        ("ports/1/gid_attrs/ndevs/1", "dummy0"),
    ];
    let mlx5 = [
        ("ports/1/state", "4: ACTIVE"),
        ("ports/1/link_layer", "InfiniBand"),
        ("ports/1/lid", "0x1f"),
        ("device/numa_node", "1"),
        ("ports/1/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001"),
    ];
    vec![
        REGISTRY.list().remove(0),
        rdma_device(class.path(), "mlx5_0", &mlx5),
        rdma_device(class.path(), "rxe0", &rxe),
    ]
}

fn text(spec: Option<&str>) -> String {
    let styled = table::format(&rows(devices(), spec, &Seat::default()).0);
    anstream::adapter::strip_str(&styled).to_string()
}

#[test]
fn the_table_shows_devices_ports_gids_and_the_choice() {
    let text = text(None);
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[1].starts_with("soft "), "{text}");
    assert!(lines[1].ends_with("ready"), "{text}");
    assert!(lines[1].contains("8/16/32/64 bit, by the cpu"), "{text}");
    assert_eq!(lines[2], "  chosen for jobs on this host alone");
    assert!(lines[3].starts_with("mlx5_0 "), "{text}");
    assert!(
        lines[3].ends_with("this build has no verbs provider"),
        "{text}"
    );
    assert_eq!(
        lines[4..],
        [
            "  port 1: ACTIVE, InfiniBand, LID 31, chosen",
            "  not chosen: it cannot be used",
            lines[6],
            "  port 1: ACTIVE, LinkUp, Ethernet (dummy0), 2.5 Gb/sec (1X SDR), chosen",
            "    GID 0: fe80::5054:ff:fe12:3456, RoCE v2",
            "    GID 1: ::ffff:10.0.0.1, RoCE v2, chosen",
            "  not chosen: the kernel emulates it, and mlx5_0 is hardware",
        ],
        "{text}"
    );
    assert!(lines[6].starts_with("rxe0 "), "{text}");
    assert!(!text.contains("TRANSOM_DEVICE"), "{text}");
}

#[test]
fn the_device_that_the_environment_names_is_marked_with_what_it_names_there() {
    let marked = |spec: &str| -> Vec<String> {
        let text = text(Some(spec));
        let marked = text
            .lines()
            .filter(|line| line.ends_with("[TRANSOM_DEVICE]"));
        let first = |line: &str| line.split(' ').next().unwrap().to_owned();
        marked.map(first).collect()
    };
    assert_eq!(marked("soft:cma=off"), ["soft"]);
    assert_eq!(marked("rxe0"), ["rxe0"]);
    assert_eq!(marked("verbs"), ["mlx5_0"]);
    let text = text(Some("rxe0:1:0"));
    assert!(
        text.contains("GID 0: fe80::5054:ff:fe12:3456, RoCE v2, chosen"),
        "{text}"
    );
    assert!(text.contains("GID 1: ::ffff:10.0.0.1, RoCE v2\n"), "{text}");
}

#[test]
fn what_is_chosen_is_marked_with_the_jobs_that_it_is_chosen_for() {
    let mut devices = devices();
    for device in &mut devices {
        device.state = State::Ready;
    }
    let chosen = |spec: Option<&str>| {
        let rows = rows(devices.clone(), spec, &Seat::default()).0;
        let lines: [String; 3] = std::array::from_fn(|at| {
            let text = table::format(&rows[at..=at]);
            let text = anstream::adapter::strip_str(&text).to_string();
            let line = text.lines().find(|line| {
                line.starts_with("  ")
                    && line.contains("chosen")
                    && !line.starts_with("  port")
                    && !line.starts_with("   ")
            });
            line.unwrap_or_default().trim().to_owned()
        });
        (
            rows.iter().map(|row| row.chosen_for).collect::<Vec<_>>(),
            lines,
        )
    };
    let emulated = "not chosen: the kernel emulates it, and mlx5_0 is hardware";
    let another = "not chosen: TRANSOM_DEVICE names another";
    let (jobs, lines) = chosen(None);
    assert_eq!(jobs, [Some(Jobs::OneHost), Some(Jobs::SeveralHosts), None]);
    let (here, apart) = (
        "chosen for jobs on this host alone",
        "chosen for jobs on several hosts",
    );
    assert_eq!(lines, [here, apart, emulated]);
    let (jobs, lines) = chosen(Some("soft:map=off"));
    assert_eq!(jobs, [Some(Jobs::All), None, None]);
    assert_eq!(
        lines,
        ["chosen: TRANSOM_DEVICE names it", another, emulated]
    );
    let (jobs, lines) = chosen(Some("rxe0"));
    assert_eq!(jobs, [None, None, Some(Jobs::All)]);
    assert_eq!(lines, [another, another, "chosen: TRANSOM_DEVICE names it"]);
    // No job starts.
    assert_eq!(chosen(Some("warp0")).0, [None, None, None]);
}

#[test]
fn a_name_that_leads_nowhere_is_complained_about() {
    let complaint = |spec| {
        rows(devices(), Some(spec), &Seat::default())
            .1
            .unwrap_or_default()
    };
    assert!(complaint("mlx5_7").contains("known: soft, tcp, mlx5_0, rxe0"));
    assert!(complaint("rxe0:1:9").contains("no GID at index 9"));
    assert!(complaint("rxe0:one").contains("port \"one\""));
    assert_eq!(complaint("rxe0"), "");
}

#[test]
fn a_named_interface_is_the_only_one_that_is_shown() {
    let (rows, complaint) = rows(REGISTRY.list(), Some("tcp:lo"), &Seat::default());
    assert_eq!(complaint, None);
    let tcp = rows.iter().find(|row| row.device == "tcp").unwrap();
    let [address] = &tcp.addresses[..] else {
        panic!("{:?}", tcp.addresses);
    };
    assert!(address.starts_with("lo: "), "{address}");
    let complaint = super::rows(REGISTRY.list(), Some("tcp:no0"), &Seat::default()).1;
    let complaint = complaint.unwrap_or_default();
    assert!(
        complaint.contains("known: interfaces with an address"),
        "{complaint}"
    );
}

#[test]
fn json_has_it_all() {
    let rows = rows(devices(), Some("rxe0"), &Seat::default()).0;
    let parsed: Vec<Value> = json_lines(&rows)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(parsed[0]["ports"], serde_json::json!([]));
    assert_eq!(parsed[0]["limits"], Value::Null);
    assert_eq!(parsed[1]["ports"][0]["lid"], 31);
    assert_eq!(parsed[1]["usable"], false);
    assert_eq!(parsed[1]["atomic_domain"], Value::Null);
    let rxe = &parsed[2];
    assert_eq!(rxe["named"], true);
    assert_eq!(rxe["node_guid"], "5054:00ff:fe12:3456");
    assert_eq!(rxe["ports"][0]["netdev"], "dummy0");
    assert_eq!(rxe["ports"][0]["lid"], Value::Null);
    let gid = serde_json::json!({
        "index": 1, "gid": "::ffff:10.0.0.1", "type": "RoCE v2", "netdev": "dummy0", "chosen": true,
    });
    assert_eq!(rxe["ports"][0]["gids"][1], gid);
}

#[test]
fn whose_atomics_a_device_has_is_shown() {
    let mut devices = devices();
    let tcp = REGISTRY
        .list()
        .into_iter()
        .find(|info| info.joins_hosts && info.rdma.is_none());
    devices[2].capabilities = tcp.and_then(|info| info.capabilities);
    let shown = |devices: Vec<DeviceInfo>| {
        let rows = rows(devices, None, &Seat::default()).0;
        let json = json_lines(&rows).lines().last().unwrap().to_owned();
        let parsed: Value = serde_json::from_str(&json).unwrap();
        (table::format(&rows), parsed["agent_atomics"].clone())
    };
    let (text, agent) = shown(devices.clone());
    assert!(
        text.contains("8/16/32/64 bit, by the device and cpu"),
        "{text}"
    );
    assert_eq!(agent, false);
    assert!(!text.contains("by TCP, too"), "{text}");
    devices[2].rdma.as_mut().unwrap().agent_atomics = true;
    let (text, agent) = shown(devices);
    assert!(
        text.contains("8/16/32/64 bit, by an agent over TCP"),
        "{text}"
    );
    assert!(
        text.contains("so that hosts have to reach each other by TCP, too"),
        "{text}"
    );
    assert_eq!(agent, true);
}

#[test]
fn limits_are_shown_where_the_verbs_library_told_them() {
    let mut devices = devices();
    devices[2].state = State::Ready;
    devices[2].rdma.as_mut().unwrap().limits = Some(VerbsLimits {
        atomic_scope: Some(rdma_sys_shim::AtomicDomain::Device),
        max_inline: 64,
        max_message: 8 << 20,
        max_qp: 1_048_560,
        max_cqe: 32_767,
        max_mr: 524_287,
        max_qp_rd_atom: 128,
        active_mtu: 1024,
    });
    let rows = rows(devices, None, &Seat::default()).0;
    let text = table::format(&rows);
    let last = text.lines().last().unwrap();
    assert!(
        last.starts_with("  limits: atomics of device scope, inline 64 bytes, message 8388608"),
        "{last}"
    );
    assert!(
        last.contains("MTU 1024 bytes, 1048560 queue pairs, 32767 completion"),
        "{last}"
    );
    let parsed: Value = serde_json::from_str(json_lines(&rows).lines().last().unwrap()).unwrap();
    assert_eq!(parsed["limits"]["atomic_scope"], "device");
    assert_eq!(parsed["limits"]["max_qp_rd_atom"], 128);
    assert_eq!(parsed["usable"], true);
}
