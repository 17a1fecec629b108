//! Processes, the queue pairs that they would have, and a network that does what it likes.

use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::super::address::{Address, PeerId};
use super::super::failure::ConnectFailure;
use super::super::message::Numbers;
use super::super::protocol::Protocol;
use super::super::{Queues, Timing};
use crate::rdma::Gid;
use crate::verbs::port::{PortAddress, Transport};
use crate::{Error, Result};

pub(super) const IPV4: Gid = Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped();
pub(super) const IPV6: Gid = Gid::from_bits(u128::from_ne_bytes([0xfd; 16]));

/// A queue pair as the device would see it.
#[derive(Clone, Debug)]
pub(super) struct QueuePair {
    pub(super) numbers: Numbers,
    pub(super) listens_to: Option<Numbers>,
    pub(super) closed: bool,
}

/// What one process's device does, watched from outside.
#[derive(Default)]
pub(super) struct Device {
    pub(super) pairs: HashMap<PeerId, QueuePair>,
    /// How many more queue pairs there are, if they are counted.
    pub(super) left: Option<usize>,
    pub(super) refuses_to_connect: bool,
}

pub(super) struct Handle {
    process: u32,
    device: Arc<Mutex<Device>>,
}

impl Queues for Handle {
    fn create(&mut self, peer: &Arc<Address>) -> Result<Numbers> {
        let mut device = self.device.lock().unwrap();
        if let Some(left) = &mut device.left {
            if *left == 0 {
                let source = std::io::Error::from_raw_os_error(libc::ENOMEM);
                return Err(Error::os("creating a queue pair", source));
            }
            *left -= 1;
        }
        let numbers = Numbers {
            qpn: (self.process << 12) + device.pairs.len() as u32 + 2,
            psn: 0x1000 + self.process,
            responder_resources: 16,
            mtu: 3,
            max_message: 1 << 23,
        };
        let pair = QueuePair {
            numbers,
            listens_to: None,
            closed: false,
        };
        let before = device.pairs.insert(peer.instance, pair);
        assert!(before.is_none(), "a second queue pair for one peer");
        Ok(numbers)
    }

    fn bring_up(&mut self, peer: &Arc<Address>, theirs: &Numbers) -> Result<()> {
        let mut device = self.device.lock().unwrap();
        if device.refuses_to_connect {
            let source = std::io::Error::from_raw_os_error(libc::ETIMEDOUT);
            return Err(Error::os("connecting a queue pair", source));
        }
        let pair = device.pairs.get_mut(&peer.instance).expect("created");
        let before = pair.listens_to.replace(*theirs);
        assert_eq!(before, None, "connected twice");
        Ok(())
    }

    fn peer_closed(&mut self, peer: PeerId) {
        let mut device = self.device.lock().unwrap();
        let pair = device.pairs.get_mut(&peer).expect("created");
        assert!(!std::mem::replace(&mut pair.closed, true), "closed twice");
    }
}

/// What may happen to a datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    pub(super) lost_percent: u64,
    pub(super) doubled_percent: u64,
    pub(super) delay_us: (u64, u64),
    pub(super) seed: u64,
}

impl Weather {
    pub(super) const FINE: Self = Self {
        lost_percent: 0,
        doubled_percent: 0,
        delay_us: (100, 100),
        seed: 1,
    };
}

pub(super) struct Process {
    pub(super) address: Arc<Address>,
    pub(super) protocol: Protocol<Handle>,
    pub(super) device: Arc<Mutex<Device>>,
    pub(super) outcomes: BTreeMap<PeerId, std::result::Result<(), ConnectFailure>>,
    /// How long its thread takes to serve one that asks, when it has done so, and what has arrived
    /// until then.
    pub(super) takes: Duration,
    busy_until: Option<Instant>,
    inbox: VecDeque<Vec<u8>>,
}

/// What arrives beyond is lost.
const RECEIVES: usize = 128;

/// A datagram under way: when it arrives, in which order it was sent, for which process.
type Flight = std::cmp::Reverse<(Instant, u64, usize, Vec<u8>)>;

impl Process {
    fn put(&mut self, bytes: Vec<u8>) {
        if self.inbox.len() < RECEIVES {
            self.inbox.push_back(bytes);
        }
    }
}

pub(super) struct Network {
    pub(super) now: Instant,
    pub(super) start: Instant,
    pub(super) processes: Vec<Process>,
    /// Processes that hear and say nothing any more.
    pub(super) dead: Vec<usize>,
    weather: Weather,
    random: u64,
    flights: BinaryHeap<Flight>,
    pub(super) sent: u64,
}

impl Network {
    pub(super) fn of(processes: u32, weather: Weather) -> Self {
        let start = Instant::now();
        let mut network = Self {
            now: start,
            start,
            processes: Vec::new(),
            dead: Vec::new(),
            weather,
            random: weather.seed | 1,
            flights: BinaryHeap::new(),
            sent: 0,
        };
        for _ in 0..processes {
            network.add();
        }
        network
    }

    /// Starts one more process, with a queue pair number of its own.
    pub(super) fn add(&mut self) -> usize {
        let number = self.processes.len() as u32 + 1;
        self.add_at(number)
    }

    pub(super) fn add_at(&mut self, qpn: u32) -> usize {
        self.add_with(qpn, &[IPV4])
    }

