//! Made-up machines, read as the kernel would show them: which device each of their ranks takes, and why.

use std::fmt::Display;
use std::fs;
use std::path::Path;

use super::*;
use crate::rdma::{CLASS, read, standings};

/// The files of a machine.
struct Machine(tempfile::TempDir);

impl Machine {
    /// With this many sockets of four processors each.
    fn new(sockets: u32) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        for socket in 0..sockets {
            let node = format!("/sys/devices/system/node/node{socket}");
            let distances = (0..sockets).map(|other| if other == socket { "10" } else { "21" });
            machine.put(
                &format!("{node}/distance"),
                distances.collect::<Vec<_>>().join(" "),
            );
            for cpu in 4 * socket..4 * socket + 4 {
                machine.put(&format!("{node}/cpu{cpu}/online"), 1);
            }
        }
        machine
    }

    fn put(&self, file: &str, content: impl Display) {
        let path = self.0.path().join(file.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{content}\n")).unwrap();
    }

    fn device(&self, name: &str, node: i32, state: &str, link_layer: &str, rate: &str) -> String {
        let device = format!("{CLASS}/{name}");
        self.put(&format!("{device}/device/numa_node"), node);
        let port = format!("{device}/ports/1");
        self.put(&format!("{port}/state"), state);
        self.put(&format!("{port}/link_layer"), link_layer);
        self.put(&format!("{port}/rate"), rate);
        port
    }

    fn infiniband(&self, name: &str, node: i32, rate: &str) {
        let port = self.device(name, node, "4: ACTIVE", "InfiniBand", rate);
        let lids = self.devices().len();
        self.put(&format!("{port}/lid"), format!("{lids:#x}"));
        self.put(&format!("{port}/sm_lid"), "0x1");
        self.put(&format!("{port}/gids/0"), "fec0:0:0:1:9803:9b03:0:1");
    }

    /// On the network 10.NETWORK.0.0/16.
    fn roce(&self, name: &str, node: i32, rate: &str, network: u8) {
        let port = self.device(name, node, "4: ACTIVE", "Ethernet", rate);
        self.put(
            &format!("{port}/gids/3"),
            format!("::ffff:10.{network}.0.1"),
        );
        self.put(&format!("{port}/gid_attrs/types/3"), "RoCE v2");
        self.put(&format!("{port}/gid_attrs/ndevs/3"), format!("net_{name}"));
        let routes = self.0.path().join("proc/net/route");
        let before = fs::read_to_string(&routes).unwrap_or_default();
        let number = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let (network, mask) = (number([10, network, 0, 0]), number([255, 255, 0, 0]));
        let route = format!("net_{name}\t{network}\t00000000\t0001\t0\t0\t0\t{mask}\t0\t0\t0");
        self.put("/proc/net/route", format!("{before}{route}"));
    }

    fn soft_roce(&self, name: &str) {
        self.roce(name, -1, "2.5 Gb/sec (1X SDR)", 9);
        self.put(&format!("{CLASS}/{name}/parent"), "eth0");
    }

    fn devices(&self) -> Vec<RdmaDevice> {
        read(&self.0.path().join(CLASS.trim_start_matches('/')))
    }

    /// What a rank takes that is bound to these processors, as the one with this number among its like.
    fn taken(&self, processors: &[u32], position: u32) -> String {
        let seat = Seat::read(self.0.path(), processors).with_position(position);
        let choice = choose(&self.devices(), &Selector::default(), &seat).unwrap();
        choice.device
    }

    fn why(&self, processors: &[u32]) -> Vec<String> {
        let seat = Seat::read(self.0.path(), processors);
        let all = standings(&self.devices(), &Selector::default(), &seat);
        let mut lines: Vec<_> = all
            .iter()
            .map(|standing| format!("{}: {}", standing.device, standing.words))
            .collect();
        lines.sort();
        lines
    }
}

const NDR: &str = "400 Gb/sec (4X NDR)";
const EDR: &str = "100 Gb/sec (4X EDR)";
const SLOW: &str = "25 Gb/sec (1X EDR)";

