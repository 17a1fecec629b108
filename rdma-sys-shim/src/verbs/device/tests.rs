//! Stores, and connections that fail with much under way, over an RDMA device: run these with `--ignored` where
//! there is one, such as in the machine of `ci/soft-roce`.

use std::sync::Arc;
use std::time::Instant;

use super::{Endpoints, PeerQueues, VerbsDevice, self_test};
use crate::rdma::{self, Choice, SEND_QUEUE, Seat, Selector, queue_bytes};
use crate::verbs::connect::{Numbers, Queues};
use crate::verbs::endpoint::VerbsEndpoint;
use crate::verbs::objects::{GATE, MemoryRegion};
use crate::{
    Device, Direction, Endpoint, Error, Fetch, JobSecret, LocalPiece, LocalRegion, RemoteRun,
    Result, Ticket, TransferBatch, Width,
};

const WORDS: usize = 16;
const LONG: usize = 1 << 20;

/// An origin, with its connection to a target that shows some memory.
struct Two {
    origin: VerbsDevice,
    target: VerbsDevice,
    there: LocalRegion,
    endpoint: Arc<VerbsEndpoint>,
}

fn choice() -> Choice {
    let devices = rdma::read(&rdma::class());
    rdma::choose(&devices, &Selector::default(), &Seat::default()).unwrap()
}

fn open() -> VerbsDevice {
    VerbsDevice::open(choice(), JobSecret::default(), false).unwrap()
}

impl Two {
    fn new() -> Self {
        let (origin, target) = (open(), open());
        let there = target.allocate(LONG, 4096).unwrap();
        let endpoint = origin.connect_to(target.own()).unwrap();
        Self {
            origin,
            target,
            there,
            endpoint,
        }
    }

    fn word(&self, index: usize) -> u64 {
        // SAFETY: a word of the region; nothing is under way any more.
        unsafe { self.there.base().cast::<u64>().add(index).read_volatile() }
    }

    /// Writes 1, 2, ... to neighbouring words with one bell, but the one at `astray` to behind the
    /// region.
    fn write_words(&self, astray: usize) -> Ticket {
        let values: [u64; WORDS] = std::array::from_fn(|index| index as u64 + 1);
        let pieces = values.each_ref().map(|value| LocalPiece {
            base: std::ptr::from_ref(value).cast_mut().cast(),
            len: 8,
        });
        let runs: [_; WORDS] = std::array::from_fn(|index| RemoteRun {
            at: self.there.remote().at(match index == astray {
                true => 64 * LONG as u64,
                false => 8 * index as u64,
            }),
            pieces: 1,
        });
        let batch = TransferBatch {
            runs: &runs,
            pieces: &pieces,
        };
        // SAFETY: a write only reads, and what is so short is taken in the call.
        unsafe { self.endpoint.transfer_batch(Direction::Write, &batch) }.unwrap()
    }

    /// All that comes later fails, at once and for the same reason.
    fn stays_failed(&self, reason: &str) {
        let at = self.there.remote().at(0);
        let mut old = 0;
        // SAFETY: nothing is posted.
        let error = unsafe {
            self.endpoint
                .fetch(at, Width::W8, Fetch::Add(1), &raw mut old)
        };
        assert_eq!(error.unwrap_err().to_string(), reason);
        assert!(self.endpoint.has_failed() && self.endpoint.is_drained());
        // The processes are well, and so are other connections.
        let to_self = self.origin.connect_to(self.origin.own()).unwrap();
        let own = self.origin.allocate(8, 8).unwrap();
        let stored = to_self.store(own.remote().at(0), 0, 5).unwrap();
        to_self.wait(stored).unwrap();
        self.origin.close();
        self.target.close();
    }
}

fn failure(result: Result<()>) -> (Error, String) {
    let error = result.expect_err("the connection has failed");
    let text = error.to_string();
    (error, text)
}

/// What comes out depends on the device: soft-RoCE's atomics lose the processor's adds if they meet.
#[test]
#[ignore = "needs an RDMA device"]
fn the_device_and_the_processor_add_to_one_word() {
    let device = open();
    let to_self = device.connect_to(device.own()).unwrap();
    self_test::adds_beside_the_processor(&device, &to_self).unwrap();
}

