//! Who connects, is refused, leaves and dies, with queue pairs that are numbers only.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::super::{Address, Connector, Numbers, Queues};
use crate::channel::{Presence, Status};
use crate::rdma::Gid;
use crate::verbs::port::{PortAddress, Transport};
use crate::{Error, JobSecret, Result};

const IPV4: Gid = Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped();
const IPV6: Gid = Gid::from_bits(0x2001_0db8 << 96);
const LIMIT: Duration = Duration::from_secs(20);

/// What became of a queue pair.
#[derive(Clone, Debug)]
struct Pair {
    number: u32,
    listens_to: Option<u32>,
    status: Arc<Status>,
}

#[derive(Default)]
struct Made {
    pairs: Mutex<HashMap<u64, Pair>>,
    is_out: AtomicBool,
    cannot_connect: AtomicBool,
    /// How often the peer's address is not found.
    unresolved: AtomicU32,
    takes_ms: AtomicU32,
}

impl Queues for Arc<Made> {
    fn create(&self, peer: &Address, status: &Arc<Status>) -> Result<Numbers> {
        static NUMBERS: AtomicU32 = AtomicU32::new(17);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(
            self.takes_ms.load(Ordering::Relaxed).into(),
        ));
        if self.is_out.load(Ordering::Relaxed) {
            let no_room = std::io::Error::from_raw_os_error(libc::ENOMEM);
            return Err(Error::os("creating a queue pair", no_room));
        }
        let pair = Pair {
            number,
            listens_to: None,
            status: status.clone(),
        };
        let before = self
            .pairs
            .lock()
            .unwrap()
            .insert(peer.record.instance, pair);
        assert!(before.is_none(), "one for each peer");
        Ok(Numbers {
            qpn: number,
            psn: 1,
            responder_resources: 1,
            mtu: 3,
            max_message: 1 << 20,
            trailing: None,
        })
    }

    fn bring_up(&self, peer: &Address, theirs: &Numbers) -> Result<()> {
        if self.cannot_connect.load(Ordering::Relaxed) {
            let no_way = std::io::Error::from_raw_os_error(libc::ENETUNREACH);
            return Err(Error::os("connecting a queue pair", no_way));
        }
        let left = self.unresolved.load(Ordering::Relaxed);
        if left > 0 {
            self.unresolved.store(left - 1, Ordering::Relaxed);
            let no_answer = std::io::Error::from_raw_os_error(libc::ETIMEDOUT);
            return Err(Error::os("connecting a queue pair", no_answer));
        }
        let mut pairs = self.pairs.lock().unwrap();
        let pair = pairs.get_mut(&peer.record.instance).unwrap();
        assert_eq!(pair.listens_to.replace(theirs.qpn), None, "once");
        Ok(())
    }
}

struct Process {
    connector: Connector,
    made: Arc<Made>,
}

impl Process {
    fn with(gids: &[Gid], transport: Transport, timeout: Duration) -> Self {
        let made = Arc::<Made>::default();
        let port = (PortAddress::new(gids.iter().copied(), 0), transport);
        let connector = Connector::start(
            JobSecret::default(),
            port,
            "rxe0",
            made.clone(),
            timeout,
            None,
        )
        .unwrap();
        Self { connector, made }
    }

    fn new() -> Self {
        Self::with(&[IPV4], Transport::RoceV2, LIMIT)
    }

    fn address(&self) -> Address {
        // As it comes from the key-value space.
        Address::decode(&self.connector.address().encode()).unwrap()
    }

    fn connect(&self, peer: &Self) -> Result<()> {
        self.connector.connect(&peer.address())
    }

    fn refusal(&self, peer: &Self) -> String {
        self.connect(peer).unwrap_err().to_string()
    }

    fn pair(&self, peer: &Self) -> Option<Pair> {
        let pairs = self.made.pairs.lock().unwrap();
        pairs
            .get(&peer.connector.address().record.instance)
            .cloned()
    }

    /// Waits until the agent has heard of the peer.
    fn hears(&self, peer: &Self, presence: Presence) {
        let status = self.pair(peer).unwrap().status;
        until(|| status.presence() != Presence::Here);
        assert_eq!(status.presence(), presence);
    }
}

fn until(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < LIMIT, "it does not come to that");
        thread::sleep(Duration::from_millis(1));
    }
}

