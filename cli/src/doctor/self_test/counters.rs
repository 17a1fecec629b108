//! What a port counted during the tests: losses, damage and congestion. It counts those of other programs, too.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rdma_sys_shim::rdma;

use super::super::finding::Finding;
use super::introduction::Candidate;

const CHECK: &str = "counters";

/// Counters with one meaning.
struct Meaning {
    /// As the drivers of mlx5, bnxt_re, irdma and mana name them, and as the kernel names those of all drivers.
    names: &'static [&'static str],
    said: &'static str,
    /// What helps; `None` if nothing is wrong.
    remedy: Option<&'static str>,
}

const MEANINGS: [Meaning; 3] = [
    Meaning {
        names: &[
            "out_of_sequence",
            "packet_seq_err",
            "implied_nak_seq_err",
            "local_ack_timeout_err",
            "duplicate_request",
            "roce_adp_retrans",
            "to_retransmits",
            "seq_err_naks_rcvd",
            "oos_drop_count",
            "requester_timeout",
            "requester_oos_nak",
            "requester_implicit_nak",
            "responder_oos",
            "responder_dup_request",
            "port_xmit_discards",
            "port_rcv_switch_relay_errors",
        ],
        said: "packets were lost or came out of order, and were sent again",
        remedy: Some(
            "on RoCE, have all switches and ports carry it in a lossless class (PFC; TRANSOM_RDMA_TRAFFIC_CLASS); on \
             InfiniBand, look for discards of switches (`perfquery`)",
        ),
    },
    Meaning {
        names: &[
            "symbol_error",
            "link_error_recovery",
            "link_downed",
            "port_rcv_errors",
            "port_rcv_remote_physical_errors",
            "local_link_integrity_errors",
            "excessive_buffer_overrun_errors",
            "rx_icrc_encapsulated",
        ],
        said: "packets arrived damaged, or the link was interrupted",
        remedy: Some("look at cable, transceivers and switch port (`mlxlink`, `ibqueryerrors`)"),
    },
    Meaning {
        names: &[
            "np_cnp_sent",
            "np_ecn_marked_roce_packets",
            "rp_cnp_handled",
            "roce_slow_restart",
            "tx_cnp_pkts",
            "rx_cnp_pkts",
            "rx_ecn_marked_pkts",
            "cnpSent",
            "cnpHandled",
            "RxECNMrkd",
            "received_cnps",
            "port_xmit_wait",
        ],
        said: "the way was congested, and senders slowed down: other traffic takes its share of the bandwidth",
        remedy: None,
    },
];

/// The counters of a port by their names.
pub(super) type Counts = BTreeMap<String, u64>;

/// Those that the port of a device has of the counters above.
pub(super) fn read(candidate: &Candidate) -> Counts {
    match &candidate.port {
        Some((device, port)) => read_from(&rdma::class(), device, *port),
        None => Counts::new(),
    }
}

fn read_from(class: &Path, device: &str, port: u8) -> Counts {
    let port = class.join(device).join("ports").join(port.to_string());
    let names = MEANINGS.iter().flat_map(|meaning| meaning.names);
    let counted = names.filter_map(|&name| {
        // The driver's own come first: some are under both names.
        let mut texts = ["hw_counters", "counters"]
            .into_iter()
            .filter_map(|folder| fs::read_to_string(port.join(folder).join(name)).ok());
        Some((name.to_owned(), texts.next()?.trim().parse().ok()?))
    });
    counted.collect()
}

/// By how much each has risen since `before`. Those that have not are there, too, with zero.
pub(super) fn risen(before: &Counts, after: &Counts) -> Counts {
    let rise = |(name, &now): (&String, &u64)| {
        let before = before.get(name)?;
        Some((name.clone(), now.saturating_sub(*before)))
    };
    after.iter().filter_map(rise).collect()
}

/// What the rises mean. `whose`: the rank and the device.
pub(super) fn findings(whose: &str, risen: &Counts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Meaning {
        names,
        said,
        remedy,
    } in &MEANINGS
    {
        let risen = names.iter().filter_map(|&name| {
            let by = risen.get(name).filter(|&&by| by > 0)?;
            Some(format!("{name} by {by}"))
        });
        let risen: Vec<_> = risen.collect();
        if risen.is_empty() {
            continue;
        }
        let found = format!("{whose}: {said} (risen: {})", risen.join(", "));
        findings.push(match remedy {
            Some(remedy) => Finding::warning(CHECK, found, *remedy),
            None => Finding::ok(CHECK, found),
        });
    }
    if findings.is_empty() && !risen.is_empty() {
        let found = format!(
            "{whose}: none of {} counters of errors has risen",
            risen.len()
        );
        findings.push(Finding::ok(CHECK, found));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::super::finding::Level;
    use super::*;

    #[test]
    fn counters_that_rose_are_told_with_what_they_mean() {
        let class = tempfile::tempdir().unwrap();
        let port = class.path().join("mlx5_0/ports/1");
        let put = |file: &str, content: &str| {
            fs::create_dir_all(port.join(file).parent().unwrap()).unwrap();
            fs::write(port.join(file), format!("{content}\n")).unwrap();
        };
        let read = || read_from(class.path(), "mlx5_0", 1);
        assert!(findings("a", &risen(&read(), &read())).is_empty());
        put("counters/link_downed", "3");
        put("counters/port_xmit_data", "9");
        put("hw_counters/out_of_sequence", "18446744073709551615");
        put("hw_counters/np_cnp_sent", "5");
        put("hw_counters/packet_seq_err", "no number");
        let before = read();
        let words = |before: &Counts| {
            let findings = findings("rank 1 (mlx5_0)", &risen(before, &read()));
            let said = findings
                .into_iter()
                .map(|one| (one.level, one.found, one.remedy.is_some()));
            said.collect::<Vec<_>>()
        };
        let none = "rank 1 (mlx5_0): none of 3 counters of errors has risen".to_owned();
        assert_eq!(words(&before), [(Level::Ok, none, false)]);
        put("hw_counters/np_cnp_sent", "7");
        put("counters/link_downed", "4");
        // It was reset.
        put("hw_counters/out_of_sequence", "0");
        let [(damaged, cable, true), (congested, slow, false)] = &words(&before)[..] else {
            panic!("{:?}", words(&before));
        };
        assert_eq!((*damaged, *congested), (Level::Warning, Level::Ok));
        assert!(
            cable.ends_with("the link was interrupted (risen: link_downed by 1)"),
            "{cable}"
        );
        assert!(slow.ends_with("(risen: np_cnp_sent by 2)"), "{slow}");
        put("hw_counters/out_of_sequence", "2");
        let reset = read();
        put("hw_counters/out_of_sequence", "3");
        assert!(
            words(&reset)[0].1.contains("packets were lost"),
            "{:?}",
            words(&reset)
        );
    }
}
