mod machines;

use super::*;

const V1: GidType = GidType::IbOrRoceV1;
const V2: GidType = GidType::RoceV2;
const LOCAL: &str = "fe80::1";
const GLOBAL: &str = "2001:db8::1";
const MAPPED: &str = "::ffff:10.0.0.1";

fn port(number: u8, state: &str, link_layer: LinkLayer) -> Port {
    Port {
        number,
        state: state.to_owned(),
        phys_state: "Polling".to_owned(),
        link_layer,
        rate: "100 Gb/sec (4X EDR)".to_owned(),
        lid: 0,
        sm_lid: 0,
        netdev: None,
        gids: Vec::new(),
    }
}

fn device(name: &str, ports: Vec<Port>) -> RdmaDevice {
    RdmaDevice {
        name: name.to_owned(),
        node_guid: String::new(),
        firmware: None,
        emulated: name.starts_with("rxe") || name.starts_with("siw"),
        numa_node: None,
        iwarp: false,
        atomics: None,
        fails_to_open: false,
        ports,
    }
}

fn roce(gids: &[(u8, &str, GidType)]) -> Port {
    let mut port = port(1, "ACTIVE", LinkLayer::Ethernet);
    port.netdev = Some("eth0".to_owned());
    let entries = gids.iter().map(|&(index, gid, kind)| GidEntry {
        index,
        gid: gid.parse().unwrap(),
        kind,
        netdev: Some("eth0".to_owned()),
    });
    port.gids = entries.collect();
    port
}

fn infiniband(lid: u16) -> Port {
    let mut port = roce(&[(0, LOCAL, V1), (1, GLOBAL, V1)]);
    port.link_layer = LinkLayer::InfiniBand;
    port.netdev = None;
    port.lid = lid;
    port
}

fn pick(devices: &[RdmaDevice], spec: &str) -> Choice {
    choose(devices, &spec.parse().unwrap(), &Seat::default()).unwrap()
}

fn refusal(devices: &[RdmaDevice], spec: &str) -> String {
    choose(devices, &spec.parse().unwrap(), &Seat::default())
        .unwrap_err()
        .to_string()
}

/// The indexes chosen of these GIDs: the first one, and that of the other family.
fn gids(gids: &[(u8, &str, GidType)]) -> (u8, Option<u8>) {
    let choice = pick(&[device("rxe0", vec![roce(gids)])], "");
    let second = choice.second_gid.as_ref().map(|entry| entry.index);
    (choice.gid_index().unwrap(), second)
}

#[test]
fn ipv4_mapped_comes_before_global_before_link_local() {
    let all = [(0, LOCAL, V2), (1, GLOBAL, V2), (2, MAPPED, V2)];
    assert_eq!(gids(&all).0, 2);
    assert_eq!(gids(&all[..2]).0, 1);
    assert_eq!(gids(&all[..1]).0, 0);
    let equals = [(4, MAPPED, V2), (2, MAPPED, V2)];
    assert_eq!(gids(&equals).0, 2, "the lower of equals");
}

#[test]
fn the_best_of_the_other_family_is_kept_for_peers_without_the_first() {
    let all = [(0, LOCAL, V2), (1, MAPPED, V2), (2, GLOBAL, V2)];
    assert_eq!(gids(&all), (1, Some(2)));
    assert_eq!(gids(&all[..2]), (1, Some(0)));
    assert_eq!(gids(&[(0, LOCAL, V2), (1, GLOBAL, V2)]), (1, None));
    assert_eq!(gids(&[(0, MAPPED, V2), (1, MAPPED, V2)]), (0, None));
    let old = [(0, MAPPED, V2), (1, GLOBAL, V1), (2, LOCAL, V2)];
    assert_eq!(gids(&old), (0, Some(2)), "not of RoCE v1");
}

#[test]
fn a_gid_that_is_named_is_the_only_one() {
    let all = [(0, LOCAL, V2), (1, MAPPED, V2), (2, GLOBAL, V2)];
    let devices = [device("rxe0", vec![roce(&all)])];
    for index in 0..3 {
        let choice = pick(&devices, &format!("rxe0:1:{index}"));
        assert_eq!((choice.gid_index(), choice.second_gid), (Some(index), None));
    }
}

