//! The thread and its queue pair, over an RDMA device: run these with `--ignored` where there is
//! one, such as in the machine of `ci/soft-roce`.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ibverbs_sys as ffi;

use super::super::{Address, Connector, Numbers, PeerId, Queues, Timing};
use crate::Result;
use crate::rdma::{self, Seat, Selector};
use crate::system::random;
use crate::verbs::adapter::Adapter;
use crate::verbs::objects::{CompletionQueue, Establish, MemoryRegion, QueueLimits, QueuePair};
use crate::verbs::settings::Settings;

const LIMIT: Duration = Duration::from_secs(2);

/// An end of a connection: its queue pair, and a word that peers write to.
struct End {
    pair: QueuePair,
    queue: Arc<CompletionQueue>,
    region: MemoryRegion,
    word: Box<u64>,
    psn: u32,
    closed: bool,
}

#[derive(Clone)]
struct Ends {
    adapter: Arc<Adapter>,
    ends: Arc<Mutex<HashMap<PeerId, End>>>,
    /// Time spent making and connecting queue pairs.
    spent: Arc<Mutex<[Duration; 2]>>,
}

impl Queues for Ends {
    fn create(&mut self, peer: &Arc<Address>) -> Result<Numbers> {
        let begun = Instant::now();
        let Adapter {
            context,
            domain,
            port,
            ..
        } = &*self.adapter;
        let queue = CompletionQueue::new(context, 4, None)?;
        let limits = QueueLimits {
            send: 2,
            receive: 1,
            inline: 8,
            elements: 1,
        };
        let pair = QueuePair::new(domain, &queue, ffi::ibv_qp_type::IBV_QPT_RC, limits)?;
        pair.prepare(port.number, 0)?;
        let mut word = Box::new(0);
        let access = ffi::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE
            | ffi::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE;
        // SAFETY: the box lives as long as the region, and is read by volatile reads only.
        let region = unsafe { MemoryRegion::register(domain, (&raw mut *word).cast(), 8, access)? };
        let end = End {
            psn: u32::from_le_bytes(random()?) & 0xff_ffff,
            pair,
            queue,
            region,
            word,
            closed: false,
        };
        let numbers = Numbers {
            qpn: end.pair.number(),
            psn: end.psn,
            responder_resources: 1,
            mtu: port.mtu,
            max_message: port.max_message,
        };
        self.ends.lock().unwrap().insert(peer.instance, end);
        self.spent.lock().unwrap()[0] += begun.elapsed();
        Ok(numbers)
    }

    fn bring_up(&mut self, peer: &Arc<Address>, theirs: &Numbers) -> Result<()> {
        let begun = Instant::now();
        let adapter = &self.adapter;
        let ends = self.ends.lock().unwrap();
        let end = &ends[&peer.instance];
        end.pair.establish(&Establish {
            route: peer.route_from(&adapter.own)?,
            number: theirs.qpn,
            their_psn: theirs.psn,
            our_psn: end.psn,
            mtu: adapter.port.mtu.min(theirs.mtu),
            reads_out: 1,
            reads_in: 1,
            timeout: 14,
            retries: 6,
        })?;
        self.spent.lock().unwrap()[1] += begun.elapsed();
        Ok(())
    }

    fn peer_closed(&mut self, peer: PeerId) {
        self.ends.lock().unwrap().get_mut(&peer).unwrap().closed = true;
    }
}

/// A process's part of the verbs provider; several of them are in this one.
struct Process {
    connector: Connector,
    ends: Ends,
}

impl Process {
    fn start(adapter: &Arc<Adapter>, timeout: Duration) -> Self {
        let port = adapter.own;
        let name = adapter.context.name();
        let own = Address::fresh(port.address(), port.transport, name).unwrap();
        let ends = Ends {
            adapter: adapter.clone(),
            ends: Arc::default(),
            spent: Arc::default(),
        };
        let timing = Timing {
            timeout,
            ..Timing::default()
        };
        let connector = Connector::start(adapter, own, ends.clone(), timing, None).unwrap();
        Self { connector, ends }
    }