#[test]
fn eight_adapters_on_two_sockets_are_shared_out_among_the_ranks_near_them() {
    let machine = Machine::new(2);
    for adapter in 0..8 {
        machine.infiniband(&format!("mlx5_{adapter}"), adapter / 4, NDR);
    }
    let near = |processors: &[u32]| -> Vec<String> {
        (0..5)
            .map(|position| machine.taken(processors, position))
            .collect()
    };
    assert_eq!(
        near(&[0]),
        ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_0"]
    );
    assert_eq!(
        near(&[6, 7]),
        ["mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7", "mlx5_4"]
    );
    let all: Vec<_> = (0..9)
        .map(|position| machine.taken(&[0, 4], position))
        .collect();
    assert_eq!(
        (all[3].as_str(), all[4].as_str(), all[8].as_str()),
        ("mlx5_3", "mlx5_4", "mlx5_0")
    );
    let why = machine.why(&[4]);
    assert_eq!(
        why[0],
        "mlx5_0: not chosen: NUMA distance 21 from this process's processors, mlx5_4 10"
    );
    assert_eq!(why[4], "mlx5_4: chosen");
    assert!(
        why[5].starts_with("mlx5_5: chosen in turn: as good as mlx5_4"),
        "{why:?}"
    );
    assert_eq!(why.len(), 8);
}

#[test]
fn the_faster_one_is_taken_though_its_name_comes_later_and_it_is_farther() {
    let machine = Machine::new(2);
    machine.roce("mlx5_0", 0, SLOW, 1);
    machine.roce("mlx5_1", 1, NDR, 1);
    machine.soft_roce("rxe0");
    assert_eq!(machine.taken(&[0], 0), "mlx5_1");
    assert_eq!(machine.taken(&[0], 1), "mlx5_1");
    assert_eq!(
        machine.why(&[0]),
        [
            "mlx5_0: not chosen: 25 Gb/s, where mlx5_1 has 400",
            "mlx5_1: chosen",
            "rxe0: not chosen: the kernel emulates it, and mlx5_1 is hardware",
        ]
    );
}

#[test]
fn an_adapter_without_atomics_comes_after_one_that_has_them_and_before_emulation() {
    let machine = Machine::new(1);
    machine.roce("irdma0", 0, NDR, 1);
    machine.roce("mlx5_0", 0, SLOW, 1);
    machine.soft_roce("rxe0");
    let mut devices = machine.devices();
    devices[0].atomics = Some(false);
    let seat = Seat::read(machine.0.path(), &[0]);
    let taken = |devices: &[RdmaDevice]| {
        let choice = choose(devices, &Selector::default(), &seat).unwrap();
        choice.device
    };
    assert_eq!(taken(&machine.devices()), "irdma0");
    assert_eq!(taken(&devices), "mlx5_0");
    let why = standings(&devices, &Selector::default(), &seat);
    let of = |name: &str| why.iter().find(|one| one.device == name).unwrap();
    assert_eq!(
        of("irdma0").words,
        "not chosen: it has no atomics, and mlx5_0 has"
    );
    devices.remove(1);
    assert_eq!(taken(&devices), "irdma0");
}

#[test]
fn a_device_that_is_down_is_not_counted() {
    let machine = Machine::new(1);
    machine.infiniband("mlx5_0", 0, NDR);
    machine.device("mlx5_1", 0, "1: DOWN", "InfiniBand", NDR);
    machine.infiniband("mlx5_2", 0, NDR);
    let taken: Vec<_> = (0..3)
        .map(|position| machine.taken(&[0], position))
        .collect();
    assert_eq!(taken, ["mlx5_0", "mlx5_2", "mlx5_0"]);
    let named: Selector = "mlx5_1".parse().unwrap();
    let refused = choose(&machine.devices(), &named, &Seat::default()).unwrap_err();
    assert!(
        refused.to_string().contains("ACTIVE: mlx5_0:1, mlx5_2:1"),
        "{refused}"
    );
}

#[test]
fn infiniband_comes_before_ethernet_of_the_same_speed() {
    let machine = Machine::new(1);
    machine.roce("mlx5_0", 0, EDR, 1);
    machine.infiniband("mlx5_1", 0, EDR);
    machine.roce("mlx5_2", 0, EDR, 1);
    assert_eq!(
        (machine.taken(&[0], 0), machine.taken(&[0], 1)),
        ("mlx5_1".into(), "mlx5_1".into())
    );
    assert_eq!(
        machine.why(&[0])[0],
        "mlx5_0: not chosen: Ethernet, where mlx5_1 is on InfiniBand"
    );
}

