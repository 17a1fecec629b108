//! The interface that every provider implements and that the window layer is built on.

pub(crate) mod batch;
pub(crate) mod cancellation;
pub(crate) mod combine;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Result;
use crate::fork::OfProcess;
use crate::memory::Direction;
use batch::{BatchError, StridedBlocks, TransferBatch, post_each};
use combine::{Combination, CombinedElements, Combiner};

/// Rights that a region grants to its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(u8);

impl Access {
    /// Remote read.
    pub const READ: Self = Self(1);
    /// Remote write.
    pub const WRITE: Self = Self(2);
    /// Remote atomics.
    pub const ATOMIC: Self = Self(4);
    /// All rights; a window needs all of them.
    pub const ALL: Self = Self(7);

    /// The union of these rights and those of `other`.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These rights except those of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// True if every right of `need` is granted.
    #[must_use]
    pub const fn allows(self, need: Self) -> bool {
        self.0 & need.0 == need.0
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::ALL.0)
    }
}

/// The unit that carries out a device's atomics. With `Cpu` or `Device`, atomics that the other unit carries out on
/// the same word are not atomic with respect to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicDomain {
    /// The processor: the device's atomics are atomic to loads, stores and locked instructions of the target itself.
    Cpu,
    /// The device: every atomic on a word has to go through it, including those of the target itself.
    Device,
    /// Both, where they share memory: the device's atomics are atomic to those of the target's processor
    /// (`IBV_ATOMIC_GLOB`).
    Global,
}

/// The size of the word that an atomic works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// One byte, for devices with [`Capabilities::narrow_atomics`].
    W1,
    /// Two bytes, for devices with [`Capabilities::narrow_atomics`].
    W2,
    /// Four bytes, for devices with [`Capabilities::narrow_atomics`].
    W4,
    /// Eight bytes; every device supports this width.
    W8,
}

impl Width {
    /// The size in bytes, which is also the alignment that the atomic needs.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::W1 => 1,
            Self::W2 => 2,
            Self::W4 => 4,
            Self::W8 => 8,
        }
    }

    /// The word at `from`, zero-extended.
    ///
    /// # Safety
    /// `from` is readable for the width; it need not be aligned.
    #[must_use]
    #[inline]
    pub unsafe fn load(self, from: *const u8) -> u64 {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::W8 => from.cast::<u64>().read_unaligned(),
                Self::W4 => from.cast::<u32>().read_unaligned().into(),
                Self::W2 => from.cast::<u16>().read_unaligned().into(),
                Self::W1 => from.read().into(),
            }
        }
    }

    /// Stores the low bytes of `value` at `to`.
    ///
    /// # Safety
    /// `to` is writable for the width; it need not be aligned.
    #[inline]
    pub unsafe fn store(self, to: *mut u8, value: u64) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::W8 => to.cast::<u64>().write_unaligned(value),
                Self::W4 => to.cast::<u32>().write_unaligned(value as u32),
                Self::W2 => to.cast::<u16>().write_unaligned(value as u16),
                Self::W1 => to.write(value as u8),
            }
        }
    }
}

/// What [`Endpoint::fetch`] does to the word that it fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// Adds, with wrap-around.
    Add(u64),
    /// Replaces the word by `new` if it equals `expect`.
    CompareSwap {
        /// The value that the word is compared with.
        expect: u64,
        /// The new value if the word was equal.
        new: u64,
    },
}

/// What [`Endpoint::update_each`] does to a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Adds, with wrap-around.
    Add,
    /// Stores. If a processor does this, it stores the words of at most [`STORED_IN_ORDER`] bytes from the last to the
    /// first. So a peer that fetches them from the first to the last, and finds a new word, finds the following ones
    /// new, too.
    Store,
}

/// The bytes of words that [`Update::Store`] stores in order.
pub const STORED_IN_ORDER: usize = 64;

/// For which memory a thread of the target's process, other than the program's threads, carries out operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetThread {
    /// For none: the origin or the device does everything.
    Never,
    /// For some memory that the process owned before it registered it.
    ForRegistered,
    /// For some memory of any kind.
    ForAll,
}

