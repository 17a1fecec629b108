//! A connection of two ranks over a device under test. The ranks agree on the next step over another connection.
//!
//! Each rank has one region. Its peer writes to some parts of it. All local buffers of operations are in it, too. The
//! region is kept as long as an operation may be in progress.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rdma_sys_shim::memory::{after_flag, before_flag, copy};
use rdma_sys_shim::{
    Device, Direction, Endpoint, Fetch, LocalRegion, RemoteAddress, RemoteRegion, Ticket, Width,
};
use serde::{Deserialize, Serialize};

/// A word of the region.
#[derive(Clone, Copy)]
pub(super) struct Word(u64);

/// Flags of both kinds, and the answers to them. Only the peer writes to these.
pub(super) const STORED: Word = Word(0);
pub(super) const STORED_ANSWER: Word = Word(64);
pub(super) const ADDED: Word = Word(128);
pub(super) const ADDED_ANSWER: Word = Word(192);
/// Words on which atomics are tested.
pub(super) const TRIED: Word = Word(256);
pub(super) const SUM: Word = Word(320);
pub(super) const SUM_BESIDE_PROCESSOR: Word = Word(384);
/// Where results of this rank's atomics arrive.
const ANSWER: Word = Word(448);
/// The peer sets this after it has made all its adds beside the processor.
pub(super) const ADDS_DONE: Word = Word(512);

/// The longest transfer in bytes.
pub(super) const BLOCK: usize = 1 << 20;
/// The place to which the peer writes.
const IN: usize = 4096;
/// The place of data that is written to the peer, or read from it.
const OUT: usize = IN + BLOCK;
const LEN: usize = OUT + BLOCK;

/// The longest wait for the peer or the device.
const LIMIT: Duration = Duration::from_secs(60);
/// Iterations between two checks of the connection, and before the processor is yielded.
const SPINS: u32 = 64;

/// What a peer needs in order to connect.
#[derive(Serialize, Deserialize)]
pub(super) struct Offer {
    address: Vec<u8>,
    region: [u64; 3],
}

/// One end of a link that is not yet connected.
pub(super) struct End {
    device: Arc<dyn Device>,
    region: LocalRegion,
}

impl End {
    pub(super) fn new(device: &Arc<dyn Device>) -> Result<Self, String> {
        let region = device.allocate(LEN, 4096).map_err(text)?;
        Ok(Self {
            device: device.clone(),
            region,
        })
    }

    pub(super) fn offer(&self) -> Offer {
        let RemoteRegion { address, len, rkey } = self.region.remote();
        Offer {
            address: self.device.address(),
            region: [address, len, rkey],
        }
    }

    pub(super) fn connect(self, offer: &Offer) -> Result<Link, String> {
        let [address, len, rkey] = offer.region;
        let endpoint = self.device.connect(&offer.address).map_err(text)?;
        let to_self = self.device.connect(&self.device.address()).map_err(text)?;
        Ok(Link {
            peer: Way::new(endpoint),
            to_self: Way::new(to_self),
            region: ManuallyDrop::new(self.region),
            theirs: RemoteRegion { address, len, rkey },
            device: self.device,
            processor_adds: AtomicU64::new(0),
        })
    }
}

/// An endpoint, and the latest operation that was posted to it.
struct Way {
    endpoint: Arc<dyn Endpoint>,
    newest: AtomicU64,
}

impl Way {
    fn new(endpoint: Arc<dyn Endpoint>) -> Self {
        let newest = AtomicU64::new(Ticket::DONE.0);
        Self { endpoint, newest }
    }

    fn note(&self, posted: rdma_sys_shim::Result<Ticket>) -> Result<Ticket, String> {
        let ticket = posted.map_err(text)?;
        self.newest.fetch_max(ticket.0, Ordering::Relaxed);
        Ok(ticket)
    }

    fn is_idle(&self) -> bool {
        let newest = Ticket(self.newest.load(Ordering::Relaxed));
        self.endpoint.completed(newest).unwrap_or(false)
    }
}

pub(super) struct Link {
    peer: Way,
    to_self: Way,
    region: ManuallyDrop<LocalRegion>,
    theirs: RemoteRegion,
    pub(super) device: Arc<dyn Device>,
    processor_adds: AtomicU64,
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.peer.is_idle() && self.to_self.is_idle() {
            // SAFETY: it is dropped only here, and nothing uses it afterwards.
            unsafe { ManuallyDrop::drop(&mut self.region) };
        }
    }
}

fn text(error: rdma_sys_shim::Error) -> String {
    error.to_string()
}