fn are_connected(a: &Process, b: &Process) -> bool {
    let (Some(here), Some(there)) = (a.pair(b), b.pair(a)) else {
        return false;
    };
    here.listens_to == Some(there.number) && there.listens_to == Some(here.number)
}

#[test]
fn one_that_was_asked_may_send_too() {
    let [a, b] = [(); 2].map(|()| Process::new());
    a.connect(&b).unwrap();
    assert!(are_connected(&a, &b));
    // It does not have to ask: the other one is dead to who asks.
    a.made.cannot_connect.store(true, Ordering::Relaxed);
    b.connect(&a).unwrap();
    a.connect(&b).unwrap();
    a.connect(&a).unwrap_err();
    b.connect(&b).unwrap();
    assert_eq!(
        b.pair(&b).unwrap().listens_to,
        Some(b.pair(&b).unwrap().number)
    );
}

#[test]
fn all_that_ask_each_other_at_once_meet() {
    let all: Vec<_> = (0..6).map(|_| Process::new()).collect();
    thread::scope(|scope| {
        for from in &all {
            for to in &all {
                for _ in 0..2 {
                    scope.spawn(|| from.connect(to).unwrap());
                }
            }
        }
    });
    for from in &all {
        assert_eq!(from.made.pairs.lock().unwrap().len(), 6);
        assert!(all.iter().all(|to| are_connected(from, to)));
    }
}

/// In all it takes more than three times as long as a peer may be silent.
#[test]
fn many_at_once_are_served_by_one_that_is_slow() {
    let slow = Process::new();
    slow.made.takes_ms.store(300, Ordering::Relaxed);
    let timeout = Duration::from_millis(1500);
    let all: Vec<_> = (0..16)
        .map(|_| Process::with(&[IPV4], Transport::RoceV2, timeout))
        .collect();
    thread::scope(|scope| {
        for asker in &all {
            scope.spawn(|| asker.connect(&slow).unwrap());
        }
    });
    assert!(all.iter().all(|asker| are_connected(asker, &slow)));
}

