//! Connections that must not come about, and what those who asked are told.

use std::sync::Arc;
use std::time::Duration;

use super::super::address::{Address, Secret};
use super::super::message::{Body, Message, Numbers};
use super::network::{IPV4, IPV6, Network, Weather};
use crate::verbs::port::{PortAddress, Transport};

const NUMBERS: Numbers = Numbers {
    qpn: 77,
    psn: 1,
    responder_resources: 1,
    mtu: 3,
    max_message: 1 << 20,
};

fn error(network: &Network, from: usize, to: usize) -> String {
    let failure = network.outcome(from, to).unwrap().unwrap_err();
    let peer = &network.processes[to].address;
    failure.into_error(peer).to_string()
}

fn request(from: &Address, to: &Address, secret: Secret) -> Vec<u8> {
    Message {
        to: (to.instance, secret),
        from: from.clone(),
        body: Body::Request {
            numbers: NUMBERS,
            heard: None,
        },
    }
    .encode()
}

#[test]
fn strangers_and_noise_are_counted_and_leave_no_trace() {
    let mut network = Network::of(2, Weather::FINE);
    let (own, other) = (
        network.processes[0].address.clone(),
        network.processes[1].address.clone(),
    );
    network.inject(0, request(&other, &own, Secret([0; 16])));
    network.inject(0, request(&other, &own, other.secret));
    network.inject(0, b"hello?".to_vec());
    network.inject(0, Vec::new());
    // Meant for the process that had this queue pair before.
    let mut before = Address::clone(&own);
    before.instance.0 ^= 1;
    network.inject(0, request(&other, &before, own.secret));
    network.run(Duration::from_secs(1));
    let counters = network.processes[0].protocol.counters();
    assert_eq!((counters.received, counters.sent), (5, 0));
    assert_eq!((counters.strangers, counters.malformed), (3, 2));
    assert!(network.processes[0].device.lock().unwrap().pairs.is_empty());
    // Nobody is locked out by what was said in its name.
    network.connect(1, 0);
    network.run(Duration::from_secs(1));
    assert_eq!(network.outcome(1, 0), Some(Ok(())));
}

#[test]
fn a_dead_peer_is_an_error_in_time_that_says_what_was_tried() {
    let mut network = Network::of(2, Weather::FINE);
    network.dead.push(1);
    network.connect(0, 1);
    network.run(Duration::from_secs(60));
    let error = error(&network, 0, 1);
    assert_eq!(network.now, network.start + Duration::from_secs(10));
    for part in ["no answer within 10 s", "TRANSOM_CONNECT_TIMEOUT", "0x2"] {
        assert!(error.contains(part), "{error}");
    }
    let pid = format!("process {}", std::process::id());
    assert!(error.contains(&pid), "{error}");
    let requests = network.processes[0].protocol.counters().sent;
    assert!((45..65).contains(&requests), "{requests} requests");
    // Nobody stays behind in a state that cannot be left.
    network.dead.clear();
    network.connect(0, 1);
    network.run(Duration::from_secs(1));
    assert_eq!(network.outcome(0, 1), Some(Ok(())));
}

#[test]
fn a_peer_that_dies_while_others_wait_for_it_is_an_error_that_says_so() {
    let mut network = Network::of(4, Weather::FINE);
    network.processes[0].takes = Duration::from_secs(5);
    for asker in 1..4 {
        network.connect(asker, 0);
    }
    network.run(Duration::from_secs(8));
    assert_eq!(network.outcome(3, 0), None, "it is busy");
    network.dead.push(0);
    network.run(Duration::from_secs(60));
    let text = error(&network, 3, 0);
    assert!(text.contains("busy with those of others"), "{text}");
}

#[test]
fn why_nothing_could_be_sent_is_part_of_the_error() {
    let mut network = Network::of(2, Weather::FINE);
    network.dead.push(1);
    network.connect(0, 1);
    let id = network.id(1);
    let protocol = &mut network.processes[0].protocol;
    protocol.transmitted(id, Err("network is unreachable".into()));
    network.run(Duration::from_secs(60));
    let error = error(&network, 0, 1);
    assert!(error.contains("network is unreachable"), "{error}");
}

#[test]
fn another_process_at_the_same_queue_pair_is_not_taken_for_the_peer() {
    let mut network = Network::of(2, Weather::FINE);
    network.connect(0, 1);
    network.run(Duration::from_secs(1));
    network.dead.push(1);
    let again = network.add_at(network.processes[1].address.qpn);
    // A third process has the old address only.
    let third = network.add();
    network.connect(third, 1);
    network.run(Duration::from_secs(60));
    assert!(error(&network, third, 1).contains("no answer"));
    let counters = network.processes[again].protocol.counters();
    assert_eq!(counters.strangers, counters.received);
    assert!(network.pair(again, third).is_none());
    // With the new address it is a peer like any other, beside what is left of the old one.
    network.connect(0, again);
    network.run(Duration::from_secs(1));
    assert_eq!(network.outcome(0, again), Some(Ok(())));
    assert!(network.pair(0, 1).unwrap().listens_to.is_some());
}

