//! RDMA: the requirements of a device, with one missing at a time.

use super::*;

#[test]
fn a_port_that_is_down_is_a_failure_if_it_is_named_and_else_a_warning() {
    let fake = Fake::good();
    fake.put(&format!("{GIDS}/state"), "1: DOWN");
    for (spec, level) in [
        ("", Level::Warning),
        ("rxe0", Level::Failure),
        ("rxe0:1:1", Level::Failure),
        ("verbs", Level::Failure),
    ] {
        assert_eq!(
            fake.examine(spec).sole(level, "port"),
            "port: rxe0 port 1 is DOWN -> `ip link set dummy0 up`; no port is ACTIVE"
        );
    }
    let verdict = fake.examine("").0.pop().unwrap().found;
    assert_eq!(
        verdict,
        "jobs on this machine use soft: ready, with warnings (port)"
    );
    assert_eq!(exit_code(&fake.examine("soft").0), 0, "soft needs no port");
}

#[test]
fn atomics_by_an_agent_need_tcp() {
    let mut fake = Fake::good();
    fake.probes.asked = vec![Asked {
        device: "rxe0".to_owned(),
        atomics_by_agent: true,
        ..Asked::default()
    }];
    let found = |fake: &Fake, spec| {
        let report = fake.examine(spec);
        let finding = report.only("atomics");
        (finding.level, finding.found.clone())
    };
    let said = "a thread of the target carries out those of rxe0, over TCP";
    let other = format!("{said}, so that hosts have to reach each other by TCP, too");
    assert_eq!(found(&fake, "rxe0"), (Level::Ok, other));
    fake.probes.tcp = Err("no interface is up".to_owned());
    let other = format!("{said}, which cannot be used: no interface is up");
    assert_eq!(found(&fake, ""), (Level::Warning, other.clone()));
    assert_eq!(found(&fake, "verbs"), (Level::Failure, other));
}

#[test]
fn a_port_without_a_gid_is_a_failure() {
    let fake = Fake::good();
    fake.remove(&format!("{GIDS}/gids"));
    assert_eq!(
        fake.examine("verbs").sole(Level::Failure, "GID"),
        "GID: rxe0 port 1 has no GID -> give its network device an address: `ip addr add \
         ADDRESS/PREFIX dev dummy0`"
    );
}

#[test]
fn a_gid_that_is_nobodys_address_is_a_failure_and_a_link_local_one_a_warning() {
    let fake = Fake::good();
    fake.remove(&format!("{GIDS}/gids/1"));
    let line = fake.examine("verbs").sole(Level::Failure, "GID");
    assert!(line.contains("is not an address of dummy0"), "{line}");
    assert!(
        line.ends_with("-> `ip addr add ADDRESS/PREFIX dev dummy0`"),
        "{line}"
    );

    let address = "fe80000000000000505400fffe123456 03 40 20 80";
    fake.put("/proc/net/if_inet6", &format!("{address}     eth1"));
    fake.examine("verbs").sole(Level::Failure, "GID");
    fake.put("/proc/net/if_inet6", &format!("{address}   dummy0"));
    let line = fake.examine("verbs").sole(Level::Warning, "GID");
    assert!(line.contains("is link-local"), "{line}");
}

#[test]
fn roce_v1_alone_is_a_failure_unless_it_is_named() {
    let fake = Fake::good();
    fake.remove(&format!("{GIDS}/gids/0"));
    fake.gid(1, "0000:0000:0000:0000:0000:ffff:0a00:0001", "IB/RoCE v1");
    let line = fake.examine("verbs").sole(Level::Failure, "GID");
    assert!(
        line.contains("no GID of RoCE v2 -> to use RoCE v1, name its GID: rxe0:1:1"),
        "{line}"
    );
    assert_eq!(exit_code(&fake.examine("rxe0:1:1").0), 0);
}

#[test]
fn a_named_gid_that_is_not_there_is_a_failure() {
    let line = Fake::good().examine("rxe0:1:7").sole(Level::Failure, "GID");
    assert_eq!(
        line,
        "GID: rxe0 port 1 has no GID at index 7 -> its GIDs: 0, 1"
    );
}

#[test]
fn a_name_or_port_that_is_not_there_is_a_failure_of_the_device() {
    let fake = Fake::good();
    let found = |spec| {
        let report = fake.examine(spec);
        assert_eq!(exit_code(&report.0), 2, "{}", text(&report.0));
        let device = report.only("device");
        assert_eq!(device.level, Level::Failure);
        (
            device.found.clone(),
            device.remedy.clone().unwrap_or_default(),
        )
    };
    assert!(found("mlx5_0").0.contains("known: soft, tcp, rxe0"));
    assert_eq!(
        found("rxe0:2"),
        ("rxe0 has no port 2".to_owned(), "its ports: 1".to_owned())
    );
    assert!(found("rxe0:x").1.contains("NAME[:PORT[:GID]]"));
}