    fn connect(&self, peer: &Self) -> Result<()> {
        // As it comes from the key-value space.
        let bytes = peer.connector.address().encode();
        self.connector.connect(&Arc::new(Address::decode(&bytes)?))
    }

    fn id(&self) -> PeerId {
        self.connector.address().instance
    }

    /// Where the end for `peer` may be written to.
    fn target(&self, peer: PeerId) -> (u64, u32) {
        let ends = self.ends.ends.lock().unwrap();
        let end = &ends[&peer];
        (&raw const *end.word as u64, end.region.rkey())
    }

    fn word(&self, peer: PeerId) -> u64 {
        let ends = self.ends.ends.lock().unwrap();
        // SAFETY: a live box that the device writes to.
        unsafe { (&raw const *ends[&peer].word).read_volatile() }
    }

    /// Writes a word into the peer's memory over the connection.
    fn write(&self, peer: &Self, value: u64) {
        let (address, rkey) = peer.target(self.id());
        let ends = self.ends.ends.lock().unwrap();
        let end = &ends[&peer.id()];
        let mut element = ffi::ibv_sge {
            addr: &raw const value as u64,
            length: 8,
            lkey: 0,
        };
        let flags =
            ffi::ibv_send_flags::IBV_SEND_SIGNALED.0 | ffi::ibv_send_flags::IBV_SEND_INLINE.0;
        let mut request = ffi::ibv_send_wr {
            sg_list: &raw mut element,
            num_sge: 1,
            opcode: ffi::ibv_wr_opcode::IBV_WR_RDMA_WRITE,
            send_flags: flags,
            ..ffi::ibv_send_wr::default()
        };
        request.wr.rdma = ffi::ibv_send_wr__bindgen_ty_2__bindgen_ty_1 {
            remote_addr: address,
            rkey,
        };
        // SAFETY: one request, with its data inline.
        unsafe { end.pair.post_send(&raw mut request).unwrap() };
        let mut entries = [ffi::ibv_wc::default()];
        let begun = Instant::now();
        while end.queue.poll(&mut entries).unwrap() == 0 {
            assert!(begun.elapsed() < Duration::from_secs(10), "no completion");
            thread::yield_now();
        }
        assert_eq!(entries[0].error(), None);
    }
}

fn device() -> Arc<Adapter> {
    let devices = rdma::read(Path::new(rdma::CLASS));
    let choice = rdma::choose(&devices, &Selector::default(), &Seat::default()).unwrap();
    let settings = Settings::from_env().unwrap();
    Arc::new(Adapter::open(&choice, settings).unwrap())
}

fn processes(count: usize, timeout: Duration) -> Vec<Process> {
    let adapter = device();
    let start = || Process::start(&adapter, timeout);
    std::iter::repeat_with(start).take(count).collect()
}

fn pair() -> [Process; 2] {
    let pair = processes(2, Duration::from_secs(10));
    pair.try_into().ok().unwrap()
}

#[test]
#[ignore = "needs an RDMA device"]
fn what_is_connected_carries_data_both_ways() {
    let [a, b] = pair();
    a.connect(&b).unwrap();
    a.write(&b, 11);
    assert_eq!(b.word(a.id()), 11);
    b.connect(&a).unwrap();
    b.write(&a, 12);
    assert_eq!(a.word(b.id()), 12);
    a.connect(&a).unwrap();
    a.write(&a, 13);
    assert_eq!(a.word(a.id()), 13);
    assert_eq!(a.ends.ends.lock().unwrap().len(), 2);
}

