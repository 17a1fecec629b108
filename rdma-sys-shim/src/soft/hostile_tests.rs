//! Every process that may open the segment of another process may also write to it. These tests show that it still
//! cannot access memory that the other process has not registered.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::memory_file::{self, FileId};
use super::request::{self, Operation, Request};
use super::segment::Segment;
use super::slots::{self, Offered, SLOTS, Slots, Unanswered};
use super::{BootstrapSegment, DEVICE, Options, SoftDevice, table};
use crate::assist::Assist;
use crate::device::combine::triple_and_add::TripleAndAdd;
use crate::primitive::milliseconds;
use crate::{Access, Combination, Device as _, Direction, Operands, RemoteAddress};

const OPERATIONS: [Operation; 9] = [
    Operation::Write,
    Operation::Read,
    Operation::FetchAdd,
    Operation::CompareSwap,
    Operation::AddEach,
    Operation::StoreEach,
    Operation::Scatter,
    Operation::Gather,
    Operation::Combine,
];

const COMBINED: Combination = Combination {
    operation: 0,
    ty: 0,
    atomics: 1,
    operands: Operands::One,
    fetches: true,
};

/// A device, and its segment as an attacker has opened it.
struct Victim {
    device: SoftDevice,
    segment: Segment,
}

impl Victim {
    fn new(options: &str) -> Self {
        let device = SoftDevice::open(Options::parse(options).unwrap(), None).unwrap();
        device.combine_by(Arc::new(TripleAndAdd));
        let (own, segment) = (device.own.id, &device.own.address.segment);
        let (segment, _) = Segment::open(DEVICE, own, segment).unwrap();
        Self { device, segment }
    }

    /// Enters `len` bytes at `address` in the table that peers can write, with all rights.
    fn forge(&self, index: u32, address: u64, len: u64) -> RemoteAddress {
        let entry = self.segment.published_entry(index as usize);
        entry.address.store(address, Ordering::Relaxed);
        entry.len.store(len, Ordering::Relaxed);
        entry.access.store(u32::MAX, Ordering::Relaxed);
        entry.generation.store(1, Ordering::Release);
        let rkey = 1 << 32 | u64::from(index);
        RemoteAddress { address, rkey }
    }

    /// The slot data of a request for `len` bytes: ones, behind a list of one piece where there is a list.
    fn data(operation: Operation, len: u32) -> Vec<u8> {
        match operation {
            Operation::Scatter | Operation::Gather => [0, len, 0, 1].map(u32::to_ne_bytes).concat(),
            _ => vec![1; len as usize],
        }
    }

    fn request(operation: Operation, at: RemoteAddress, len: usize) -> Request {
        let width = match operation {
            Operation::Scatter | Operation::Gather => 1,
            Operation::Combine => u32::from_ne_bytes(COMBINED.encode()) as usize,
            _ => 8,
        };
        Request {
            // For an accumulate, the lock, which it does not take.
            operands: match operation {
                Operation::Combine => [at.address, at.rkey],
                _ => [1, 1],
            },
            ..Request::of(operation, width, at, 0, len)
        }
    }

    /// Fills a slot with a request, and returns which.
    fn fill(&self, operation: Operation, at: RemoteAddress, len: usize) -> usize {
        let slot = request::claim_now(&self.segment, self.device.own.id, 0).unwrap();
        let data = Self::data(operation, len as u32);
        let to = request::data(&self.segment, slot, operation, len);
        // SAFETY: the slot is claimed, and has room for so little.
        unsafe { ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) };
        Self::request(operation, at, len).sign(&self.segment, slot);
        slot
    }

    /// Whether the agent does it.
    fn agent_obeys(&self, operation: Operation, at: RemoteAddress, len: usize) -> bool {
        let slot = self.fill(operation, at, len);
        let answer = slots::exchange(&self.segment, slot, || Ok(())).unwrap();
        slots::give_back(self.segment.slot(slot));
        answer.is_some()
    }

    /// Whether a thread that waits does it.
    fn assist_obeys(&self, operation: Operation, at: RemoteAddress, len: usize) -> bool {
        let slot = self.fill(operation, at, len);
        slots::offer(self.segment.slot(slot), milliseconds());
        let assist = Assist::of_one(self.device.own.segment.clone());
        assert!(assist.serve());
        let answer = slots::collect(&self.segment, slot, || true, || Ok(())).unwrap();
        slots::give_back(self.segment.slot(slot));
        matches!(answer, Offered::Answered(Some(_)))
    }
}

/// Memory of the victim's that is in no region.
struct Secret(Box<[u64; 8]>);

impl Secret {
    fn new() -> Self {
        Self(Box::new([0x5ec2e7; 8]))
    }