/// What a device can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Which unit carries out atomics.
    pub atomic_domain: AtomicDomain,
    /// Whether atomics of one, two and four bytes exist. They are atomic to wider ones on the same bytes.
    pub narrow_atomics: bool,
    /// The longest single transfer in bytes. The provider splits longer ones.
    pub max_message: u64,
    /// For which operations a thread of the target is needed.
    pub target_thread: TargetThread,
    /// Whether registered memory is locked into physical memory, and so counts against the limit of locked memory.
    pub pins_memory: bool,
}

/// Which of a device's peers are faster to reach than others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearest {
    /// None.
    None,
    /// Those on this host.
    OfHost,
    /// Some, on any host: for tests.
    Any,
}

/// Memory of a rank, as peers name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteRegion {
    /// First byte, in the owner's address space.
    pub address: u64,
    /// Length in bytes.
    pub len: u64,
    /// The key that the owner's device checks accesses against.
    pub rkey: u64,
}

/// How bytes get into or out of a peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Via {
    /// By the processor's own loads and stores, where the memory is mapped.
    Mapped,
    /// By the kernel: cross-memory attach.
    Attached,
    /// By a thread of the process that owns the memory.
    Agent,
    /// By an RDMA device.
    Device,
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Mapped => "mapped",
            Self::Attached => "attached",
            Self::Agent => "agent",
            Self::Device => "device",
        })
    }
}

/// A place in a peer's registered memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteAddress {
    /// In the owner's address space.
    pub address: u64,
    /// The key of the region that contains it.
    pub rkey: u64,
}

impl RemoteRegion {
    /// The place `offset` bytes into the region; the device checks the bounds.
    #[must_use]
    pub fn at(&self, offset: u64) -> RemoteAddress {
        RemoteAddress {
            address: self.address.wrapping_add(offset),
            rkey: self.rkey,
        }
    }
}

impl RemoteAddress {
    /// The place `by` bytes further on; the device checks the bounds.
    #[inline]
    #[must_use]
    pub fn moved(self, by: i64) -> Self {
        Self {
            address: self.address.wrapping_add_signed(by),
            ..self
        }
    }
}

/// A position in the sequence of an endpoint's operations, which complete in the order in which they were posted. With
/// 64 bits, positions do not wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

impl Ticket {
    /// The ticket of an operation that was complete when its call returned.
    pub const DONE: Self = Self(0);
}

/// The time between two liveness checks of a wait, of a caller that polls, and of calls on one target. It is whole
/// milliseconds, and longer than the limit of a single check.
pub const LIVENESS_INTERVAL: Duration = Duration::from_millis(50);

/// What a process has allocated from a device, and how much it has posted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Bytes of registered memory.
    pub registered_bytes: u64,
    /// Queue pairs.
    pub queue_pairs: u32,
    /// Entries of all completion queues.
    pub completion_entries: u32,
    /// Peers that this process is connected to, itself included.
    pub connections: u32,
    /// Peers of this host whose memory the process maps, itself included. It connects to them only for atomics or for
    /// memory that cannot be mapped.
    pub neighbours: u32,
    /// Work requests posted so far.
    pub requests: u64,
}

/// The minimum alignment of allocated memory, in bytes: a cache line.
pub const ALIGNMENT: usize = 64;

/// An open device.
pub trait Device: Send + Sync {
    /// The name that `--device` takes.
    fn name(&self) -> &str;

    /// What the device can do.
    fn capabilities(&self) -> &Capabilities;

    /// What this process has allocated from the device; `None` if none of its resources are scarce.
    fn usage(&self) -> Option<Usage> {
        None
    }

    /// Text that gives the addresses of this process, and those at which it has reached peers. `None` if peers are not
    /// reached by network addresses.
    fn addresses(&self) -> Option<String> {
        None
    }

    /// Which peers are faster to reach than others. All ranks of a job get the same answer.
    fn nearest(&self) -> Nearest {
        Nearest::None
    }

    /// What peers need to connect to this process: opaque, at most 640 bytes.
    fn address(&self) -> Vec<u8>;