#[test]
fn only_those_of_one_network_are_shared_out() {
    let machine = Machine::new(1);
    for (name, network) in [("mlx5_0", 1), ("mlx5_1", 2), ("mlx5_2", 1)] {
        machine.roce(name, 0, EDR, network);
    }
    let taken: Vec<_> = (0..3)
        .map(|position| machine.taken(&[0], position))
        .collect();
    assert_eq!(taken, ["mlx5_0", "mlx5_2", "mlx5_0"]);
    assert_eq!(
        machine.why(&[0])[1],
        "mlx5_1: not chosen: on another network than mlx5_0, and the ranks of a job have to meet on one"
    );
    // Another network by InfiniBand is another prefix.
    let machine = Machine::new(1);
    machine.infiniband("mlx5_0", 0, EDR);
    machine.infiniband("mlx5_1", 0, EDR);
    let prefix = format!("{CLASS}/mlx5_1/ports/1/gids/0");
    machine.put(&prefix, "fec0:0:0:2:9803:9b03:0:1");
    assert_eq!(machine.taken(&[0], 1), "mlx5_0");
}

#[test]
fn ranks_of_two_sockets_take_one_fabric_where_the_rails_are_apart() {
    let machine = Machine::new(2);
    machine.roce("mlx5_0", 0, EDR, 2);
    machine.roce("mlx5_1", 1, EDR, 1);
    let sockets = [&[0][..], &[4], &[0, 4]];
    assert_eq!(sockets.map(|near| machine.taken(near, 0)), ["mlx5_1"; 3]);
    assert_eq!(machine.taken(&[0], 1), "mlx5_1");
    assert_eq!(
        machine.why(&[0])[0],
        "mlx5_0: not chosen: on another network than mlx5_1, and the ranks of a job have to meet on one"
    );
    // On one network, each takes the nearer one.
    let machine = Machine::new(2);
    machine.roce("mlx5_0", 0, EDR, 1);
    machine.roce("mlx5_1", 1, EDR, 1);
    assert_eq!(machine.taken(&[0], 0), "mlx5_0");
    assert_eq!(machine.taken(&[4], 0), "mlx5_1");
}

/// Two adapters on two sockets, on subnets of the default prefix, with the LIDs of their ports and their managers.
fn of_default_prefix(lids: [(&str, &str); 2]) -> Machine {
    let machine = Machine::new(2);
    for (adapter, (lid, manager)) in (0..).zip(lids) {
        let name = format!("mlx5_{adapter}");
        machine.infiniband(&name, adapter, EDR);
        let port = format!("{CLASS}/{name}/ports/1");
        machine.put(&format!("{port}/gids/0"), "fe80::9803:9b03:0:1");
        machine.put(&format!("{port}/lid"), lid);
        machine.put(&format!("{port}/sm_lid"), manager);
    }
    machine
}

impl Machine {
    fn default_prefix(&self) -> Option<DefaultPrefix> {
        let seat = Seat::read(self.0.path(), &[0, 4]);
        default_prefix(&self.devices(), &Selector::default(), &seat)
    }
}

#[test]
fn two_fabrics_of_the_default_prefix_are_told_apart_by_their_managers() {
    let apart = of_default_prefix([("0x5", "0x2"), ("0x7", "0x1")]);
    assert_eq!(
        [&[0][..], &[4]].map(|near| apart.taken(near, 0)),
        ["mlx5_1"; 2]
    );
    assert_eq!(apart.default_prefix(), None);
    let one = of_default_prefix([("0x5", "0x1"), ("0x7", "0x1")]);
    assert_eq!(
        [&[0][..], &[4]].map(|near| one.taken(near, 0)),
        ["mlx5_0", "mlx5_1"]
    );
    let found = one.default_prefix().unwrap();
    assert_eq!(
        (found.ports.join(" "), found.common_lid),
        ("mlx5_0:1 mlx5_1:1".to_owned(), None)
    );
}