    fn address(&self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    fn check(&self) {
        // SAFETY: a word of our own; volatile, since the compiler knows of nobody who could have changed it.
        let found = [0, 1, 7].map(|at| unsafe { (&raw const self.0[at]).read_volatile() });
        assert_eq!(found, [0x5ec2e7; 3]);
    }
}

fn registered(victim: &Victim, words: &mut [u64; 8]) -> crate::LocalRegion {
    let base = words.as_mut_ptr().cast();
    // SAFETY: the words outlive the region, and are accessed by peers meanwhile.
    unsafe { victim.device.register(base, 64, Access::ALL) }.unwrap()
}

#[test]
fn an_entry_that_the_owner_did_not_make_gives_no_right() {
    let victim = Victim::new("cma=off");
    let secret = Secret::new();
    let mut words = [0; 8];
    // So that there is an agent.
    let region = registered(&victim, &mut words);
    for index in [9, 300, 60_000] {
        let at = victim.forge(index, secret.address(), 64);
        for operation in OPERATIONS {
            assert!(!victim.agent_obeys(operation, at, 8), "{operation:?}");
            assert!(!victim.assist_obeys(operation, at, 8), "{operation:?}");
            secret.check();
        }
        let itself = victim.device.connect(&victim.device.address()).unwrap();
        let mut found = [0_u8; 8];
        // SAFETY: a local of as many bytes.
        let read = unsafe { itself.transfer(Direction::Read, found.as_mut_ptr(), 8, at) };
        assert!(read.unwrap_err().is_remote_access());
        // SAFETY: as above.
        let written =
            unsafe { itself.transfer(Direction::Write, found.as_ptr().cast_mut(), 8, at) };
        assert!(written.unwrap_err().is_remote_access());
        secret.check();
    }
    drop(region);
}

#[test]
fn an_entry_that_was_changed_gives_no_more_rights_and_takes_none() {
    let victim = Victim::new("cma=off");
    let secret = Secret::new();
    let mut words = [0; 8];
    let region = registered(&victim, &mut words);
    let remote = region.remote();
    let entry = victim.segment.published_entry(remote.rkey as u32 as usize);
    // From the first byte to the last.
    entry.address.store(0, Ordering::Relaxed);
    entry.len.store(u64::MAX, Ordering::Relaxed);
    entry.access.store(u32::MAX, Ordering::Relaxed);
    let at = RemoteAddress {
        address: secret.address(),
        ..remote.at(0)
    };
    for operation in OPERATIONS {
        assert!(!victim.agent_obeys(operation, at, 8), "{operation:?}");
        assert!(!victim.assist_obeys(operation, at, 8), "{operation:?}");
        secret.check();
        let may = match operation {
            // This one does not use the lock.
            Operation::Combine => Access::ATOMIC,
            other => other.need(),
        };
        let obeys = victim.assist_obeys(operation, remote.at(0), 8);
        // Others have no atomics on memory that they cannot map.
        let granted = Access::ALL.without(Access::ATOMIC);
        assert_eq!(obeys, granted.allows(may), "{operation:?}");
    }
    // Nothing is there any more, in the eyes of peers.
    entry.generation.store(0, Ordering::Relaxed);
    assert!(victim.agent_obeys(Operation::Read, remote.at(0), 8));
    // The next region of this entry is what its owner says.
    drop(region);
    assert!(!victim.assist_obeys(Operation::Read, remote.at(0), 8));
    let region = registered(&victim, &mut words);
    assert_eq!(region.remote().rkey as u32, remote.rkey as u32);
    assert_ne!(region.remote().rkey, remote.rkey);
    let at = region.remote().at(0);
    assert!(victim.assist_obeys(Operation::Read, at, 8));
    let way = victim.device.connect(&victim.device.address()).unwrap();
    let mut found = [0_u8; 8];
    // SAFETY: a local of as many bytes.
    unsafe { way.transfer(Direction::Read, found.as_mut_ptr(), 8, at) }.unwrap();
}

/// Withdrawn memory is its owner's alone, also while others serve peers.
#[test]
fn nothing_is_done_to_memory_that_was_withdrawn() {
    const LEN: usize = 64 << 10;
    let victim = Victim::new("");
    let mut memory = vec![0_u8; LEN];
    let base = memory.as_mut_ptr();
    let (over, rkey) = (AtomicBool::new(false), AtomicU64::new(0));
    let address = base.expose_provenance() as u64;
    thread::scope(|scope| {
        scope.spawn(|| {
            let assist = Assist::of_one(victim.device.own.segment.clone());
            while !over.load(Ordering::Relaxed) {
                assist.serve();
            }
        });
        scope.spawn(|| {
            let ones = vec![1_u8; LEN];
            let slot = request::claim_now(&victim.segment, victim.device.own.id, 0).unwrap();
            while !over.load(Ordering::Relaxed) {
                let rkey = rkey.load(Ordering::Relaxed);
                let at = RemoteAddress { address, rkey };
                let request = Request::of(Operation::Write, 0, at, 0, LEN);
                // SAFETY: the slot is claimed, and the vector has as many bytes.
                unsafe { request.fill(&victim.segment, slot, ones.as_ptr()) };
                slots::offer(victim.segment.slot(slot), milliseconds());
                // What was offered long ago is not served any more.
                let mut looks = 0;
                let is_patient = || {
                    looks += 1;
                    looks < 10_000
                };
                slots::collect(&victim.segment, slot, is_patient, || Ok(())).unwrap();
            }
        });
        let _ends = Ends(&over);
        for _ in 0..500 {
            // SAFETY: the vector outlives the region.
            let region = unsafe { victim.device.register(base, LEN, Access::ALL) }.unwrap();
            rkey.store(region.remote().rkey, Ordering::Relaxed);
            // SAFETY: memory of our own, which peers may write.
            while unsafe { base.add(LEN - 1).read_volatile() } == 0 {
                thread::yield_now();
            }
            drop(region);
            // SAFETY: memory that is ours alone now.
            unsafe { base.write_bytes(0, LEN) };
            for _ in 0..20 {
                std::hint::spin_loop();
                // SAFETY: as above; volatile, since it is not believed yet.
                let last = unsafe { [0, LEN / 2, LEN - 1].map(|at| base.add(at).read_volatile()) };
                assert_eq!(last, [0; 3]);
            }
        }
    });
}

#[test]
fn nobody_changes_the_length_of_a_memory_file() {
    let victim = Victim::new("");
    let large = victim.device.allocate(17 << 20, 64).unwrap();
    let piece = table::piece(&victim.segment, large.remote().rkey).unwrap();
    let own = &victim.device.own.address.segment;
    let segment = BootstrapSegment::create().unwrap();
    let place = segment.place().unwrap().unwrap();
    let place: Vec<u64> = place.split('/').map(|part| part.parse().unwrap()).collect();
    let of = |inode| FileId { inode, ..own.file };
    for (fd, id) in [
        (own.fd, own.file),
        (piece.fd, of(piece.inode)),
        (place[1] as i32, of(place[3])),
    ] {
        let file = memory_file::open_peer_file(own.process.pid, fd, id).unwrap();
        let len = file.metadata().unwrap().len();
        for other in [0, len / 2, len - 1, len + 1, 2 * len] {
            assert!(file.set_len(other).is_err(), "{other} for {len}");
        }
        assert_eq!(file.metadata().unwrap().len(), len);
        assert_eq!(memory_file::must_hold(&file, 0, len), Ok(()));
        for (at, bytes) in [(1, len), (len + 1, 0), (u64::MAX, 2), (0, u64::MAX)] {
            assert!(memory_file::must_hold(&file, at, bytes).is_err());
        }
    }
    let unsealed = std::fs::File::open("/proc/self/exe").unwrap();
    assert!(memory_file::must_hold(&unsealed, 0, 1).is_err());
}

/// What a peer would map, and where it would take its region to be, by entries that lie.
#[test]
fn a_region_is_mapped_only_where_its_file_has_it() {
    let victim = Victim::new("");
    let origin = SoftDevice::open(Options::parse("").unwrap(), None).unwrap();
    let way = origin.connect(&victim.device.address()).unwrap();
    let small = victim.device.allocate(4096, 64).unwrap();
    let first = victim.device.allocate(1 << 20, 64).unwrap();
    let large = victim.device.allocate(1 << 20, 64).unwrap();
    for region in [small.remote(), first.remote(), large.remote()] {
        let mapped = || way.map(&region).unwrap().is_some();
        assert!(mapped());
        let entry = victim.segment.published_entry(region.rkey as u32 as usize);
        let lie = |field: &AtomicU64, value: u64| {
            let before = field.swap(value, Ordering::Relaxed);
            let error = way.map(&region).err().expect("mapped").to_string();
            let pid = std::process::id().to_string();
            assert!(error.contains(&pid), "{value:#x}: {error}");
            field.store(before, Ordering::Relaxed);
            assert!(mapped());
        };
        for far in [1 << 30, 1 << 40, u64::MAX, u64::MAX - 4095, 1 << 63] {
            lie(&entry.piece_offset, far);
            lie(&entry.piece_len, far);
            lie(&entry.piece_address, far);
        }
        lie(&entry.piece_address, region.address + 64);
        lie(&entry.piece_len, 64);
        lie(&entry.piece_offset, 8);
        for fd in [0, 1, 2, 1 << 20, u32::MAX] {
            let before = entry.piece_fd.swap(fd, Ordering::Relaxed);
            assert!(way.map(&region).is_err(), "{fd}");
            entry.piece_fd.store(before, Ordering::Relaxed);
        }
        assert!(mapped());
    }
}

/// Nobody waits for an answer in a slot that was overwritten, nor for one of a peer that is gone.
#[test]
fn a_state_that_cannot_be_ends_the_wait() {
    let victim = Victim::new("cma=off");
    let mut words = [0; 8];
    let region = registered(&victim, &mut words);
    for state in [0, 6, 77, u32::MAX] {
        let slot = victim.fill(Operation::Read, region.remote().at(0), 8);
        let overwritten = || {
            slots::forge(&victim.segment, slot, state);
            Ok(())
        };
        // As a server that never comes to an end.
        slots::forge(&victim.segment, slot, 3);
        let answer = slots::collect(&victim.segment, slot, || true, overwritten);
        assert_eq!(answer, Err(Unanswered::Garbled), "{state}");
        slots::give_back(victim.segment.slot(slot));
    }
}

/// Whatever stands in slots and tables, peers do each other's bidding in windows and nowhere else.
#[test]
fn garbage_in_slots_and_tables_harms_nobody() {
    // Those of the honest one begin elsewhere.
    const ATTACKED: usize = SLOTS / 2;
    let honest_slots = || ATTACKED + (std::process::id() as usize % (SLOTS - ATTACKED));
    for options in ["cma=off", "cma=off,map=off"] {
        let victim = Victim::new(options);
        let secret = Secret::new();
        let mut words = [0; 8];
        let region = registered(&victim, &mut words);
        let remote = region.remote();
        let window = victim.device.allocate(4096, 64).unwrap();
        let (segment, own) = (&victim.segment, &victim.device.own.segment);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let assist = Assist::of_one(own.clone());
                while !over.load(Ordering::Relaxed) {
                    assist.serve();
                }
            });
            let _ends = Ends(&over);
            let mut random = Random(7);
            for round in 0..20_000 {
                let places = [secret.address(), remote.address, window.remote().address, 0];
                let index = random.below(ATTACKED as u64) as usize;
                for word in 0..6 {
                    let to = segment.slot_data(index).cast::<u32>().wrapping_add(word);
                    // SAFETY: inside the slot's data.
                    unsafe { to.write_volatile(random.odd()) };
                }
                let slot = segment.slot(index);
                slot.operation
                    .store(random.below(14) as u32, Ordering::Relaxed);
                slot.width.store(
                    [1, 2, 4, 8, random.odd()][random.below(5) as usize],
                    Ordering::Relaxed,
                );
                let forged = 1 << 32 | (1 + random.below(20));
                let rkey = [remote.rkey, window.remote().rkey, forged][random.below(3) as usize];
                slot.rkey.store(rkey, Ordering::Relaxed);
                let place = places[random.below(4) as usize];
                slot.address
                    .store(place.wrapping_add(random.odd().into()), Ordering::Relaxed);
                let len = [8, 64, u64::from(random.odd()), u64::MAX][random.below(4) as usize];
                slot.len.store(len as u32, Ordering::Relaxed);
                slots::forge(segment, index, random.below(8) as u32);
                let entry = segment.published_entry(1 + random.below(20) as usize);
                entry.address.store(secret.address(), Ordering::Relaxed);
                entry.len.store(u64::from(random.odd()), Ordering::Relaxed);
                entry.access.store(random.odd(), Ordering::Relaxed);
                entry.generation.store(random.odd(), Ordering::Release);
                if round % 8 == 0 {
                    let at = honest_slots();
                    let request = Victim::request(Operation::Read, remote.at(0), 64);
                    let slot =
                        slots::claim(segment, SLOTS, at, victim.device.own.id.to_word()).unwrap();
                    if slot < ATTACKED {
                        slots::give_back(segment.slot(slot));
                        continue;
                    }
                    request.sign(segment, slot);
                    let answer = slots::exchange(segment, slot, || Ok(()));
                    assert!(matches!(answer, Ok(Some(_))), "{answer:?}");
                    slots::give_back(segment.slot(slot));
                }
                secret.check();
            }
            over.store(true, Ordering::Relaxed);
        });
        secret.check();
        drop((region, window));
    }
}

/// Has threads end that look at this, also where a check fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Numbers that are the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 20) % end
    }

    /// A number of the kind that is not checked for: at an edge, small, or any.
    fn odd(&mut self) -> u32 {
        let any = self.next() as u32;
        let edges = [
            0,
            1,
            4095,
            4096,
            4097,
            65_536,
            u32::MAX,
            1 << 31,
            any % 200,
            any,
        ];
        edges[self.below(10) as usize]
    }
}
