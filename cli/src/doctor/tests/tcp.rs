//! TCP: the addresses that peers are given.

use super::*;

#[test]
fn addresses_are_named_and_the_lack_of_them_is_worst_where_tcp_is() {
    let mut fake = Fake::without_rdma();
    let told = "ranks of other hosts are told the addresses eth0: 192.0.2.1/24";
    for spec in ["", "tcp", "tcp:eth0"] {
        let report = fake.examine(spec);
        assert_eq!(report.only("TCP").found, told);
        assert_eq!(exit_code(&report.0), 0, "{spec}:\n{}", text(&report.0));
    }
    fake.probes.tcp = Ok(Vec::new());
    let found = fake.examine("").only("TCP").found.clone();
    assert!(found.starts_with("only the loopback has"), "{found}");
    fake.probes.tcp = Err("no device \"tcp:eth7\"".to_owned());
    for (spec, level) in [("", Level::Warning), ("tcp:eth7", Level::Failure)] {
        let line = fake.examine(spec).sole(level, "TCP");
        assert!(line.starts_with("TCP: no device \"tcp:eth7\""), "{line}");
    }
    let unused = fake.examine("soft").0;
    assert!(unused.iter().all(|finding| finding.check != "TCP"));
}

#[test]
fn a_named_interface_is_asked_for_by_its_name() {
    let told = machine::tcp(&Wanted::parse("tcp:lo")).unwrap();
    let [address] = &told[..] else {
        panic!("{told:?}");
    };
    assert!(address.starts_with("lo: "), "{address}");
    let refused = machine::tcp(&Wanted::parse("tcp:no0")).unwrap_err();
    assert!(refused.contains("tcp:no0"), "{refused}");
}