#[test]
fn roce_v1_is_never_chosen_by_the_rule() {
    let v2_is_last = [(0, MAPPED, V1), (1, LOCAL, V1), (2, LOCAL, V2)];
    assert_eq!(gids(&v2_is_last), (2, None));
    let devices = [device(
        "mlx5_0",
        vec![roce(&[(0, MAPPED, V1), (1, LOCAL, V1)])],
    )];
    let error = refusal(&devices, "");
    assert!(error.contains("has no GID of RoCE v2"), "{error}");
    assert!(error.contains("name its GID: mlx5_0:1:0"), "{error}");
    assert_eq!(pick(&devices, "mlx5_0:1:0").gid_index(), Some(0));
}

#[test]
fn infiniband_goes_by_lid_with_the_first_gid_for_global_headers() {
    let devices = [device("mlx5_0", vec![infiniband(7)])];
    let choice = pick(&devices, "mlx5_0");
    assert_eq!((choice.lid, choice.gid_index()), (7, Some(0)));
    assert_eq!(choice.link_layer, LinkLayer::InfiniBand);
    assert_eq!(choice.second_gid, None);
    assert_eq!(pick(&devices, "mlx5_0:1:1").gid_index(), Some(1));
}

#[test]
fn hardware_comes_before_emulation_and_names_in_order() {
    let good = || vec![roce(&[(1, MAPPED, V2)])];
    let down = vec![port(1, "DOWN", LinkLayer::Ethernet)];
    let devices = [
        device("irdma0", down),
        device("rxe0", good()),
        device("siw0", good()),
        device("zeta0", good()),
        device("mlx5_1", good()),
    ];
    assert_eq!(pick(&devices, "").device, "mlx5_1");
    assert_eq!(pick(&devices[..4], "verbs").device, "zeta0");
    assert_eq!(pick(&devices[..3], "").device, "rxe0");
    assert_eq!(pick(&devices, "rxe0").device, "rxe0");
}

#[test]
fn the_first_usable_port_is_taken_unless_one_is_named() {
    let mut second = roce(&[(3, MAPPED, V2)]);
    second.number = 2;
    let mut third = roce(&[(5, MAPPED, V2)]);
    third.number = 3;
    let ports = vec![port(1, "DOWN", LinkLayer::Ethernet), second, third];
    let devices = [device("mlx5_0", ports)];
    assert_eq!(pick(&devices, "mlx5_0").port, 2);
    assert_eq!(pick(&devices, "mlx5_0:3").port, 3);
    assert_eq!(pick(&devices, ":3").port, 3);
    assert_eq!(
        pick(&devices, "mlx5_0::5").port,
        3,
        "the port that has this GID"
    );
}

#[test]
fn an_unknown_name_is_refused_with_those_that_exist() {
    let devices = [device("rxe0", Vec::new()), device("rxe1", Vec::new())];
    let refused = choose(&devices, &"mlx5_0".parse().unwrap(), &Seat::default()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "no device \"mlx5_0\" (known: rxe0, rxe1)"
    );
    assert_eq!(
        crate::Error::from(refused).to_string(),
        "no device \"mlx5_0\" (known: soft, tcp, rxe0, rxe1)"
    );
    assert!(refusal(&[], "").starts_with("there is no RDMA device"));
    assert_eq!(refusal(&devices[..1], "rxe0"), "rxe0 has no port");
}

#[test]
fn an_unknown_port_is_refused_with_those_that_exist() {
    let devices = [device("rxe0", vec![roce(&[(1, MAPPED, V2)])])];
    assert_eq!(
        refusal(&devices, "rxe0:2"),
        "rxe0 has no port 2 (its ports: 1)"
    );
}