#[test]
fn a_refusal_carries_the_words_of_the_other_side() {
    let mut network = Network::of(2, Weather::FINE);
    network.processes[1].device.lock().unwrap().left = Some(0);
    network.connect(0, 1);
    network.run(Duration::from_secs(1));
    let text = error(&network, 0, 1);
    assert!(
        text.contains("the other side refused: creating a queue pair"),
        "{text}"
    );
    assert_eq!(network.processes[1].protocol.counters().refused, 1);
    // Once it has queue pairs again, the next attempt succeeds.
    network.processes[1].device.lock().unwrap().left = None;
    network.connect(0, 1);
    network.run(Duration::from_secs(1));
    assert_eq!(network.outcome(0, 1), Some(Ok(())));
}

#[test]
fn out_of_queue_pairs_here_is_said_at_once() {
    let mut network = Network::of(2, Weather::FINE);
    network.processes[0].device.lock().unwrap().left = Some(0);
    network.connect(0, 1);
    let text = error(&network, 0, 1);
    assert!(text.contains("creating a queue pair failed"), "{text}");
    assert_eq!(network.sent, 0);
}

#[test]
fn a_queue_pair_that_cannot_be_connected_fails_both_sides_for_good() {
    let mut network = Network::of(2, Weather::FINE);
    network.processes[1]
        .device
        .lock()
        .unwrap()
        .refuses_to_connect = true;
    network.connect(0, 1);
    network.connect(1, 0);
    network.run(Duration::from_secs(60));
    let (here, there) = (error(&network, 1, 0), error(&network, 0, 1));
    assert!(here.contains("connecting a queue pair failed"), "{here}");
    assert!(there.contains("the other side refused"), "{there}");
    network.connect(1, 0);
    assert_eq!(error(&network, 1, 0), here);
}

#[test]
fn a_peer_whose_queue_pair_changes_is_refused() {
    let mut network = Network::of(2, Weather::FINE);
    network.connect(1, 0);
    network.run(Duration::from_secs(1));
    let (own, other) = (
        network.processes[0].address.clone(),
        network.processes[1].address.clone(),
    );
    let listens_to = network.pair(0, 1).unwrap().listens_to;
    network.inject(0, request(&other, &own, own.secret));
    network.run(Duration::from_secs(1));
    assert_eq!(network.processes[0].protocol.counters().refused, 1);
    assert_eq!(network.pair(0, 1).unwrap().listens_to, listens_to);
}

#[test]
fn ports_of_two_kinds_are_told_apart_without_a_datagram() {
    let mut network = Network::of(1, Weather::FINE);
    let port = PortAddress::new([IPV6], 4);
    let peer = Arc::new(Address::fresh(port, Transport::InfiniBand, "mlx5_0").unwrap());
    let now = network.now;
    let protocol = &mut network.processes[0].protocol;
    protocol.connect(now, &peer);
    let outcome = protocol.poll_outcome().unwrap();
    let text = outcome.result.unwrap_err().to_string();
    assert!(
        text.contains("mlx5_0 is a port of InfiniBand there"),
        "{text}"
    );
    assert!(protocol.poll_transmit().is_none());
}

#[test]
fn ports_without_a_common_family_are_told_apart_without_a_datagram() {
    let mut network = Network::of(0, Weather::FINE);
    let [old, new, both] = [(1, &[IPV4][..]), (2, &[IPV6]), (3, &[IPV4, IPV6])]
        .map(|(number, gids)| network.add_with(number, gids));
    network.connect(old, new);
    network.connect(new, old);
    assert_eq!(network.sent, 0);
    let text = error(&network, old, new);
    let gids = format!("its GID is {IPV6} and ours {IPV4}");
    for part in [&gids, "an address of one family", "TRANSOM_DEVICE"] {
        assert!(text.contains(part), "{text}");
    }
    for other in [old, new] {
        network.connect(both, other);
        network.run(Duration::from_secs(1));
        assert_eq!(network.outcome(both, other), Some(Ok(())));
    }
}

#[test]
fn silence_is_told_with_the_gid_that_was_tried() {
    let mut network = Network::of(0, Weather::FINE);
    let both = network.add_with(1, &[IPV4, IPV6]);
    let new = network.add_with(2, &[IPV6]);
    for (number, from, gids, tried) in [
        (3, both, &[IPV4, IPV6][..], IPV4),
        (4, both, &[IPV6], IPV6),
        (5, new, &[IPV4, IPV6], IPV6),
    ] {
        let dead = network.add_with(number, gids);
        network.dead.push(dead);
        network.connect(from, dead);
        network.run(Duration::from_secs(60));
        let text = error(&network, from, dead);
        assert!(text.contains(&format!("at GID {tried};")), "{text}");
    }
}