    /// Starts a process whose port has these GIDs.
    pub(super) fn add_with(&mut self, qpn: u32, gids: &[Gid]) -> usize {
        let port = PortAddress::new(gids.iter().copied(), 0);
        let address = Arc::new(Address {
            qpn,
            ..Address::fresh(port, Transport::RoceV2, "rxe0").unwrap()
        });
        let device = Arc::new(Mutex::new(Device::default()));
        let handle = Handle {
            process: self.processes.len() as u32 + 1,
            device: device.clone(),
        };
        let protocol = Protocol::new(address.clone(), Timing::default(), handle);
        self.processes.push(Process {
            address,
            protocol,
            device,
            outcomes: BTreeMap::new(),
            takes: Duration::ZERO,
            busy_until: None,
            inbox: VecDeque::new(),
        });
        self.processes.len() - 1
    }

    pub(super) fn id(&self, process: usize) -> PeerId {
        self.processes[process].address.instance
    }

    pub(super) fn connect(&mut self, from: usize, to: usize) {
        let address = self.processes[to].address.clone();
        let now = self.now;
        let process = &mut self.processes[from];
        process.outcomes.remove(&address.instance);
        process.protocol.connect(now, &address);
        self.carry(from);
    }

    pub(super) fn leave(&mut self, process: usize, limit: Duration) {
        let now = self.now;
        self.processes[process].protocol.leave(now, limit);
        self.carry(process);
    }

    /// Puts bytes of a stranger's on the wire.
    pub(super) fn inject(&mut self, to: usize, bytes: Vec<u8>) {
        self.throw(to, bytes);
    }

    /// How an attempt ended, if it has.
    pub(super) fn outcome(
        &self,
        from: usize,
        to: usize,
    ) -> Option<std::result::Result<(), ConnectFailure>> {
        self.processes[from].outcomes.get(&self.id(to)).cloned()
    }

    pub(super) fn pair(&self, from: usize, to: usize) -> Option<QueuePair> {
        let device = self.processes[from].device.lock().unwrap();
        device.pairs.get(&self.id(to)).cloned()
    }

    /// Lets time pass until nothing is under way and nothing is due, or until `limit` has passed.
    pub(super) fn run(&mut self, limit: Duration) {
        let end = self.now + limit;
        loop {
            let flight = self.flights.peek().map(|flight| flight.0.0);
            let living = (0..self.processes.len()).filter(|process| !self.dead.contains(process));
            let tick = living
                .filter_map(|index| {
                    let process = &self.processes[index];
                    let due = process.protocol.next_tick();
                    Some((process.busy_until.or(due)?, index))
                })
                .min();
            let tick_at = tick.map(|(at, _)| at);
            let Some(next) = [flight, tick_at].into_iter().flatten().min() else {
                return;
            };
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            if flight == Some(next) {
                let std::cmp::Reverse((_, _, to, bytes)) = self.flights.pop().unwrap();
                if !self.dead.contains(&to) {
                    self.processes[to].put(bytes);
                    self.attend(to);
                }
            } else if let Some((_, process)) = tick {
                self.attend(process);
                self.processes[process].protocol.tick(self.now);
                self.carry(process);
            }
        }
    }

    /// Has a process take what has arrived, and serve one that asks, or all if that takes no time.
    fn attend(&mut self, process: usize) {
        let (now, this) = (self.now, &mut self.processes[process]);
        while this.busy_until.is_none_or(|end| now >= end) {
            while let Some(bytes) = this.inbox.pop_front() {
                this.protocol.receive(now, &bytes);
            }
            let works = this.protocol.work(now);
            this.busy_until = (works && !this.takes.is_zero()).then(|| now + this.takes);
            if !works {
                break;
            }
        }
        self.carry(process);
    }

    /// Takes what a process has to say, and what became of its attempts.
    fn carry(&mut self, from: usize) {
        while let Some(transmit) = self.processes[from].protocol.poll_transmit() {
            self.sent += 1;
            let to = transmit.to.qpn;
            // Numbers are given again: the datagram reaches whoever has this one now.
            let there = self.processes.iter().enumerate().rev();
            let mut there = there.filter(|(index, _)| !self.dead.contains(index));
            if let Some((to, _)) = there.find(|(_, process)| process.address.qpn == to) {
                self.throw(to, transmit.bytes);
            }
        }
        while let Some(outcome) = self.processes[from].protocol.poll_outcome() {
            if outcome.result.is_ok() {
                self.must_listen(from, outcome.peer);
            }
            let before = self.processes[from]
                .outcomes
                .insert(outcome.peer, outcome.result);
            assert!(before.is_none(), "one attempt ended twice");
        }
    }

    /// A side may send: both listen to each other, by the right numbers.
    fn must_listen(&self, from: usize, peer: PeerId) {
        let there = self.processes.iter().find(|p| p.address.instance == peer);
        let here = &self.processes[from];
        let theirs = there.unwrap().device.lock().unwrap().pairs[&here.address.instance].clone();
        let ours = here.device.lock().unwrap().pairs[&peer].clone();
        assert_eq!(theirs.listens_to, Some(ours.numbers));
        assert_eq!(ours.listens_to, Some(theirs.numbers));
    }

    fn throw(&mut self, to: usize, bytes: Vec<u8>) {
        let copies = match self.percent() {
            lot if lot < self.weather.lost_percent => 0,
            lot if lot < self.weather.lost_percent + self.weather.doubled_percent => 2,
            _ => 1,
        };
        for copy in 0..copies {
            let (least, most) = self.weather.delay_us;
            let delay = least + self.draw() % (most - least + 1);
            let at = self.now + Duration::from_micros(delay);
            let order = self.sent << 1 | copy;
            self.flights
                .push(std::cmp::Reverse((at, order, to, bytes.clone())));
        }
    }

    fn percent(&mut self) -> u64 {
        self.draw() % 100
    }

    /// xorshift64*: the same seed, the same weather.
    fn draw(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33
    }
}