impl Link {
    fn place(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at + len <= LEN, "it is inside of the region");
        self.region.base().wrapping_add(at)
    }

    fn word(&self, word: Word) -> &AtomicU64 {
        let here = self.place(word.0 as usize, 8).cast();
        // SAFETY: an aligned word of the region, which lives as long as the link. All accesses to it are atomic.
        unsafe { AtomicU64::from_ptr(here) }
    }

    fn there(&self, at: u64) -> RemoteAddress {
        self.theirs.at(at)
    }

    /// The processor's view of a word of this rank. Later loads are ordered after this one.
    pub(super) fn load(&self, word: Word) -> u64 {
        let value = self.word(word).load(Ordering::Acquire);
        after_flag();
        value
    }

    /// Adds to a word of this rank by the processor.
    pub(super) fn add_by_processor(&self, word: Word) {
        before_flag();
        self.word(word).fetch_add(1, Ordering::SeqCst);
        self.processor_adds.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds by the processor until it finds at least `value` in another word of this rank.
    pub(super) fn add_by_processor_until(
        &self,
        word: Word,
        end: Word,
        value: u64,
    ) -> Result<(), String> {
        self.until("the peer's word", || {
            self.add_by_processor(word);
            Ok(self.load(end) >= value)
        })
    }

    pub(super) fn processor_adds(&self) -> u64 {
        self.processor_adds.load(Ordering::Relaxed)
    }

    /// Waits until the processor finds at least `value` in a word of this rank.
    pub(super) fn wait_for(&self, word: Word, value: u64) -> Result<(), String> {
        self.until("the peer's word", || Ok(self.load(word) >= value))
    }

    /// Waits until an operation is complete.
    pub(super) fn finish(&self, ticket: Ticket) -> Result<(), String> {
        self.finish_on(&self.peer, ticket)
    }

    fn finish_on(&self, way: &Way, ticket: Ticket) -> Result<(), String> {
        self.until("an operation of the device", || {
            way.endpoint.completed(ticket).map_err(text)
        })
    }

    fn until(
        &self,
        what: &str,
        mut done: impl FnMut() -> Result<bool, String>,
    ) -> Result<(), String> {
        let end = Instant::now() + LIMIT;
        let mut spins = 0_u32;
        while !done()? {
            spins = spins.wrapping_add(1);
            if spins.is_multiple_of(SPINS) {
                self.peer.endpoint.intact().map_err(text)?;
                if Instant::now() > end {
                    return Err(format!("waited {} s in vain for {what}", LIMIT.as_secs()));
                }
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// Stores `bytes` where writes to the peer take their data, and reads store theirs.
    pub(super) fn set_out(&self, bytes: &[u8]) {
        let to = self.place(OUT, bytes.len());
        // SAFETY: this is a part of the region, and nothing has a Rust reference to it.
        unsafe { copy(to, bytes.as_ptr(), bytes.len()) };
    }

    pub(super) fn get_out(&self, len: usize) -> Vec<u8> {
        self.get(OUT, len)
    }

    /// The data that the peer has written.
    pub(super) fn get_in(&self, len: usize) -> Vec<u8> {
        self.get(IN, len)
    }

    fn get(&self, at: usize, len: usize) -> Vec<u8> {
        let from = self.place(at, len);
        let mut bytes = vec![0; len];
        // SAFETY: a part of the region, and a vector of the same length.
        unsafe { copy(bytes.as_mut_ptr(), from, len) };
        bytes
    }

    /// Begins to write `len` of the bytes that were set to the peer, or to read `len` of those that were written there.
    pub(super) fn transfer(&self, direction: Direction, len: usize) -> Result<Ticket, String> {
        let (here, there) = (self.place(OUT, len), self.there(IN as u64));
        // SAFETY: a part of the region, which is kept until no operation is in progress.
        let posted = unsafe { (self.peer.endpoint).transfer(direction, here, len, there) };
        self.peer.note(posted)
    }

    /// Stores in a word of the peer that only this rank writes, ordered after earlier writes.
    pub(super) fn store(&self, word: Word, old: u64, new: u64) -> Result<Ticket, String> {
        let at = self.there(word.0);
        self.peer.note(self.peer.endpoint.store(at, old, new))
    }

    /// Begins to add to a word of the peer, ordered after earlier writes.
    pub(super) fn begin_add(&self, word: Word, add: u64) -> Result<Ticket, String> {
        let (at, old) = (self.there(word.0), self.word(ANSWER).as_ptr());
        // SAFETY: a word of the region, which is kept until no operation is in progress.
        let posted = unsafe { (self.peer.endpoint).fetch(at, Width::W8, Fetch::Add(add), old) };
        self.peer.note(posted)
    }

    /// Adds to a word of the peer. Returns its previous value.
    pub(super) fn add(&self, word: Word, add: u64) -> Result<u64, String> {
        let ticket = self.begin_add(word, add)?;
        self.finish(ticket)?;
        Ok(self.load(ANSWER))
    }

    /// Replaces a word of the peer if it has the expected value. Returns its previous value.
    pub(super) fn swap(&self, word: Word, expect: u64, new: u64) -> Result<u64, String> {
        let (at, old) = (self.there(word.0), self.word(ANSWER).as_ptr());
        let swap = Fetch::CompareSwap { expect, new };
        // SAFETY: as above.
        let posted = unsafe { self.peer.endpoint.fetch(at, Width::W8, swap, old) };
        self.finish(self.peer.note(posted)?)?;
        Ok(self.load(ANSWER))
    }

    /// Adds one to a word of this rank through the device.
    pub(super) fn add_to_own(&self, word: Word) -> Result<(), String> {
        let (at, old) = (self.region.remote().at(word.0), self.word(ANSWER).as_ptr());
        // SAFETY: as above.
        let posted = unsafe { (self.to_self.endpoint).fetch(at, Width::W8, Fetch::Add(1), old) };
        self.finish_on(&self.to_self, self.to_self.note(posted)?)
    }
}