    /// Connects to the process that published `address`; the process itself is a legal peer.
    ///
    /// # Errors
    /// The address is malformed, the process is gone or out of reach.
    fn connect(&self, address: &[u8]) -> Result<Arc<dyn Endpoint>>;

    /// Allocates zeroed, registered memory, aligned to [`ALIGNMENT`] or more. `len` may be 0. After the region is
    /// dropped, other regions may reuse the memory: no peer may use a mapping of it any more.
    ///
    /// # Errors
    /// Out of memory or of file descriptors.
    fn allocate(&self, len: usize, align: usize) -> Result<LocalRegion>;

    /// Registers memory that the caller owns. Whether the device has atomics there depends on the memory
    /// ([`Endpoint::has_atomics`]).
    ///
    /// If the memory is not writable, peers may only read it.
    ///
    /// # Errors
    /// [`BadMemory`](crate::Error::BadMemory): part of the memory is not mapped or not readable, or no right of
    /// `access` is possible.
    ///
    /// # Safety
    /// Until the region is dropped, the memory stays mapped, and peers may access it within `access` at any time: the
    /// caller has no Rust reference to it that forbids that.
    unsafe fn register(&self, base: *mut u8, len: usize, access: Access) -> Result<LocalRegion>;

    /// Registers memory that the caller owns for operations of this process, which then use it in place: as their
    /// source, and also as their destination if it is `written`. Peers cannot access it. On devices to which origin
    /// buffers in registered memory are like all others, this does nothing.
    ///
    /// # Errors
    /// [`BadMemory`](crate::Error::BadMemory): part of the memory is not mapped, not readable, or not writable.
    /// [`LockedMemory`](crate::Error::LockedMemory): the process may not lock so much.
    ///
    /// # Safety
    /// Until the region is dropped, the memory stays mapped, and the same pages are there.
    unsafe fn register_origin(
        &self,
        base: *mut u8,
        len: usize,
        written: bool,
    ) -> Result<OriginRegion> {
        let _ = (base, len, written);
        Ok(OriginRegion::default())
    }

    /// Notes that this process stores through a mapping of a peer's memory, bypassing the device. Returns the mapping.
    /// If the device has to know when the memory is unmapped, it adds an owner to the mapping.
    fn accompany(&self, mapping: Mapping) -> Mapping {
        mapping
    }

    /// Ends waits for threads of peers once `is_aborted` returns true: such an operation then fails with
    /// [`Cancelled`](crate::Error::Cancelled), since its peer may be stopped and never answer. Devices on which no
    /// operation needs a thread of the target ignore this. Only the first call has an effect.
    fn cancel_when(&self, is_aborted: Arc<dyn Fn() -> bool + Send + Sync>) {
        let _ = is_aborted;
    }

    /// Has accumulates of peers ([`Endpoint::combine`]) carried out by `combiner`. Devices on which no thread of the target
    /// does so ignore this. Only the first call has an effect.
    fn combine_by(&self, combiner: Arc<dyn Combiner>) {
        let _ = combiner;
    }

    /// Tells all connected peers that this process leaves in good order, after its posted operations have arrived.
    /// Waits at most as long as the device takes to detect that a peer is gone. Endpoints remain usable while their
    /// peers are there.
    fn close(&self);
}

/// A connection to one peer.
///
/// Operations are posted; each returns a [`Ticket`], and is complete at the target when [`Endpoint::completed`] says
/// so. Every operation is checked against the target's table of regions.
///
/// An atomic or a [`store`] takes effect after every operation that was posted before it, and a read sees every write
/// and store before it. No other order is kept: a write may overtake any earlier operation, including other writes. If
/// two writes to one place are under way, either may be the last. So the signal that data has arrived is an atomic or a
/// store behind the data, never a write.
///
/// A write, a read, a fetching atomic or an accumulate may stay in this process until [`released`] or [`completed`] is
/// called for it or a later operation, or until a store or an update of words follows. Stores and updates go at once,
/// with everything before them.
///
/// [`released`]: Endpoint::released
/// [`completed`]: Endpoint::completed
/// [`store`]: Endpoint::store
///
/// A buffer of this process belongs to an operation until [`released`] or [`completed`] gives it back to the caller, or
/// the operation has failed. A call that returns an error has posted nothing. Once [`released`] or [`completed`]
/// returns an error for a ticket, no operation up to that ticket touches memory of this process any more.
pub trait Endpoint: Send + Sync {
    /// Writes `len` bytes from `local` to the peer's memory at `at`, or reads them from there to `local`.
    ///
    /// # Errors
    /// Remote access error, or the peer is gone.
    ///
    /// # Safety
    /// Until the operation completes, `local` is readable for `len` bytes. For a read, it is also writable, and nobody
    /// else touches it. A write only reads it.
    unsafe fn transfer(
        &self,
        direction: Direction,
        local: *mut u8,
        len: usize,
        at: RemoteAddress,
    ) -> Result<Ticket>;