#[test]
fn two_fabrics_whose_managers_have_one_lid_are_not_shared_out_where_ports_have_one_too() {
    let machine = of_default_prefix([("0x5", "0x1"), ("0x5", "0x1")]);
    let taken = [0, 1].map(|position| machine.taken(&[0, 4], position));
    assert_eq!(taken, ["mlx5_0"; 2]);
    assert_eq!(machine.default_prefix().unwrap().common_lid, Some(5));
}

/// A port with GIDs in its table from index 1 on, each of a network device, and the network devices of this namespace.
fn with_gids(gids: &[(&str, &str)], netdevs: &[&str]) -> Machine {
    let machine = Machine::new(1);
    machine.roce("mlx5_0", 0, EDR, 1);
    let port = format!("{CLASS}/mlx5_0/ports/1");
    fs::remove_file(machine.0.path().join(&port[1..]).join("gids/3")).unwrap();
    for (index, (gid, netdev)) in (1..).zip(gids) {
        machine.put(&format!("{port}/gids/{index}"), gid);
        machine.put(&format!("{port}/gid_attrs/types/{index}"), "RoCE v2");
        machine.put(&format!("{port}/gid_attrs/ndevs/{index}"), netdev);
    }
    let lines = netdevs.iter().map(|name| format!("{name}: 0 0\n"));
    machine.put("/proc/net/dev", lines.collect::<String>());
    machine
}

impl Machine {
    fn gids(&self, subnet: Option<&str>) -> Result<(Option<u8>, Option<u8>), String> {
        let seat = Seat::read(self.0.path(), &[0]).with_subnet(subnet.map(str::to_owned));
        let chosen = choose(&self.devices(), &Selector::default(), &seat);
        let chosen = chosen.map_err(|error| error.to_string())?;
        let second = chosen.second_gid.as_ref().map(|entry| entry.index);
        Ok((chosen.gid_index(), second))
    }
}

#[test]
fn gids_of_other_network_namespaces_come_last() {
    let table = [
        ("::ffff:192.0.2.1", "veth7"),
        ("fe80::1", "eth0"),
        ("2001:db8::1", "eth0"),
        ("::ffff:10.1.0.9", "eth0.100"),
    ];
    let gids = |netdevs: &[&str]| with_gids(&table, netdevs).gids(None).unwrap();
    assert_eq!(gids(&["lo", "eth0", "eth0.100"]), (Some(4), Some(3)));
    assert_eq!(
        gids(&["lo", "eth0"]),
        (Some(3), None),
        "IPv6, before IPv4 elsewhere"
    );
    assert_eq!(gids(&["lo"]), (Some(1), Some(3)), "none is here");
    assert_eq!(gids(&[]), (Some(1), Some(3)), "nothing is known");
    // Of a device of the same name in another namespace: an address of no network that this one is on.
    let twice = [
        ("::ffff:172.16.0.5", "net_mlx5_0"),
        ("::ffff:10.1.0.9", "net_mlx5_0"),
    ];
    let machine = with_gids(&twice, &["lo", "net_mlx5_0"]);
    assert_eq!(machine.gids(None), Ok((Some(2), None)));
}

#[test]
fn a_port_whose_gids_are_all_of_other_network_namespaces_comes_after_others() {
    let machine = with_gids(&[("::ffff:192.0.2.1", "veth7")], &["lo", "net_rxe0"]);
    machine.soft_roce("rxe0");
    let taken = || machine.taken(&[0], 0);
    assert_eq!(taken(), "rxe0");
    let seat = Seat::read(machine.0.path(), &[0]);
    let why = standings(&machine.devices(), &Selector::default(), &seat);
    assert_eq!(
        why[1].words,
        "not chosen: its GIDs are of other network namespaces, and one of rxe0 is of this one"
    );
    machine.put("/proc/net/dev", "veth7: 0 0\nnet_rxe0: 0 0\n");
    assert_eq!(taken(), "mlx5_0");
}

