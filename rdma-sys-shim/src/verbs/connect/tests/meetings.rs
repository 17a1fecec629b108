//! Connections come about, once, whatever the network does.

use std::time::Duration;

use proptest::prelude::*;

use super::network::{Network, Weather};

fn weather() -> impl Strategy<Value = Weather> {
    (
        0..=40u64,
        0..=30u64,
        0..3_000u64,
        0..20_000u64,
        any::<u64>(),
    )
        .prop_map(
            |(lost_percent, doubled_percent, least, more, seed)| Weather {
                lost_percent,
                doubled_percent,
                delay_us: (least, least + more),
                seed,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Who connects to whom, and how much later than the one before.
    #[test]
    fn whoever_asks_is_connected_in_any_weather(
        weather in weather(),
        attempts in prop::collection::vec((0..5usize, 0..5usize, 0..30_000u64), 1..20),
    ) {
        let mut network = Network::of(5, weather);
        for &(from, to, later) in &attempts {
            network.connect(from, to);
            network.run(Duration::from_micros(later));
        }
        network.run(Duration::from_secs(20));
        for &(from, to, _) in &attempts {
            prop_assert_eq!(network.outcome(from, to), Some(Ok(())));
        }
    }
}

#[test]
fn one_request_and_one_reply_are_enough() {
    let mut network = Network::of(2, Weather::FINE);
    network.connect(0, 1);
    network.run(Duration::from_secs(1));
    assert_eq!(network.outcome(0, 1), Some(Ok(())));
    assert_eq!(network.sent, 2);
    // Who was asked listens, and learns by asking itself that it is listened to.
    assert!(network.pair(1, 0).unwrap().listens_to.is_some());
    assert_eq!(network.outcome(1, 0), None);
    network.connect(1, 0);
    network.run(Duration::from_secs(1));
    assert_eq!(network.outcome(1, 0), Some(Ok(())));
    assert_eq!(network.sent, 4);
    // Whoever is connected is so at once.
    network.connect(1, 0);
    assert_eq!(network.outcome(1, 0), Some(Ok(())));
    assert_eq!(network.sent, 4);
}

#[test]
fn requests_that_cross_meet_in_the_same_state() {
    let mut network = Network::of(2, Weather::FINE);
    network.connect(0, 1);
    network.connect(1, 0);
    network.run(Duration::from_secs(1));
    assert_eq!(network.outcome(0, 1), Some(Ok(())));
    assert_eq!(network.outcome(1, 0), Some(Ok(())));
    assert_eq!(network.sent, 4);
}

#[test]
fn a_process_connects_to_itself_without_a_datagram() {
    let mut network = Network::of(1, Weather::FINE);
    network.connect(0, 0);
    assert_eq!(network.outcome(0, 0), Some(Ok(())));
    assert_eq!(network.sent, 0);
    network.leave(0, Duration::from_secs(1));
    assert!(network.processes[0].protocol.has_left());
}

#[test]
fn two_hundred_and_fifty_six_peers_at_once_through_loss() {
    let weather = Weather {
        lost_percent: 5,
        doubled_percent: 1,
        delay_us: (200, 4_000),
        seed: 42,
    };
    let mut network = Network::of(257, weather);
    for peer in 1..=256 {
        network.connect(0, peer);
    }
    network.run(Duration::from_secs(2));
    for peer in 1..=256 {
        assert_eq!(network.outcome(0, peer), Some(Ok(())), "peer {peer}");
    }
    // Two datagrams each, and what loss and delays beyond the first pause make of it.
    assert!(network.sent < 256 * 4, "{} datagrams", network.sent);
}

/// In all that takes more than twice as long as a peer may be silent.
#[test]
fn sixty_four_at_once_are_served_by_one_that_is_slow() {
    all_are_served(64, Duration::from_millis(400));
}

/// Four times as many as there is room for.
#[test]
fn five_hundred_at_once_are_served_by_one_that_is_slow() {
    all_are_served(512, Duration::from_millis(40));
}

fn all_are_served(askers: u32, takes: Duration) {
    let weather = Weather {
        lost_percent: 5,
        doubled_percent: 1,
        delay_us: (200, 4_000),
        seed: 11,
    };
    let mut network = Network::of(askers + 1, weather);
    network.processes[0].takes = takes;
    let askers = askers as usize;
    for asker in 1..=askers {
        network.connect(asker, 0);
    }
    network.run(Duration::from_secs(60));
    for asker in 1..=askers {
        assert_eq!(network.outcome(asker, 0), Some(Ok(())), "{asker}");
    }
    let counters = network.processes[0].protocol.counters();
    assert!(counters.put_off > askers as u64, "{counters:?}");
    // One that waits asks about once in a second: for half the time, on average.
    assert!(counters.received < askers as u64 * 25, "{counters:?}");
}

#[test]
fn everyone_connects_to_everyone() {
    let weather = Weather {
        lost_percent: 5,
        doubled_percent: 5,
        delay_us: (50, 10_000),
        seed: 7,
    };
    let all = || (0..24).flat_map(|from| (0..24).map(move |to| (from, to)));
    let mut network = Network::of(24, weather);
    for (from, to) in all() {
        network.connect(from, to);
    }
    network.run(Duration::from_secs(5));
    for (from, to) in all() {
        assert_eq!(network.outcome(from, to), Some(Ok(())), "{from} to {to}");
    }
}
