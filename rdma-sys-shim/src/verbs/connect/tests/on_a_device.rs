//! Queue pairs that are connected, over an RDMA device: run these with `--ignored` where there is
//! one, such as in the machine of `ci/soft-roce`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ibverbs_sys as ffi;

use super::super::{Address, Connector, Numbers, Queues};
use crate::channel::Status;
use crate::rdma::{self, Seat, Selector};
use crate::system::random;
use crate::verbs::adapter::Adapter;
use crate::verbs::objects::{CompletionQueue, Establish, MemoryRegion, QueueLimits, QueuePair};
use crate::verbs::settings::Settings;
use crate::{JobSecret, Result};

const LIMIT: Duration = Duration::from_secs(10);

/// An end of a connection: its queue pair, and a word that peers write to.
struct End {
    pair: QueuePair,
    queue: Arc<CompletionQueue>,
    region: MemoryRegion,
    word: Box<u64>,
    psn: u32,
}

#[derive(Clone)]
struct Ends {
    adapter: Arc<Adapter>,
    ends: Arc<Mutex<HashMap<u64, End>>>,
    /// Time spent making and connecting queue pairs.
    spent: Arc<Mutex<[Duration; 2]>>,
}

impl Queues for Ends {
    fn create(&self, peer: &Address, _: &Arc<Status>) -> Result<Numbers> {
        let begun = Instant::now();
        let Adapter {
            context,
            domain,
            port,
            ..
        } = &*self.adapter;
        let queue = CompletionQueue::new(context, 4)?;
        let limits = QueueLimits {
            send: 2,
            inline: 8,
            elements: 1,
        };
        let pair = QueuePair::new(domain, &queue, limits)?;
        pair.prepare(port.number, 0, true)?;
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
        };
        let numbers = Numbers {
            qpn: end.pair.number(),
            psn: end.psn,
            responder_resources: 1,
            mtu: port.mtu,
            max_message: port.max_message,
            trailing: None,
        };
        self.ends.lock().unwrap().insert(peer.record.instance, end);
        self.spent.lock().unwrap()[0] += begun.elapsed();
        Ok(numbers)
    }

    fn bring_up(&self, peer: &Address, theirs: &Numbers) -> Result<()> {
        let begun = Instant::now();
        let adapter = &self.adapter;
        let ends = self.ends.lock().unwrap();
        let end = &ends[&peer.record.instance];
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
}

/// A process's part of the verbs provider; several of them are in this one.
struct Process {
    connector: Connector,
    ends: Ends,
}

impl Process {
    fn start(adapter: &Arc<Adapter>) -> Self {
        let port = (adapter.own.address(), adapter.own.transport);
        let ends = Ends {
            adapter: adapter.clone(),
            ends: Arc::default(),
            spent: Arc::default(),
        };
        let name = adapter.context.name();
        let connector =
            Connector::start(JobSecret::default(), port, name, ends.clone(), LIMIT, None).unwrap();
        Self { connector, ends }
    }

    fn connect(&self, peer: &Self) -> Result<()> {
        self.connector.connect(peer.connector.address())
    }

    fn id(&self) -> u64 {
        self.connector.address().record.instance
    }

    /// Where the end for `peer` may be written to.
    fn target(&self, peer: u64) -> (u64, u32) {
        let ends = self.ends.ends.lock().unwrap();
        let end = &ends[&peer];
        (&raw const *end.word as u64, end.region.rkey())
    }

    fn word(&self, peer: u64) -> u64 {
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
    let devices = rdma::read(&rdma::class());
    let choice = rdma::choose(&devices, &Selector::default(), &Seat::default()).unwrap();
    let settings = Settings::from_env().unwrap();
    Arc::new(Adapter::open(&choice, settings).unwrap())
}

fn processes(count: usize) -> Vec<Process> {
    let adapter = device();
    let start = || Process::start(&adapter);
    std::iter::repeat_with(start).take(count).collect()
}

fn pair() -> [Process; 2] {
    processes(2).try_into().ok().unwrap()
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
    let processes = processes(4);
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
#[ignore = "needs an RDMA device and 4,096 descriptors; measures"]
fn connecting_256_peers() {
    for threads in [1, 16] {
        let processes = processes(257);
        let (own, peers) = processes.split_first().unwrap();
        let begun = Instant::now();
        thread::scope(|scope| {
            for part in peers.chunks(256 / threads) {
                scope.spawn(move || part.iter().for_each(|peer| own.connect(peer).unwrap()));
            }
        });
        let took = begun.elapsed();
        let [making, connecting] = *own.ends.spent.lock().unwrap();
        println!(
            "256 peers, {threads} threads: {took:.1?}, making queue pairs here {making:.1?}, connecting them \
             {connecting:.1?}"
        );
        for (value, peer) in (1..).zip(peers) {
            own.write(peer, value);
            assert_eq!(peer.word(own.id()), value);
        }
    }
}