    /// Writes or reads lists of memory, as [`Endpoint::transfer`] does, but more cheaply than one piece at a time if
    /// the device can.
    ///
    /// # Errors
    /// As for [`Endpoint::transfer`]; a part may have been posted.
    ///
    /// # Safety
    /// As for [`Endpoint::transfer`], for every piece.
    unsafe fn transfer_batch(
        &self,
        direction: Direction,
        batch: &TransferBatch<'_>,
    ) -> std::result::Result<Ticket, BatchError> {
        // SAFETY: the caller's promise.
        post_each(batch.each(), |piece, at| unsafe {
            self.transfer(direction, piece.base, piece.len, at)
        })
    }

    /// Writes or reads equal blocks, as [`Endpoint::transfer_batch`] does, but without a list of them if the device
    /// needs none.
    ///
    /// # Errors
    /// As for [`Endpoint::transfer_batch`].
    ///
    /// # Safety
    /// As for [`Endpoint::transfer`], for every block.
    unsafe fn transfer_blocks(
        &self,
        direction: Direction,
        blocks: StridedBlocks,
    ) -> std::result::Result<Ticket, BatchError> {
        // SAFETY: the caller's promise.
        blocks.post_as_batches(|batch| unsafe { self.transfer_batch(direction, batch) })
    }

    /// Atomically changes the word at `at`, and stores its previous value in `old`, zero-extended.
    ///
    /// # Errors
    /// Remote access error (a misaligned word included), or the peer is gone.
    ///
    /// # Safety
    /// `old` is writable, and nobody else touches it, until the operation completes.
    unsafe fn fetch(
        &self,
        at: RemoteAddress,
        width: Width,
        fetch: Fetch,
        old: *mut u64,
    ) -> Result<Ticket>;

    /// Atomically updates each of `count` consecutive words with the corresponding word of `values`. Each update is
    /// atomic by itself; the updates together are not.
    ///
    /// # Errors
    /// Remote access error (a misaligned word included), or the peer is gone.
    ///
    /// # Safety
    /// `values` is readable for `count` words until the operation completes; it need not be
    /// aligned.
    unsafe fn update_each(
        &self,
        at: RemoteAddress,
        width: Width,
        update: Update,
        values: *const u8,
        count: usize,
    ) -> Result<Ticket>;

    /// Updates words at several places, as [`Endpoint::update_each`] does for each piece, but more cheaply than one
    /// piece at a time if the device can.
    ///
    /// # Errors
    /// As for [`Endpoint::update_each`]; a part may have been posted.
    ///
    /// # Safety
    /// As for [`Endpoint::update_each`], for every piece.
    unsafe fn update_batch(
        &self,
        width: Width,
        update: Update,
        batch: &TransferBatch<'_>,
    ) -> std::result::Result<Ticket, BatchError> {
        // SAFETY: the caller's promise.
        post_each(batch.each(), |piece, at| unsafe {
            let count = piece.len / width.bytes();
            self.update_each(at, width, update, piece.base, count)
        })
    }