#[test]
fn what_a_spare_device_lacks_is_a_remark() {
    let fake = Fake::good();
    fake.rxe("rxe1", "uverbs1");
    fake.put("/sys/class/infiniband/rxe1/ports/1/state", "1: DOWN");
    fake.remove("/dev/infiniband/uverbs1");
    let report = fake.examine("");
    assert_eq!(exit_code(&report.0), 0, "{}", text(&report.0));
    assert!(text(&report.0).contains("ok       port: rxe1 port 1 is DOWN\n"));
    let line = fake.examine("rxe1:1");
    assert_eq!(exit_code(&line.0), 2);
    assert!(
        text(&line.0).contains("ACTIVE: rxe0:1"),
        "{}",
        text(&line.0)
    );
    assert!(
        !text(&line.0).contains("rxe0 port 1"),
        "only the device asked for"
    );
}

#[test]
fn a_device_with_atomics_is_the_one_that_is_judged() {
    let mut fake = Fake::good();
    fake.rxe("rxe1", "uverbs1");
    fake.put(
        "/sys/class/infiniband/rxe1/ports/1/gids/0",
        "::ffff:10.0.0.2",
    );
    fake.put(
        "/sys/class/infiniband/rxe1/ports/1/gid_attrs/types/0",
        "RoCE v2",
    );
    fake.remove("/dev/infiniband/uverbs1");
    assert_eq!(exit_code(&fake.examine("verbs").0), 0, "rxe0 is used");
    fake.probes.asked = vec![Asked {
        device: "rxe0".to_owned(),
        lacks_atomics: true,
        ..Asked::default()
    }];
    let text = text(&fake.examine("verbs").0);
    let line = "FAILURE  device file: /dev/infiniband/uverbs1 of rxe1: ";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_device_file_that_is_missing_or_closed_is_a_failure() {
    let fake = Fake::good();
    fake.remove("/dev/infiniband/uverbs0");
    let line = fake.examine("verbs").sole(Level::Failure, "device file");
    assert!(
        line.contains("/dev/infiniband/uverbs0 of rxe0: No such file"),
        "{line}"
    );
    assert!(
        line.contains("`--device /dev/infiniband/uverbs0` for a container"),
        "{line}"
    );
    // Root may open any file, but no folder.
    fake.put("/dev/infiniband/uverbs0/in", "");
    let line = fake.examine("verbs").sole(Level::Failure, "device file");
    assert!(
        line.contains("-> `chmod 666 /dev/infiniband/uverbs0`"),
        "{line}"
    );
}

#[test]
fn modules_that_are_not_loaded_are_named_with_the_command() {
    let fake = Fake::good();
    fake.remove("/sys/module/ib_uverbs");
    assert_eq!(
        exit_code(&fake.examine("").0),
        0,
        "built in, as its class shows"
    );
    fake.remove("/sys/class/infiniband_verbs");
    let report = fake.examine("verbs");
    let modules = report.only("kernel modules");
    assert_eq!(modules.level, Level::Failure);
    assert_eq!(modules.found, "ib_uverbs not loaded");
    assert!(
        modules
            .remedy
            .as_ref()
            .unwrap()
            .starts_with("`modprobe -a ib_uverbs`")
    );
    assert_eq!(report.only("device file").found, "rxe0 has none");
}

#[test]
fn no_rdma_at_all_is_well_unless_it_is_asked_for() {
    let fake = Fake::without_rdma();
    for spec in ["", "soft"] {
        let report = fake.examine(spec);
        assert_eq!(exit_code(&report.0), 0, "{}", text(&report.0));
    }
    let rdma = fake.examine("").only("RDMA").found.clone();
    assert!(rdma.contains("`transom doctor --device verbs`"), "{rdma}");
    for spec in ["verbs", "rxe0"] {
        let report = fake.examine(spec);
        assert_eq!(report.only("device").level, Level::Failure, "{spec}");
        assert_eq!(exit_code(&report.0), 2);
        let modules = &report.only("kernel modules").found;
        assert_eq!(modules, "ib_core, ib_uverbs, rdma_rxe not loaded");
    }
}

#[test]
fn a_build_without_the_provider_matters_where_there_is_a_device_or_one_is_named() {
    let mut fake = Fake::good();
    fake.probes.verbs = false;
    let line = fake.examine("").sole(Level::Warning, "verbs provider");
    assert!(line.ends_with("-> build with `--features verbs`"), "{line}");
    fake.examine("rxe0").sole(Level::Failure, "verbs provider");
    assert_eq!(exit_code(&fake.examine("soft").0), 0);
    let mut bare = Fake::without_rdma();
    bare.probes.verbs = false;
    assert_eq!(exit_code(&bare.examine("").0), 0);
}

#[test]
fn infiniband_needs_no_gid_and_iwarp_is_refused() {
    let fake = Fake::good();
    fake.put(&format!("{GIDS}/link_layer"), "InfiniBand");
    fake.put(&format!("{GIDS}/lid"), "0x1f");
    fake.put(&format!("{GIDS}/rate"), "100 Gb/sec (4X EDR)");
    fake.remove(&format!("{GIDS}/gids"));
    let report = fake.examine("");
    assert_eq!(exit_code(&report.0), 0, "{}", text(&report.0));
    let found = &report.only("port").found;
    assert_eq!(
        found,
        "rxe0 port 1 is ACTIVE, InfiniBand, LID 31, 100 Gb/sec (4X EDR)"
    );

    fake.put("/sys/class/infiniband/rxe0/node_type", "4: RNIC");
    let report = fake.examine("verbs");
    let port = report.only("port");
    assert_eq!(port.level, Level::Failure);
    assert!(port.found.contains("it is iWARP"), "{port:?}");
}

#[test]
fn two_infiniband_subnets_that_cannot_be_told_apart_are_a_warning() {
    let fake = Fake::good();
    let set = |device: &str, lid: &str| {
        let port = format!("/sys/class/infiniband/{device}/ports/1");
        fake.put(&format!("{port}/link_layer"), "InfiniBand");
        fake.put(&format!("{port}/lid"), lid);
        fake.put(&format!("{port}/sm_lid"), "0x1");
        fake.put(&format!("{port}/gids/0"), "fe80:0:0:0:5054:ff:fe12:3456");
    };
    fake.rxe("rxe1", "uverbs1");
    set("rxe0", "0x5");
    set("rxe1", "0x6");
    let report = fake.examine("verbs");
    assert_eq!(exit_code(&report.0), 0, "{}", text(&report.0));
    let found = &report.only("InfiniBand subnets").found;
    assert!(
        found.starts_with("rxe0:1, rxe1:1 have the default prefix"),
        "{found}"
    );
    set("rxe1", "0x5");
    let line = fake
        .examine("verbs")
        .sole(Level::Warning, "InfiniBand subnets");
    assert!(
        line.contains("two of them LID 5") && line.contains("`subnet_prefix` of opensm"),
        "{line}"
    );
}

#[test]
fn a_slot_that_a_port_has_to_wait_for_is_a_warning() {
    let fake = Fake::good();
    let link = |now: (&str, &str), most: (&str, &str)| {
        for (which, (width, speed)) in [("current", now), ("max", most)] {
            let device = "/sys/class/infiniband/rxe0/device";
            fake.put(&format!("{device}/{which}_link_width"), width);
            fake.put(&format!("{device}/{which}_link_speed"), speed);
        }
    };
    let best = ("16", "16.0 GT/s PCIe");
    fake.put(&format!("{GIDS}/rate"), "200 Gb/sec (4X HDR)");
    // As of virtual functions.
    link(("0", "Unknown"), ("0", "Unknown"));
    let has_slot = |report: &Report| report.0.iter().any(|one| one.check == "slot");
    assert!(!has_slot(&fake.examine("rxe0")));
    link(best, best);
    assert_eq!(
        fake.examine("rxe0").only("slot").found,
        "rxe0: PCIe x16 at 16 GT/s, its most"
    );
    link(("8", "16.0 GT/s PCIe"), best);
    let line = fake.examine("rxe0").sole(Level::Warning, "slot");
    let found = "slot: rxe0: PCIe x8 at 16 GT/s, of at most x16 at 16 GT/s, which is slower than its port of 200 Gb/s";
    assert!(line.starts_with(found), "{line}");
    fake.put(&format!("{GIDS}/rate"), "100 Gb/sec (4X EDR)");
    assert_eq!(
        exit_code(&fake.examine("rxe0").0),
        0,
        "the slot is fast enough"
    );
    link(("4", "5.0 GT/s PCIe"), ("4", "5.0 GT/s PCIe"));
    assert_eq!(exit_code(&fake.examine("rxe0").0), 0, "no other slot helps");
    // 16 of 20 bits are data.
    link(("4", "5.0 GT/s PCIe"), best);
    fake.put(&format!("{GIDS}/rate"), "20 Gb/sec (4X DDR)");
    fake.examine("rxe0").sole(Level::Warning, "slot");
    fake.put(&format!("{GIDS}/rate"), "16 Gb/sec");
    assert_eq!(exit_code(&fake.examine("rxe0").0), 0);
}