#[test]
fn one_that_does_not_answer_is_an_error_in_time() {
    let timeout = Duration::from_millis(700);
    let asker = Process::with(&[IPV4], Transport::RoceV2, timeout);
    let slow = Process::new();
    slow.made.takes_ms.store(3000, Ordering::Relaxed);
    let text = asker.refusal(&slow);
    for part in [
        "nothing within 0.7 s",
        "TRANSOM_CONNECT_TIMEOUT",
        "queue pairs by TCP",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(asker.pair(&slow).unwrap().listens_to, None);
    // Nobody stays behind in a state that cannot be left, and the queue pairs are the same.
    until(|| {
        slow.pair(&asker)
            .is_some_and(|pair| pair.listens_to.is_some())
    });
    asker.connect(&slow).unwrap();
    slow.connect(&asker).unwrap();
    assert!(are_connected(&asker, &slow));
}

#[test]
fn a_refusal_carries_the_words_of_the_other_side() {
    let [a, b] = [(); 2].map(|()| Process::new());
    b.made.is_out.store(true, Ordering::Relaxed);
    let text = a.refusal(&b);
    let words = "the other side refused: creating a queue pair";
    assert!(
        text.contains(words) && text.contains("cannot be reached"),
        "{text}"
    );
    let text = b.refusal(&a);
    assert!(text.contains("creating a queue pair failed"), "{text}");
    // Once it has queue pairs again, the next attempt succeeds.
    b.made.is_out.store(false, Ordering::Relaxed);
    a.connect(&b).unwrap();
    assert!(are_connected(&a, &b));
}

#[test]
fn a_queue_pair_that_cannot_be_connected_fails_both_sides_for_good() {
    let [a, b] = [(); 2].map(|()| Process::new());
    b.made.cannot_connect.store(true, Ordering::Relaxed);
    let text = a.refusal(&b);
    assert!(
        text.contains("the other side refused: connecting a queue pair"),
        "{text}"
    );
    b.made.cannot_connect.store(false, Ordering::Relaxed);
    for _ in 0..2 {
        let text = b.refusal(&a);
        assert!(text.contains("connecting a queue pair failed"), "{text}");
    }
    assert!(a.refusal(&b).contains("the other side refused"));
}

#[test]
fn an_address_that_is_found_late_ends_nothing() {
    for [here, there] in [[3, 0], [0, 3], [2, 2]] {
        let [a, b] = [(); 2].map(|()| Process::new());
        a.made.unresolved.store(here, Ordering::Relaxed);
        b.made.unresolved.store(there, Ordering::Relaxed);
        a.connect(&b).unwrap();
        assert!(are_connected(&a, &b));
    }
    let own = Process::new();
    own.made.unresolved.store(1, Ordering::Relaxed);
    own.connect(&own).unwrap();
}

/// The side that answers looks longer than the other one would wait in silence.
#[test]
fn an_address_that_is_never_found_is_an_error_in_time() {
    let timeout = Duration::from_millis(1500);
    for is_here in [true, false] {
        let [a, b] = [(); 2].map(|()| Process::with(&[IPV4], Transport::RoceV2, timeout));
        let lost = if is_here { &a } else { &b };
        lost.made.unresolved.store(u32::MAX, Ordering::Relaxed);
        let begun = Instant::now();
        let text = a.refusal(&b);
        assert!(begun.elapsed() >= timeout && begun.elapsed() < LIMIT);
        assert!(text.contains("connecting a queue pair failed"), "{text}");
        assert_eq!(text.contains("the other side refused"), !is_here, "{text}");
        // Others are answered meanwhile and afterwards.
        lost.made.unresolved.store(0, Ordering::Relaxed);
        Process::new().connect(&b).unwrap();
    }
}

#[test]
fn ports_that_do_not_reach_each_other_are_told_apart() {
    let [a, b] = [(); 2].map(|()| Process::new());
    let other = Process::with(&[IPV6], Transport::RoceV2, LIMIT);
    let both = Process::with(&[IPV4, IPV6], Transport::RoceV2, LIMIT);
    let infiniband = Process::with(&[IPV6], Transport::InfiniBand, LIMIT);
    let text = a.refusal(&other);
    let gids = format!("its GID is {IPV6} and ours {IPV4}");
    assert!(
        text.contains(&gids) && text.contains("TRANSOM_DEVICE"),
        "{text}"
    );
    let text = other.refusal(&infiniband);
    assert!(
        text.contains("rxe0 is a port of InfiniBand there"),
        "{text}"
    );
    assert!(infiniband.made.pairs.lock().unwrap().is_empty());
    a.connect(&both).unwrap();
    other.connect(&both).unwrap();
    a.connect(&b).unwrap();
}

#[test]
fn who_does_not_know_the_key_is_not_answered() {
    let [a, b] = [(); 2].map(|()| Process::new());
    let mut wrong = b.address();
    wrong.record.key.0[0] ^= 1;
    let text = a.connector.connect(&wrong).unwrap_err().to_string();
    assert!(text.contains("is gone"), "{text}");
    assert!(a.made.pairs.lock().unwrap().is_empty());
    assert!(b.made.pairs.lock().unwrap().is_empty());
    a.connect(&b).unwrap();
}

#[test]
fn who_leaves_in_good_order_is_not_taken_for_dead() {
    let [a, b, c] = [(); 3].map(|()| Process::new());
    a.connect(&b).unwrap();
    c.connect(&a).unwrap();
    a.connector.close();
    b.hears(&a, Presence::Closed);
    c.hears(&a, Presence::Closed);
    // Who leaves accepts no new connection, and may still make one.
    let late = Process::new();
    let text = late.refusal(&a);
    assert!(text.contains("has left"), "{text}");
    a.connect(&late).unwrap();
    late.hears(&a, Presence::Closed);
    let address = a.address();
    drop(a.connector);
    b.connector.close();
    // It was connected before: that stays.
    b.connector.connect(&address).unwrap();
    let text = Process::new().connector.connect(&address).unwrap_err();
    assert!(text.to_string().contains("is gone"), "{text}");
}

#[test]
fn who_dies_is_noticed_by_both_sides_of_connections() {
    let [a, b, c] = [(); 3].map(|()| Process::new());
    a.connect(&b).unwrap();
    b.connect(&c).unwrap();
    let Process { connector, made } = b;
    let instance = connector.address().record.instance;
    // As the kernel does it for a process that was killed.
    drop(connector);
    drop(made);
    for other in [a, c] {
        let status = other.made.pairs.lock().unwrap()[&instance].status.clone();
        until(|| status.presence() != Presence::Here);
        assert_eq!(status.presence(), Presence::Gone);
    }
}