    /// Lets a thread of the peer carry out an accumulate on contiguous elements, by the peer's combiner
    /// ([`Device::combine_by`]): an agent, or a thread that waits in the library. It is ordered like an atomic, and is
    /// atomic for each element with respect to accumulates of others that use the same `lock`, an aligned word of the
    /// peer, and to atomics of the processor. Returns how many of the elements, from the first on, it
    /// does this for, and their ticket: none if no thread does it.
    ///
    /// # Errors
    /// Remote access error (a misaligned lock, or a word that is none, included), or the peer is gone. A part of the
    /// elements may have been combined.
    ///
    /// # Safety
    /// Until the operation completes, the buffers that the combination needs are readable, and the one for the previous
    /// elements is writable, and nobody else touches it.
    unsafe fn combine(
        &self,
        what: Combination,
        lock: RemoteAddress,
        at: RemoteAddress,
        elements: CombinedElements,
    ) -> Result<(usize, Ticket)> {
        let _ = (what, lock, at, elements);
        Ok((0, Ticket::DONE))
    }

    /// Stores `new` in the aligned word at `at`. Only this process writes to the word, by stores of one endpoint, so
    /// every reader sees the old value or the new one. `old` is the previous value of the word: a device may have to
    /// add the difference. The region grants the rights to write and to atomics.
    ///
    /// # Errors
    /// Remote access error (a misaligned word included), or the peer is gone.
    fn store(&self, at: RemoteAddress, old: u64, new: u64) -> Result<Ticket>;

    /// Whether the caller may reuse the buffers of the operation with this ticket and of every earlier one. That may be
    /// sooner than `completed`, if the device has copied the data to be written. Does not wait; makes progress if it
    /// returns false.
    ///
    /// # Errors
    /// As for [`Endpoint::completed`].
    fn released(&self, ticket: Ticket) -> Result<bool> {
        self.completed(ticket)
    }

    /// Whether the operation with this ticket, and so every earlier one, is complete. Makes progress; does not wait.
    ///
    /// # Errors
    /// An operation failed, or the peer is gone.
    fn completed(&self, ticket: Ticket) -> Result<bool>;

    /// Fails with the first cause if the connection has failed, so that pending operations will not arrive. A device
    /// that has long reported nothing about them has failed. Callers check this at intervals during a wait. Does not
    /// wait. After an error, no operation of this endpoint touches memory of this process any more. If
    /// [`Device::cancel_when`] applies and a thread of the peer has not carried out everything yet, it fails, too.
    ///
    /// # Errors
    /// As for [`Endpoint::completed`], for any operation.
    fn intact(&self) -> Result<()>;

    /// The host of the peer's process, if that may differ from this process's host.
    fn host(&self) -> Option<Arc<str>> {
        None
    }

    /// Whether anything may have been posted: some endpoints connect only when they have to.
    fn is_connected(&self) -> bool {
        true
    }

    /// Whether the device carries out atomics on this memory, which the peer registered with [`Device::register`]. All
    /// peers of the owner, itself included, get the same answer.
    fn has_atomics(&self, region: &RemoteRegion) -> bool {
        let _ = region;
        true
    }

    /// How operations posted here reach the memory: transfers, or `atomics`.
    fn via(&self, atomics: bool) -> Via {
        let _ = atomics;
        Via::Device
    }

    /// Maps all of the peer's region here, if possible, for loads and stores, and for the processor's atomics if the
    /// mapping says so. After a full fence, stores are visible before operations that are posted to the device later.
    ///
    /// # Errors
    /// Mapping should be possible, but the system refused.
    fn map(&self, region: &RemoteRegion) -> Result<Option<Mapping>> {
        let _ = region;
        Ok(None)
    }

    /// As [`Endpoint::map`], for memory that can be reached only by a mapping.
    ///
    /// # Errors
    /// The system refused, or there is no such memory.
    fn map_or_fail(&self, region: &RemoteRegion) -> Result<Option<Mapping>> {
        self.map(region)
    }

    /// Fails if the peer's process does not run, as far as this device can tell. Costs a system call or more. If the
    /// device cannot tell, the next operation, or [`Endpoint::intact`], fails when no answer comes.
    ///
    /// # Errors
    /// [`PeerClosed`](crate::Error::PeerClosed): it has closed the device in good order, and may be gone by now.
    /// [`PeerGone`](crate::Error::PeerGone): it is gone. [`PeerReplaced`](crate::Error::PeerReplaced): it has started
    /// another program in its place (exec) without closing the device.
    fn liveness(&self) -> Result<()>;