/// Writes where nothing is under way, and atomics behind data and other stores.
#[test]
#[ignore = "needs an RDMA device"]
fn stores_of_either_kind_count_up_behind_what_was_written() {
    let two = Two::new();
    let rounds = 500_u64;
    for n in 1..=rounds {
        if !n.is_multiple_of(3) {
            let to = two.there.remote().at(8 * n);
            // SAFETY: eight bytes are taken in the call.
            unsafe {
                two.endpoint
                    .transfer(Direction::Write, (&raw const n).cast_mut().cast(), 8, to)
            }
            .unwrap();
        }
        let stored = two.endpoint.store(two.there.remote().at(0), n - 1, n);
        if n.is_multiple_of(5) {
            two.endpoint.wait(stored.unwrap()).unwrap();
            assert_eq!(two.word(0), n);
        }
        let seen = two.word(0) as usize;
        let arrived = |n: &usize| n.is_multiple_of(3) || two.word(*n) == *n as u64;
        assert!((1..=seen).all(|n| arrived(&n)), "{seen} of {n}");
    }
    assert_eq!(two.word(0), rounds);
    two.origin.close();
    two.target.close();
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_refused_write_is_the_cause_and_those_behind_it_are_counted() {
    const ASTRAY: usize = 5;
    let two = Two::new();
    let before = two.endpoint.posted();
    let last = two.write_words(ASTRAY);
    assert_eq!(last.0, before + WORDS as u64);
    let (error, text) = failure(two.endpoint.wait(last));
    let Error::RemoteAccess { need, address, .. } = error else {
        panic!("{text}");
    };
    let astray = two.there.remote().at(64 * LONG as u64).address;
    assert_eq!((need, address), ("write", astray), "{text}");
    // Where the device is slow, one more has been posted, which was to report on the others.
    let posted = two.endpoint.posted() - before;
    assert_eq!(two.endpoint.flushed(), posted - ASTRAY as u64 - 1);
    assert!(posted <= WORDS as u64 + 1);
    assert!(
        two.endpoint
            .completed(Ticket(before + ASTRAY as u64))
            .unwrap()
    );
    for index in 0..WORDS {
        let wanted = if index < ASTRAY { index as u64 + 1 } else { 0 };
        assert_eq!(two.word(index), wanted, "word {index}");
    }
    two.stays_failed(&text);
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_queue_pair_in_error_ends_what_is_under_way() {
    const READS: u64 = 32;
    let two = Two::new();
    // One that is in error answers nothing: what is posted now stays under way.
    let back = two.target.connect_to(two.origin.own()).unwrap();
    back.stop().unwrap();
    let here = two.origin.allocate(LONG, 4096).unwrap();
    let before = two.endpoint.posted();
    for _ in 0..READS {
        let from = two.there.remote().at(0);
        // SAFETY: memory that outlives the connection.
        unsafe {
            two.endpoint
                .transfer(Direction::Read, here.base(), LONG, from)
        }
        .unwrap();
    }
    assert!(!two.endpoint.completed(Ticket(before + 1)).unwrap());
    two.endpoint.stop().unwrap();
    let (error, text) = failure(two.endpoint.wait(Ticket(before + READS)));
    assert!(matches!(error, Error::Completion { .. }), "{text}");
    assert!(text.contains("read") && text.contains("flushed"), "{text}");
    assert_eq!(two.endpoint.flushed(), READS - 1);
    two.stays_failed(&text);
}

#[test]
#[ignore = "needs an RDMA device"]
fn no_request_is_longer_than_what_the_peer_takes() {
    const LONGEST: usize = 3 * 4096;
    let device = open();
    let queues = PeerQueues {
        adapter: device.adapter.clone(),
        endpoints: Endpoints::default(),
    };
    let numbers = queues.create(device.own(), &Arc::default()).unwrap();
    let weaker = Numbers {
        max_message: LONGEST as u32 + 5,
        ..numbers
    };
    queues.bring_up(device.own(), &weaker).unwrap();
    let endpoint = queues.endpoints.get(device.own().record.instance).unwrap();
    let [here, there] = [0; 2].map(|_| device.allocate(LONG, 4096).unwrap());
    // In registered memory, and copied on its way.
    let mut short = vec![7_u8; 16 << 10];
    for (base, len) in [(here.base(), LONG), (short.as_mut_ptr(), short.len())] {
        let before = endpoint.posted();
        // SAFETY: memory that outlives the operation.
        let last = unsafe { endpoint.transfer(Direction::Write, base, len, there.remote().at(0)) }
            .unwrap();
        assert_eq!(last.0 - before, len.div_ceil(LONGEST) as u64);
        endpoint.wait(last).unwrap();
    }
    // SAFETY: inside the region; nothing is under way any more.
    let last = unsafe { there.base().add(short.len() - 1).read_volatile() };
    assert_eq!(last, 7);
}

/// Waits until something is so, and says whether that happened within a minute.
fn becomes(mut so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !so() {
        if begun.elapsed().as_secs() > 60 {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

#[test]
#[ignore = "needs an RDMA device"]
fn nobody_waits_for_another_threads_registrations() {
    const PARTS: u64 = 3;
    let two = Two::new();
    let long = vec![7_u8; 10 << 20];
    let there = two.target.allocate(long.len(), 4096).unwrap();
    let word = 5_u64;
    let short = || {
        let (from, to) = (
            std::ptr::from_ref(&word).cast_mut().cast(),
            two.there.remote().at(8),
        );
        // SAFETY: eight bytes of a local, which is waited for.
        let ticket = unsafe { two.endpoint.transfer(Direction::Write, from, 8, to) };
        two.endpoint.wait(ticket.unwrap()).unwrap();
    };
    let put = |len| {
        let (from, to) = (long.as_ptr().cast_mut(), there.remote().at(0));
        // SAFETY: the bytes outlive the operation, which is waited for below.
        unsafe { two.endpoint.transfer(Direction::Write, from, len, to) }.unwrap()
    };
    // Another thread's word arrives while `slow` is held up at the gate.
    let meanwhile = |slow: &(dyn Fn() -> Ticket + Sync)| {
        let gate = GATE.close();
        std::thread::scope(|scope| {
            let slow = scope.spawn(slow);
            let held_up = becomes(|| GATE.waiting() > 0 || slow.is_finished());
            let quick = scope.spawn(short);
            let arrived = becomes(|| quick.is_finished());
            let is_held_up = !slow.is_finished();
            drop(gate);
            assert!(
                held_up && is_held_up && arrived,
                "{held_up} {is_held_up} {arrived}"
            );
            slow.join().unwrap()
        })
    };
    short();
    let before = MemoryRegion::registered_bytes();
    let posted = two.endpoint.posted();
    let last = meanwhile(&|| put(long.len()));
    assert!(last.0 >= posted + PARTS);
    two.endpoint.wait(last).unwrap();
    // Who takes the completion also deregisters.
    let last = put(2 << 20);
    meanwhile(&|| {
        two.endpoint.wait(last).unwrap();
        last
    });
    assert_eq!(MemoryRegion::registered_bytes(), before);
    // SAFETY: inside the region; nothing is under way any more.
    let ends = [0, long.len() - 1].map(|at| unsafe { there.base().add(at).read_volatile() });
    assert_eq!(ends, [7, 7]);
    two.origin.close();
    two.target.close();
}

#[test]
#[ignore = "needs an RDMA device"]
fn quiet_connections_leave_their_rings_to_others() {
    let origin = open();
    let targets: Vec<_> = (0..4).map(|_| open()).collect();
    let regions: Vec<_> = (targets.iter())
        .map(|target| target.allocate(LONG, 4096).unwrap())
        .collect();
    let endpoints: Vec<_> = (targets.iter())
        .map(|target| origin.connect_to(target.own()).unwrap())
        .collect();
    let bytes = vec![7_u8; 8 << 10];
    let write = |index: usize| {
        let (from, to) = (bytes.as_ptr().cast_mut(), regions[index].remote().at(0));
        // SAFETY: the bytes outlive the operation, which is waited for below.
        unsafe { endpoints[index].transfer(Direction::Write, from, bytes.len(), to) }.unwrap()
    };
    let one_by_one = || (0..4).for_each(|index| endpoints[index].wait(write(index)).unwrap());
    let rings = &origin.adapter.rings;
    rings.keep(1);
    one_by_one();
    assert_eq!(rings.made(), 2, "the first keeps one, the others share one");
    // All at once: each has one for as long as it takes.
    let tickets: Vec<_> = (0..4).map(write).collect();
    assert_eq!(rings.made(), 4);
    for (endpoint, ticket) in endpoints.iter().zip(tickets) {
        endpoint.wait(ticket).unwrap();
    }
    assert_eq!(rings.made(), 4, "they may be needed again");
    let in_turn = (0..1000).find(|_| {
        one_by_one();
        rings.made() <= 2
    });
    assert!(in_turn.is_some_and(|rounds| rounds > 100), "{in_turn:?}");
    for region in &regions {
        // SAFETY: inside the region; nothing is under way any more.
        let last = unsafe { region.base().add(bytes.len() - 1).read_volatile() };
        assert_eq!(last, 7);
    }
    for device in targets.iter().chain([&origin]) {
        device.close();
    }
}

/// On soft-hca with `mlx5,locked=512`, this fails if they lock more. Each queue pair is connected to itself.
#[test]
#[ignore = "needs an RDMA device that ten thousand queue pairs do not overload"]
fn ten_thousand_connections_lock_no_more_than_is_stated() {
    const PEERS: u64 = 10_000;
    let device = open();
    let word = device.allocate(8, 8).unwrap();
    let queues = PeerQueues {
        adapter: device.adapter.clone(),
        endpoints: Endpoints::default(),
    };
    let before = MemoryRegion::registered_bytes();
    let mut old = 0;
    for instance in 0..PEERS {
        let mut peer = device.own().clone();
        peer.record.instance = instance;
        let numbers = queues.create(&peer, &Arc::default()).unwrap();
        queues.bring_up(&peer, &numbers).unwrap();
        let endpoint = queues.endpoints.get(instance).unwrap();
        let (at, one) = (word.remote().at(0), Fetch::Add(1));
        // SAFETY: the operation is waited for before the place for its answer goes.
        let added = unsafe { endpoint.fetch(at, Width::W8, one, &raw mut old) };
        endpoint.wait(added.unwrap()).unwrap();
        assert_eq!(old, instance);
    }
    let registered = MemoryRegion::registered_bytes() - before;
    let locked = registered + PEERS * queue_bytes(SEND_QUEUE);
    assert!(locked / PEERS <= 53 << 10, "{locked} bytes");
    device.close();
}

#[test]
#[ignore = "needs an RDMA device over Ethernet, with an IPv4 address and an IPv6 one"]
fn ports_meet_over_the_family_that_both_have() {
    let both = choice();
    let second_gid = both.second_gid.clone().expect("a GID of another family");
    let with = |gid| Choice {
        gid,
        second_gid: None,
        ..both.clone()
    };
    let [first, second] = [both.gid.clone(), Some(second_gid)].map(with);
    let [both, first, second] =
        [both, first, second].map(|it| VerbsDevice::open(it, JobSecret::default(), false).unwrap());
    for (origin, target) in [(&second, &both), (&both, &first)] {
        let there = target.allocate(8, 8).unwrap();
        // Which side begins, or both, makes no difference to the way.
        let endpoint = origin.connect_to(target.own()).unwrap();
        target.connect_to(origin.own()).unwrap();
        let stored = endpoint.store(there.remote().at(0), 0, 7).unwrap();
        endpoint.wait(stored).unwrap();
        // SAFETY: a word of the region; nothing is under way any more.
        assert_eq!(unsafe { there.base().cast::<u64>().read_volatile() }, 7);
    }
    let text = first.connect_to(second.own()).err().unwrap().to_string();
    assert!(text.contains("an address of one family"), "{text}");
    for device in [both, first, second] {
        device.close();
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn who_leaves_has_closed_and_who_dies_is_gone_for_both_sides() {
    for (leaves, forward) in [(true, true), (false, true), (false, false)] {
        let (origin, target) = (open(), open());
        let there = target.allocate(8, 8).unwrap();
        let (asks, is_asked) = match forward {
            true => (&origin, &target),
            false => (&target, &origin),
        };
        asks.connect_to(is_asked.own()).unwrap();
        // Which returns when it has heard that the other one is connected.
        is_asked.connect_to(asks.own()).unwrap();
        let endpoint = origin.connect_to(target.own()).unwrap();
        let stored = endpoint.store(there.remote().at(0), 0, 7).unwrap();
        endpoint.wait(stored).unwrap();
        endpoint.liveness().unwrap();
        if leaves {
            target.close();
        }
        let at = there.remote().at(0);
        drop(there);
        // As the kernel does it for a process that was killed.
        drop(target);
        let begun = Instant::now();
        while endpoint.liveness().is_ok() {
            assert!(begun.elapsed().as_secs() < 60, "nobody says so");
            std::thread::yield_now();
        }
        let stored = endpoint.store(at, 7, 8);
        let failed = stored.and_then(|stored| endpoint.wait(stored));
        for error in [endpoint.liveness(), failed].map(Result::unwrap_err) {
            let is_expected = match leaves {
                true => matches!(error, Error::PeerClosed { .. }),
                false => matches!(error, Error::PeerGone { .. }),
            };
            assert!(is_expected, "{error}");
        }
        origin.close();
    }
}
