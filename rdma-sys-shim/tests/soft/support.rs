//! Peers, their memory, and the operations of an endpoint on slices and values.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdma_sys_shim::{
    Access, Device, Endpoint, Region, Registry, RemoteAddress, Result, Surroundings, Ticket,
    Update, Width,
};

pub(crate) const OPTIONS: [&str; 4] = [
    "soft",
    "soft:cma=off",
    "soft:map=off",
    "soft:map=off,cma=off",
];

/// One test at a time: descriptors and threads of this process are counted.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn open(spec: &str) -> Result<Arc<dyn Device>> {
    const KNOWN: Registry = Registry::new(&[&rdma_sys_shim::Adversarial]);
    KNOWN.open(spec, &Surroundings::default())
}

/// A device, and the way to it: another device's, or its own.
pub(crate) struct Peers {
    pub(crate) target: Arc<dyn Device>,
    pub(crate) way: Arc<dyn Endpoint>,
    _origin: Arc<dyn Device>,
}

pub(crate) fn peers(spec: &str, to_self: bool) -> Peers {
    let target = open(spec).unwrap();
    let origin = if to_self {
        target.clone()
    } else {
        open(spec).unwrap()
    };
    Peers {
        way: origin.connect(&target.address()).unwrap(),
        target,
        _origin: origin,
    }
}

/// Runs a test over every device, to another peer and to oneself.
pub(crate) fn everywhere(test: impl Fn(&Peers)) {
    let _alone = alone();
    for spec in OPTIONS {
        for to_self in [false, true] {
            eprintln!("{spec}, to {}", if to_self { "itself" } else { "a peer" });
            test(&peers(spec, to_self));
        }
    }
}

/// As [`each_region`], but for memory on which the device has no atomics.
pub(crate) fn each_region_with_atomics(peers: &Peers, len: usize, test: impl Fn(&Region)) {
    each_region(peers, len, |region| {
        if peers.way.has_atomics(&region.remote()) {
            test(region);
        }
    });
}

/// Allocated memory, a part of some that is registered again, and memory of the caller's, both of
/// these at an odd address.
pub(crate) fn each_region(peers: &Peers, len: usize, mut test: impl FnMut(&Region)) {
    let allocated = peers.target.allocate(len, 1).unwrap();
    assert_eq!(allocated.len(), len);
    test(&allocated);
    let whole = peers.target.allocate(len + 1, 1).unwrap();
    let base = whole.base().wrapping_add(1);
    // SAFETY: inside of what the device allocated, which outlives the region.
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

pub(crate) fn finish(way: &dyn Endpoint, ticket: Result<Ticket>) -> Result<()> {
    let ticket = ticket?;
    while ticket != Ticket::DONE && !way.completed(ticket)? {
        std::thread::yield_now();
    }
    Ok(())
}

pub(crate) fn write(way: &dyn Endpoint, bytes: &[u8], to: RemoteAddress) -> Result<()> {
    // SAFETY: the slice outlives the operation, which is waited for.
    finish(way, unsafe { way.write(bytes.as_ptr(), bytes.len(), to) })
}

pub(crate) fn read(way: &dyn Endpoint, len: usize, from: RemoteAddress) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    // SAFETY: as for `write`.
    finish(way, unsafe { way.read(bytes.as_mut_ptr(), len, from) })?;
    Ok(bytes)
}

pub(crate) fn fetch_add(
    way: &dyn Endpoint,
    at: RemoteAddress,
    width: Width,
    add: u64,
) -> Result<u64> {
    let mut old = 0;
    // SAFETY: a local that outlives the operation.
    finish(way, unsafe { way.fetch_add(at, width, add, &raw mut old) })?;
    Ok(old)
}

pub(crate) fn compare_swap(
    way: &dyn Endpoint,
    at: RemoteAddress,
    width: Width,
    expect: u64,
    new: u64,
) -> Result<u64> {
    let mut old = 0;
    // SAFETY: a local that outlives the operation.
    let ticket = unsafe { way.compare_swap(at, width, expect, new, &raw mut old) };
    finish(way, ticket)?;
    Ok(old)
}

/// `values` are the words, byte by byte.
pub(crate) fn update_each(
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

/// How far into the region its first address is that is a multiple of 8.
pub(crate) fn aligned(region: &Region) -> u64 {
    let address = region.remote().address;
    address.next_multiple_of(8) - address
}

/// What the region holds.
pub(crate) fn memory(region: &Region) -> Vec<u8> {
    let mut bytes = vec![0; region.len()];
    let (to, len) = (bytes.as_mut_ptr(), region.len());
    // SAFETY: registered memory of this process, which nobody writes to now.
    unsafe { to.copy_from_nonoverlapping(region.base(), len) };
    bytes
}