    /// As [`Endpoint::liveness`], as far as this process knows already, or the system of this host. Asks neither the
    /// peer nor its host, and never waits for them.
    ///
    /// # Errors
    /// As for [`Endpoint::liveness`].
    fn known_liveness(&self) -> Result<()>;
}

/// Registered memory of this process. Drop deregisters it, and frees it if the device allocated it.
pub struct LocalRegion {
    remote: RemoteRegion,
    base: *mut u8,
    /// Deregisters when dropped.
    _owner: OfProcess<Box<dyn Send + Sync>>,
}

// SAFETY: the pointer is only an address that is passed on; every access through it is unsafe code of the holder, and
// the owner behind it is Send and Sync.
unsafe impl Send for LocalRegion {}
// SAFETY: as above; no method dereferences `base`.
unsafe impl Sync for LocalRegion {}

impl LocalRegion {
    /// Memory of this process from `base` on, which peers know as `remote`. Dropping `owner` deregisters it. A forked
    /// child leaks `owner` instead, since the registration belongs to its parent.
    #[must_use]
    pub fn new(base: *mut u8, remote: RemoteRegion, owner: impl Send + Sync + 'static) -> Self {
        Self {
            remote,
            base,
            _owner: OfProcess::new(Box::new(owner)),
        }
    }

    /// First byte.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.remote.len as usize
    }

    /// True for a region of no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.remote.len == 0
    }

    /// What peers need to access it.
    #[must_use]
    pub fn remote(&self) -> RemoteRegion {
        self.remote
    }
}

/// Memory of this process that is registered for its own operations. Drop deregisters it, once no operation uses it.
#[derive(Default)]
pub struct OriginRegion {
    /// Deregisters when dropped; `None` if nothing is registered.
    _owner: Option<OfProcess<Box<dyn Send + Sync>>>,
}

impl OriginRegion {
    /// Dropping `owner` deregisters the memory. A forked child leaks `owner` instead, since the registration belongs to
    /// its parent.
    #[must_use]
    pub fn new(owner: impl Send + Sync + 'static) -> Self {
        Self {
            _owner: Some(OfProcess::new(Box::new(owner))),
        }
    }
}

/// A region of a peer's memory, mapped into this process until it is dropped.
pub struct Mapping {
    base: *mut u8,
    /// See [`Mapping::has_atomics`].
    has_atomics: bool,
    len: u64,
    /// Unmaps when dropped.
    _owner: Box<dyn Send + Sync>,
}

// SAFETY: as for `LocalRegion`: the pointer is only handed out.
unsafe impl Send for Mapping {}
// SAFETY: as for `LocalRegion`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `len` bytes of a peer's memory from `base` on, for loads, stores and the processor's atomics. Dropping `owner`
    /// unmaps them.
    #[must_use]
    pub fn new(base: *mut u8, len: u64, owner: impl Send + Sync + 'static) -> Self {
        Self {
            base,
            has_atomics: true,
            len,
            _owner: Box::new(owner),
        }
    }

    /// Where the region's first byte is mapped.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Whether the processor's atomics may change words of the region, including locks. If not, the device changes the
    /// locks, and also the other words unless its atomics are [`AtomicDomain::Global`].
    #[must_use]
    pub fn has_atomics(&self) -> bool {
        self.has_atomics
    }

    /// The same mapping, for loads and stores only.
    pub(crate) fn for_data(self) -> Self {
        Self {
            has_atomics: false,
            ..self
        }
    }

    /// The same mapping; `other` is dropped before the memory is unmapped.
    #[must_use]
    pub fn kept_with(self, other: impl Send + Sync + 'static) -> Self {
        Self {
            _owner: Box::new((other, self._owner)),
            ..self
        }
    }

    /// The same mapping, also for the processor's atomics. The caller ensures that nobody changes its words by the
    /// device.
    #[must_use]
    pub fn with_atomics(self) -> Self {
        Self {
            has_atomics: true,
            ..self
        }
    }

    /// How many bytes are mapped.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if nothing is mapped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