#[test]
fn a_subnet_that_is_named_restricts_the_choice() {
    let table = [
        ("::ffff:10.1.0.1", "eth0"),
        ("::ffff:10.2.0.1", "eth0.2"),
        ("2001:db8::1", "eth0"),
    ];
    let machine = with_gids(&table, &["eth0", "eth0.2"]);
    assert_eq!(machine.gids(Some("10.2.0.0/16")), Ok((Some(2), None)));
    assert_eq!(machine.gids(Some("2001:db8::/32")), Ok((Some(3), None)));
    assert_eq!(
        machine.gids(Some("10.3.0.0/16")).unwrap_err(),
        "mlx5_0 port 1 has no GID in TRANSOM_RDMA_SUBNET=10.3.0.0/16 (its GIDs: ::ffff:10.1.0.1, ::ffff:10.2.0.1, \
         2001:db8::1)"
    );
    let malformed = machine.gids(Some("10.3.0.0")).unwrap_err();
    assert!(
        malformed.starts_with("TRANSOM_RDMA_SUBNET=10.3.0.0 is not a subnet (the form is"),
        "{malformed}"
    );
    // A GID that is named is taken.
    let seat = Seat::default().with_subnet(Some("10.3.0.0/16".to_owned()));
    let named = choose(&machine.devices(), &"mlx5_0:1:2".parse().unwrap(), &seat).unwrap();
    assert_eq!(named.gid_index(), Some(2));

    let machine = Machine::new(1);
    machine.infiniband("mlx5_0", 0, EDR);
    machine.infiniband("mlx5_1", 0, EDR);
    machine.put(
        &format!("{CLASS}/mlx5_1/ports/1/gids/0"),
        "fec0:0:0:2:9803:9b03:0:1",
    );
    let taken = |subnet: &str| {
        let seat = Seat::read(machine.0.path(), &[0]).with_subnet(Some(subnet.to_owned()));
        choose(&machine.devices(), &Selector::default(), &seat).map(|choice| choice.device)
    };
    assert_eq!(taken("fec0:0:0:2::/64").unwrap(), "mlx5_1");
    assert!(taken("fec0:0:0:3::/64").is_err());
}

#[test]
fn where_nothing_is_known_of_networks_nodes_and_rates_the_first_name_is_taken_by_all() {
    let machine = Machine::new(1);
    for name in ["mlx5_1", "mlx5_0"] {
        machine.roce(name, -1, "", 1);
    }
    fs::remove_dir_all(machine.0.path().join("proc")).unwrap();
    assert_eq!(
        (machine.taken(&[], 0), machine.taken(&[], 1)),
        ("mlx5_0".into(), "mlx5_0".into())
    );
}

#[test]
fn soft_roce_is_known_by_what_is_under_it_and_not_by_its_name() {
    let machine = Machine::new(1);
    machine.soft_roce("fabric0");
    machine.roce("rxe7", 0, "1 Gb/sec", 1);
    assert_eq!(machine.taken(&[0], 0), "rxe7");
    // Later kernels say no more than that there is no device of the machine's.
    let machine = Machine::new(1);
    machine.soft_roce("fabric0");
    let folder = machine
        .0
        .path()
        .join(CLASS.trim_start_matches('/'))
        .join("fabric0");
    fs::remove_file(folder.join("parent")).unwrap();
    assert!(!machine.devices()[0].emulated, "it has a device still");
    fs::remove_dir_all(folder.join("device")).unwrap();
    assert!(machine.devices()[0].emulated);
}

#[test]
fn ports_of_one_adapter_are_shared_out_too() {
    let machine = Machine::new(1);
    machine.infiniband("mlx5_0", 0, EDR);
    let second = format!("{CLASS}/mlx5_0/ports/2");
    for (file, content) in [
        ("state", "4: ACTIVE"),
        ("link_layer", "InfiniBand"),
        ("rate", EDR),
        ("lid", "0x20"),
        ("sm_lid", "0x1"),
        ("gids/0", "fec0:0:0:1:9803:9b03:0:2"),
    ] {
        machine.put(&format!("{second}/{file}"), content);
    }
    let port = |position| {
        let seat = Seat::read(machine.0.path(), &[0]).with_position(position);
        choose(&machine.devices(), &Selector::default(), &seat)
            .unwrap()
            .port
    };
    assert_eq!([port(0), port(1), port(2)], [1, 2, 1]);
}

#[test]
fn files_that_are_missing_are_read_without_complaint() {
    let seat = Seat::read(Path::new("/no/such/folder"), &[0]);
    assert_eq!(seat, Seat::default());
}