#[test]
#[ignore = "needs an RDMA device"]
fn many_threads_that_connect_at_once_share_what_they_make() {
    let processes = processes(4, Duration::from_secs(10));
    thread::scope(|scope| {
        for from in &processes {
            for to in &processes {
                for _ in 0..2 {
                    scope.spawn(|| from.connect(to).unwrap());
                }
            }
        }
    });
    for from in &processes {
        assert_eq!(from.ends.ends.lock().unwrap().len(), 4);
        for (value, to) in (100..).zip(&processes) {
            from.write(to, value);
            assert_eq!(to.word(from.id()), value);
        }
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn who_is_gone_is_an_error_in_time() {
    let mut both = processes(2, Duration::from_millis(700));
    let gone = both.pop().unwrap();
    let address = gone.connector.address().clone();
    drop(gone);
    let begun = Instant::now();
    let error = both[0].connector.connect(&address).unwrap_err().to_string();
    assert!(error.contains("no answer within 0.7 s"), "{error}");
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_goodbye_reaches_whoever_was_in_touch() {
    let [a, b] = pair();
    a.connect(&b).unwrap();
    a.connector.close(LIMIT);
    assert!(b.ends.ends.lock().unwrap()[&a.id()].closed);
    let error = b.connect(&a).unwrap_err().to_string();
    assert!(error.contains("has left"), "{error}");
    let begun = Instant::now();
    b.connector.close(LIMIT);
    assert!(begun.elapsed() < LIMIT);
}

#[test]
#[ignore = "needs an RDMA device"]
fn the_thread_ends_at_once_while_it_waits_for_an_answer() {
    let [a, b] = pair();
    let address = b.connector.address().clone();
    drop(b);
    a.connector.begin(&address);
    thread::sleep(Duration::from_millis(300));
    assert!(a.connector.counters().repeated > 0);
    let begun = Instant::now();
    drop(a);
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(500), "{took:?}");
}

/// Takes the interface under an emulated device down, which is nobody else's.
#[test]
#[ignore = "needs an RDMA device, emulated over a dummy interface, and root"]
fn requests_get_through_once_the_port_is_up_again() {
    let [a, b] = pair();
    let devices = rdma::read(Path::new(rdma::CLASS));
    let interface = devices.iter().find_map(|device| {
        let port = device.ports.first()?;
        let interface = port.netdev.clone()?;
        (device.emulated && interface.starts_with("dummy")).then_some(interface)
    });
    let interface = interface.expect("an emulated device over a dummy interface");
    let set = |state| {
        let arguments = ["link", "set", &interface, state];
        assert!(
            Command::new("ip")
                .args(arguments)
                .status()
                .unwrap()
                .success()
        );
    };
    set("down");
    thread::scope(|scope| {
        let attempt = scope.spawn(|| a.connect(&b));
        thread::sleep(Duration::from_millis(600));
        assert!(!attempt.is_finished());
        set("up");
        attempt.join().unwrap().unwrap();
    });
    a.write(&b, 5);
    assert_eq!(b.word(a.id()), 5);
}

#[test]
#[ignore = "needs an RDMA device; measures"]
fn connecting_256_peers() {
    for together in [false, true] {
        let processes = processes(257, Duration::from_secs(60));
        let (own, peers) = processes.split_first().unwrap();
        let begun = Instant::now();
        if together {
            for peer in peers {
                own.connector.begin(peer.connector.address());
            }
        }
        for peer in peers {
            own.connect(peer).unwrap();
        }
        let took = begun.elapsed();
        let counters = own.connector.counters();
        let [making, connecting] = *own.ends.spent.lock().unwrap();
        let how = if together {
            "all asked first"
        } else {
            "one after the other"
        };
        println!(
            "256 peers, {how}: {took:.1?}, of it making queue pairs here {making:.1?}, connecting \
             them {connecting:.1?}; {counters:?}"
        );
        for (value, peer) in (1..).zip(peers) {
            own.write(peer, value);
            assert_eq!(peer.word(own.id()), value);
        }
    }
}
