//! Peers, their memory, and the operations of an endpoint on slices and values.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::{
    Access, Device, Direction, Endpoint, Fetch, LocalRegion, Registry, RemoteAddress, Result,
    Surroundings, Ticket, Update, Width,
};

/// An operation, or its effect, that takes longer is taken as lost.
const LIMIT: Duration = Duration::from_secs(60);

/// One test at a time: some count file descriptors and threads of this process.
pub fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A device, and an endpoint that leads to it from another device or from itself.
pub struct Peers {
    /// The device whose memory is accessed.
    pub target: Arc<dyn Device>,
    /// The endpoint from the origin to the target.
    pub way: Arc<dyn Endpoint>,
    /// The device that operations are posted to; the target itself if the endpoint leads from it to itself.
    pub origin: Arc<dyn Device>,
}

/// Opens two devices, or one with a connection to itself.
pub fn peers(registry: Registry, spec: &str, to_self: bool) -> Peers {
    let open = || registry.open(spec, &Surroundings::default()).unwrap();
    let target = open();
    let origin = if to_self { target.clone() } else { open() };
    Peers {
        way: origin.connect(&target.address()).unwrap(),
        target,
        origin,
    }
}

/// As [`each_region`], but leaves out memory on which the device has no atomics.
pub fn each_region_with_atomics(peers: &Peers, len: usize, test: impl Fn(&LocalRegion)) {
    each_region(peers, len, |region| {
        if peers.way.has_atomics(&region.remote()) {
            test(region);
        }
    });
}

/// Runs `test` on allocated memory, on a part of allocated memory that is registered again, and on memory of the
/// caller. The last two are at odd addresses.
pub fn each_region(peers: &Peers, len: usize, mut test: impl FnMut(&LocalRegion)) {
    let allocated = peers.target.allocate(len, 1).unwrap();
    assert_eq!(allocated.len(), len);
    test(&allocated);
    let whole = peers.target.allocate(len + 1, 1).unwrap();
    let base = whole.base().wrapping_add(1);
    // SAFETY: inside memory that the device allocated, which outlives the region.
    let part = unsafe { peers.target.register(base, len, Access::ALL) }.unwrap();
    test(&part);
    drop(part);
    let mut heap = vec![0_u8; len + 1];
    let base = heap.as_mut_ptr().wrapping_add(1);
    // SAFETY: the heap block outlives the region, and is not touched through `heap` meanwhile.
    let owned = unsafe { peers.target.register(base, len, Access::ALL) }.unwrap();
    test(&owned);
    drop(owned);
}

/// Waits until the operation is complete.
///
/// # Errors
/// It was refused, or fails.
pub fn finish(way: &dyn Endpoint, ticket: Result<Ticket>) -> Result<()> {
    let ticket = ticket?;
    let mut outcome = Ok(());
    until("an operation is complete", || {
        ticket == Ticket::DONE
            || way.completed(ticket).unwrap_or_else(|error| {
                outcome = Err(error);
                true
            })
    });
    outcome
}

/// Waits until `is_so` returns true.
pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "within a minute: {what}");
        std::thread::yield_now();
    }
}

/// Bytes, none of which is 0.
pub(super) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|byte| (byte % 251) as u8 + 1).collect()
}

/// Writes and waits for completion.
///
/// # Errors
/// As for [`finish`].
pub fn write(way: &dyn Endpoint, bytes: &[u8], to: RemoteAddress) -> Result<()> {
    let from = bytes.as_ptr().cast_mut();
    // SAFETY: the slice outlives the operation, which is waited for.
    finish(way, unsafe {
        way.transfer(Direction::Write, from, bytes.len(), to)
    })
}

/// Reads and waits for completion.
///
/// # Errors
/// As for [`finish`].
pub fn read(way: &dyn Endpoint, len: usize, from: RemoteAddress) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    // SAFETY: as for `write`.
    finish(way, unsafe {
        way.transfer(Direction::Read, bytes.as_mut_ptr(), len, from)
    })?;
    Ok(bytes)
}

fn fetch(way: &dyn Endpoint, at: RemoteAddress, width: Width, fetch: Fetch) -> Result<u64> {
    // The fetch overwrites all of it, for any width.
    let mut old = u64::MAX;
    // SAFETY: a local that outlives the operation.
    finish(way, unsafe { way.fetch(at, width, fetch, &raw mut old) })?;
    Ok(old)
}

/// Adds and waits for completion.
///
/// # Errors
/// As for [`finish`].
pub fn fetch_add(way: &dyn Endpoint, at: RemoteAddress, width: Width, add: u64) -> Result<u64> {
    fetch(way, at, width, Fetch::Add(add))
}

/// Compares, swaps and waits for completion.
///
/// # Errors
/// As for [`finish`].
pub fn compare_swap(
    way: &dyn Endpoint,
    at: RemoteAddress,
    width: Width,
    expect: u64,
    new: u64,
) -> Result<u64> {
    fetch(way, at, width, Fetch::CompareSwap { expect, new })
}

/// Updates words and waits for completion. `values` holds the words, byte by byte.
///
/// # Errors
/// As for [`finish`].
pub fn update_each(
    way: &dyn Endpoint,
    at: RemoteAddress,
    width: Width,
    update: Update,
    values: &[u8],
) -> Result<()> {
    let count = values.len() / width.bytes();
    // SAFETY: the slice outlives the operation.
    let ticket = unsafe { way.update_each(at, width, update, values.as_ptr(), count) };
    finish(way, ticket)
}

/// The offset of the first address in the region that is a multiple of 8.
pub fn aligned(region: &LocalRegion) -> u64 {
    let address = region.remote().address;
    address.next_multiple_of(8) - address
}

/// New readable and writable pages of this process, for memory of the caller.
pub fn fresh_memory(len: usize) -> *mut u8 {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, -1, 0) };
    assert_ne!(base, libc::MAP_FAILED);
    base.cast()
}

/// The bytes of the region.
pub fn memory(region: &LocalRegion) -> Vec<u8> {
    let mut bytes = vec![0; region.len()];
    let (to, len) = (bytes.as_mut_ptr(), region.len());
    // SAFETY: registered memory of this process, which nobody writes to now.
    unsafe { to.copy_from_nonoverlapping(region.base(), len) };
    bytes
}