#[test]
fn a_port_that_is_down_is_refused_with_its_state_the_remedy_and_the_active_ones() {
    let mut down = port(1, "DOWN", LinkLayer::Ethernet);
    down.netdev = Some("dummy0".to_owned());
    let mut devices = vec![device("rxe0", vec![down])];
    assert_eq!(
        refusal(&devices, ""),
        "rxe0 port 1 is DOWN (`ip link set dummy0 up`; no port is ACTIVE)"
    );
    devices.push(device("rxe1", vec![roce(&[(1, MAPPED, V2)])]));
    assert_eq!(
        refusal(&devices, "rxe0:1"),
        "rxe0 port 1 is DOWN (`ip link set dummy0 up`; ACTIVE: rxe1:1)"
    );
    let fabric = [device(
        "mlx5_0",
        vec![port(1, "INIT", LinkLayer::InfiniBand)],
    )];
    let error = refusal(&fabric, "mlx5_0");
    assert!(error.contains("is INIT (a subnet manager"), "{error}");
    let cable = [device(
        "mlx5_0",
        vec![port(1, "DOWN", LinkLayer::InfiniBand)],
    )];
    let error = refusal(&cable, "mlx5_0");
    assert!(error.contains("in state Polling: check cable"), "{error}");
}

#[test]
fn where_nothing_is_usable_every_reason_is_given() {
    let devices = [
        device("rxe0", vec![port(1, "DOWN", LinkLayer::Ethernet)]),
        device(
            "mlx5_0",
            vec![roce(&[]), port(2, "INIT", LinkLayer::InfiniBand)],
        ),
    ];
    let error = refusal(&devices, "");
    assert!(
        error.starts_with("no port can be used: mlx5_0 port 1"),
        "{error}"
    );
    assert!(
        error.contains("mlx5_0 port 1 has no GID (give its network device"),
        "{error}"
    );
    assert!(
        error.contains("`ip addr add ADDRESS/PREFIX dev eth0`"),
        "{error}"
    );
    assert!(error.contains("; mlx5_0 port 2 is INIT"), "{error}");
    assert!(error.contains("; rxe0 port 1 is DOWN"), "{error}");
}

#[test]
fn an_unknown_gid_index_is_refused_with_those_that_exist() {
    let devices = [device(
        "rxe0",
        vec![roce(&[(0, LOCAL, V2), (1, MAPPED, V2)])],
    )];
    assert_eq!(
        refusal(&devices, "rxe0:1:9"),
        "rxe0 port 1 has no GID at index 9 (its GIDs: 0, 1)"
    );
    let empty = [device("rxe0", vec![roce(&[])])];
    let error = refusal(&empty, "rxe0:1:0");
    assert!(error.contains("(its GIDs: none)"), "{error}");
}

#[test]
fn a_gid_of_the_wrong_type_is_refused_with_those_of_the_right_one() {
    let gids = [
        (0, LOCAL, V1),
        (1, LOCAL, V2),
        (2, MAPPED, V1),
        (3, MAPPED, V2),
    ];
    let devices = [device("mlx5_0", vec![roce(&gids)])];
    let error = refusal(&devices, "mlx5_0:1:2");
    assert!(
        error.contains("index 2 of mlx5_0 port 1 is RoCE v1"),
        "{error}"
    );
    assert!(error.contains("RoCE v2: index 1, 3)"), "{error}");
    assert_eq!(pick(&devices, "mlx5_0:1:1").gid_index(), Some(1));
}

#[test]
fn what_cannot_carry_a_queue_pair_is_refused() {
    let mut iwarp = device("siw0", vec![roce(&[(0, LOCAL, V1)])]);
    iwarp.iwarp = true;
    let error = refusal(&[iwarp], "siw0");
    assert!(error.contains("it is iWARP"), "{error}");
    let odd = [device("efa_0", vec![port(1, "ACTIVE", LinkLayer::Other)])];
    let error = refusal(&odd, "efa_0");
    assert!(error.contains("neither InfiniBand nor Ethernet"), "{error}");
}

#[test]
fn devices_without_an_active_port_do_not_count() {
    let active = || roce(&[(0, MAPPED, V2)]);
    let down = || port(2, "DOWN", LinkLayer::Ethernet);
    let mut devices = vec![device("mlx5_0", vec![active()])];
    let is_one_of_several = |devices: &[RdmaDevice]| pick(devices, "mlx5_0:1").is_one_of_several;
    assert!(!is_one_of_several(&devices));
    let mut second = active();
    second.number = 2;
    devices[0].ports.push(second);
    devices.push(device("mlx5_1", vec![down()]));
    assert!(!is_one_of_several(&devices), "two ports of one device");
    devices.push(device("mlx5_2", vec![down(), active()]));
    assert!(is_one_of_several(&devices));
}
