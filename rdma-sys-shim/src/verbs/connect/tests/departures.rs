//! Processes that leave in good order, and those that do not.

use std::time::Duration;

use proptest::prelude::*;

use super::super::failure::ConnectFailure;
use super::network::{Network, Weather};

const LIMIT: Duration = Duration::from_secs(2);

fn pair(weather: Weather) -> Network {
    let mut network = Network::of(2, weather);
    network.connect(0, 1);
    network.run(Duration::from_secs(20));
    network
}

#[test]
fn a_goodbye_is_heard_and_answered() {
    let mut network = pair(Weather::FINE);
    let before = network.sent;
    network.leave(0, LIMIT);
    assert!(!network.processes[0].protocol.has_left());
    network.run(Duration::from_millis(1));
    assert!(network.processes[0].protocol.has_left());
    assert_eq!(network.sent - before, 2);
    assert!(network.pair(1, 0).unwrap().closed);
    assert!(!network.pair(0, 1).unwrap().closed);
    // The other one tells it, without waiting for an answer.
    network.leave(1, LIMIT);
    assert!(network.processes[1].protocol.has_left());
    network.run(Duration::from_millis(1));
    assert!(network.pair(0, 1).unwrap().closed);
}

#[test]
fn who_has_no_peers_has_left_at_once() {
    let mut network = Network::of(1, Weather::FINE);
    assert!(!network.processes[0].protocol.has_left());
    network.leave(0, LIMIT);
    assert!(network.processes[0].protocol.has_left());
}

#[test]
fn the_dead_are_waited_for_no_longer_than_said() {
    let mut network = pair(Weather::FINE);
    network.dead.push(1);
    let before = network.now;
    network.leave(0, LIMIT);
    network.run(Duration::from_secs(60));
    assert!(network.processes[0].protocol.has_left());
    assert_eq!(network.now, before + LIMIT);
}

#[test]
fn a_peer_that_has_failed_is_not_waited_for() {
    let mut network = pair(Weather::FINE);
    let id = network.id(1);
    network.processes[0].protocol.abandon(id);
    network.leave(0, LIMIT);
    assert!(network.processes[0].protocol.has_left());
}

#[test]
fn who_was_asked_and_leaves_ends_the_attempt() {
    let mut network = Network::of(2, Weather::FINE);
    network.connect(1, 0);
    network.run(Duration::from_secs(1));
    network.leave(0, LIMIT);
    network.run(Duration::from_secs(1));
    // It was connected before: that stays.
    network.connect(1, 0);
    assert_eq!(network.outcome(1, 0), Some(Ok(())));

    let mut network = Network::of(2, Weather::FINE);
    network.connect(0, 1);
    network.run(Duration::from_secs(1));
    network.leave(0, LIMIT);
    network.run(Duration::from_secs(1));
    network.connect(1, 0);
    assert_eq!(network.outcome(1, 0), Some(Err(ConnectFailure::Left)));
}

#[test]
fn who_leaves_accepts_no_new_connection_and_may_still_make_one() {
    let mut network = Network::of(3, Weather::FINE);
    network.leave(0, LIMIT);
    network.connect(1, 0);
    network.run(Duration::from_secs(1));
    let failure = network.outcome(1, 0).unwrap().unwrap_err();
    assert!(failure.to_string().contains("closed the device"));
    assert!(network.pair(0, 1).is_none());
    network.connect(0, 2);
    network.run(Duration::from_secs(1));
    assert_eq!(network.outcome(0, 2), Some(Ok(())));
    assert!(network.pair(2, 0).unwrap().closed);
    assert!(network.processes[0].protocol.has_left());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn everyone_may_leave_at_once_in_any_weather(
        lost_percent in 0..=30u64,
        more in 0..10_000u64,
        seed in any::<u64>(),
        pauses in prop::collection::vec(0..20_000u64, 6),
    ) {
        let weather = Weather {
            lost_percent,
            doubled_percent: 10,
            delay_us: (100, 100 + more),
            seed,
        };
        let mut network = Network::of(6, weather);
        for from in 0..6 {
            for to in 0..6 {
                network.connect(from, to);
            }
        }
        network.run(Duration::from_secs(20));
        let limit = Duration::from_secs(20);
        for (process, &pause) in pauses.iter().enumerate() {
            network.leave(process, limit);
            network.run(Duration::from_micros(pause));
        }
        let before = network.now;
        network.run(Duration::from_secs(60));
        prop_assert!(network.now < before + limit, "someone waited to the end");
        for process in &network.processes {
            prop_assert!(process.protocol.has_left());
        }
        for (a, b) in [(0, 1), (2, 5), (3, 4)] {
            let closed = |from, to| network.pair(from, to).unwrap().closed;
            prop_assert!(closed(a, b) || closed(b, a));
        }
    }
}
