//! Registering memory.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use crate::abi::{access, ibv_sge};
use crate::context::Context;
use crate::error::{Errno, Result};
use crate::fabric::{Fabric, RegionEntry};
use crate::failure::Call;
use crate::locked::page_size;
use crate::misuse;
use crate::process;

/// Rights that are of no concern here: windows, huge pages, relaxed ordering, and so on.
const KNOWN: u32 = 0x3ff0_00ff;

/// The pages that a range touches: the first address, and their bytes.
pub(crate) fn pages(address: u64, len: u64) -> (u64, u64) {
    let page = page_size();
    let first = address & !(page - 1);
    (
        first,
        (address.saturating_add(len) - first).next_multiple_of(page),
    )
}

/// Registers memory, and returns its key.
pub(crate) fn register(
    context: &Context,
    domain: u32,
    address: u64,
    len: u64,
    rights: u32,
) -> Result<u32> {
    context.settings().failures.of_call(Call::RegMr)?;
    let writes = rights & (access::REMOTE_WRITE | access::REMOTE_ATOMIC) != 0;
    // As `ib_check_mr_access` of the kernel.
    if writes && rights & access::LOCAL_WRITE == 0 || rights & !KNOWN != 0 {
        return Err(Errno::INVALID);
    }
    if address.checked_add(len).is_none() {
        return Err(Errno::INVALID);
    }
    let (first, bytes) = pages(address, len);
    are_mapped(first, bytes)?;
    let fabric = context.fabric();
    let (place, entry) = fabric.take_region().ok_or(Errno::NO_MEMORY)?;
    let tag = entry.key.load(Ordering::Relaxed).wrapping_add(1) & 0xff;
    let order = Ordering::Relaxed;
    entry.adapter.store(context.adapter() as u32, order);
    entry.domain.store(domain, order);
    entry.access.store(rights, order);
    entry.uses.store(0, order);
    entry.address.store(address, order);
    entry.len.store(len, order);
    let key = (place as u32) << 8 | tag;
    entry.key.store(key, Ordering::Release);
    context.counters().registrations.add(1);
    context.counters().pages.add(bytes / page_size());
    context.model().register(bytes);
    Ok(key)
}

/// Ends a registration. Work that an adapter has begun on it is done.
pub(crate) fn deregister(context: &Context, key: u32) {
    let entry = context.fabric().region(key);
    let uses = entry.uses.load(Ordering::Acquire);
    if uses != 0 {
        misuse::tell(
            context,
            format_args!("memory is deregistered that {uses} work requests use (key {key:#x})"),
        );
    }
    let mut posted = context.fabric().adapter(context.adapter()).posted.lock();
    posted.place_all();
    // The key stays, so that the next region here has another one.
    entry.len.store(0, Ordering::Relaxed);
    entry.access.store(0, Ordering::Relaxed);
    entry.owner.release();
}

/// Fails with EFAULT, as pinning pages would, if some are not mapped.
fn are_mapped(first: u64, bytes: u64) -> Result<()> {
    const AT_ONCE: u64 = 1 << 14;
    let page = page_size();
    let mut resident = vec![0_u8; (bytes / page).min(AT_ONCE) as usize];
    let mut at = 0;
    while at < bytes {
        let len = (bytes - at).min(AT_ONCE * page);
        let address = (first + at) as usize as *mut c_void;
        // SAFETY: room for one byte for each page. The call fails if there is no memory.
        let code = unsafe { libc::mincore(address, len as usize, resident.as_mut_ptr().cast()) };
        if code != 0 {
            return Err(Errno(libc::EFAULT));
        }
        at += len;
    }
    Ok(())
}

/// Whose memory a key may name, and what for.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) process: i32,
    pub(crate) adapter: u32,
    pub(crate) domain: u32,
    pub(crate) rights: u32,
}

/// Whether a key allows this access to the whole range.
pub(crate) fn allows(fabric: &Fabric, key: u32, address: u64, len: u64, wanted: Wanted) -> bool {
    let entry = fabric.region(key);
    let order = Ordering::Relaxed;
    let rights = wanted.rights;
    let start = address.checked_sub(entry.address.load(order));
    entry.owner.process() == wanted.process
        && entry.key.load(Ordering::Acquire) == key
        && entry.adapter.load(order) == wanted.adapter
        && entry.domain.load(order) == wanted.domain
        && entry.access.load(order) & rights == rights
        && start
            .and_then(|start| start.checked_add(len))
            .is_some_and(|end| end <= entry.len.load(order))
}

/// What pieces of memory of this process a work request names.
pub(crate) fn allows_all(context: &Context, domain: u32, pieces: &[ibv_sge], rights: u32) -> bool {
    let wanted = Wanted {
        process: process::own(),
        adapter: context.adapter() as u32,
        domain,
        rights,
    };
    let allowed = |piece: &ibv_sge| {
        let len = piece.length.into();
        len == 0 || allows(context.fabric(), piece.lkey, piece.addr, len, wanted)
    };
    pieces.iter().all(allowed)
}

/// Notes that work requests begin, or have ended, to use memory.
pub(crate) fn use_pieces(fabric: &Fabric, pieces: &[ibv_sge], change: fn(&RegionEntry)) {
    for piece in pieces {
        change(fabric.region(piece.lkey));
    }
}

pub(crate) fn begin(entry: &RegionEntry) {
    entry.uses.fetch_add(1, Ordering::AcqRel);
}

/// A region that was registered meanwhile in the same place is not used by them.
pub(crate) fn end(entry: &RegionEntry) {
    let less = |uses: u32| uses.checked_sub(1);
    let _ = (entry.uses).fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
}
