//! The table of registered regions: what an rkey is checked against.

use std::os::fd::RawFd;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use super::port::{Entry, Port, REGIONS};
use crate::{Access, Error, RemoteRegion, Result};

/// Part of a region that peers can map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MappablePiece {
    pub(crate) address: u64,
    pub(crate) len: u64,
    pub(crate) fd: RawFd,
    pub(crate) offset: u64,
}

/// What the table says about a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registered {
    pub(crate) address: u64,
    pub(crate) len: u64,
    pub(crate) access: Access,
}

/// The owner's side.
pub(crate) struct Table {
    port: Arc<Port>,
    free: Mutex<FreeList>,
}

struct FreeList {
    recycled: Vec<u32>,
    /// Entries from here on were never used. Entry 0 is none: a link to it means the end.
    fresh: u32,
}

impl Table {
    pub(crate) fn new(port: Arc<Port>) -> Self {
        Self {
            port,
            free: Mutex::new(FreeList {
                recycled: Vec::new(),
                fresh: 1,
            }),
        }
    }

    /// Publishes a region with the pieces of it that can be mapped: neighbours, in order.
    pub(crate) fn insert(
        &self,
        address: u64,
        len: u64,
        access: Access,
        pieces: &[MappablePiece],
    ) -> Result<RemoteRegion> {
        let indices = self.take(pieces.len().max(1))?;
        let mut next = 0;
        for (position, &index) in indices.iter().enumerate().rev() {
            let entry = self.port.entry(index as usize);
            // Readers that still hold the old generation must not take the new fields for it.
            fence(Ordering::Release);
            entry.address.store(address, Ordering::Relaxed);
            entry.len.store(len, Ordering::Relaxed);
            entry.access.store(access.bits().into(), Ordering::Relaxed);
            let piece = pieces.get(position);
            entry
                .piece_address
                .store(piece.map_or(0, |p| p.address), Ordering::Relaxed);
            entry
                .piece_len
                .store(piece.map_or(0, |p| p.len), Ordering::Relaxed);
            entry
                .piece_offset
                .store(piece.map_or(0, |p| p.offset), Ordering::Relaxed);
            entry
                .piece_fd
                .store(piece.map_or(0, |p| p.fd as u32), Ordering::Relaxed);
            entry.next.store(next, Ordering::Relaxed);
            entry.generation.fetch_add(1, Ordering::Release);
            next = index;
        }
        let generation = self
            .port
            .entry(next as usize)
            .generation
            .load(Ordering::Relaxed);
        Ok(RemoteRegion {
            address,
            len,
            rkey: u64::from(generation) << 32 | u64::from(next),
        })
    }

    /// Withdraws a region that `insert` returned; later accesses with its rkey fail.
    pub(crate) fn remove(&self, rkey: u64) {
        let mut removed = Vec::new();
        let mut index = rkey as u32;
        while index != 0 {
            let entry = self.port.entry(index as usize);
            let next = entry.next.load(Ordering::Relaxed);
            entry.generation.fetch_add(1, Ordering::Release);
            removed.push(index);
            index = next;
        }
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.recycled.extend(removed);
    }

    fn take(&self, count: usize) -> Result<Vec<u32>> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            if let Some(index) = free.recycled.pop() {
                taken.push(index);
            } else if (free.fresh as usize) < REGIONS {
                taken.push(free.fresh);
                free.fresh += 1;
            } else {
                free.recycled.append(&mut taken);
                return Err(Error::System {
                    call: format!("registering more than {} regions", REGIONS - 1),
                    source: std::io::Error::from_raw_os_error(libc::ENOMEM).into(),
                    remedy: Some("free windows or registered memory"),
                });
            }
        }
        Ok(taken)
    }
}

/// What `port`'s table says about `rkey`, if it is valid.
pub(crate) fn look_up(port: &Port, rkey: u64) -> Option<Registered> {
    read(port, rkey, |entry| Registered {
        address: entry.address.load(Ordering::Relaxed),
        len: entry.len.load(Ordering::Relaxed),
        access: Access::from_bits(entry.access.load(Ordering::Relaxed) as u8),
    })
}

/// The pieces of the region that can be mapped; none if the rkey is not valid.
pub(crate) fn pieces(port: &Port, rkey: u64) -> Vec<MappablePiece> {
    let mut found = Vec::new();
    let mut index = rkey as u32;
    while index != 0 && found.len() < REGIONS {
        let Some(entry) = in_table(index).map(|index| port.entry(index)) else {
            return Vec::new();
        };
        let piece = MappablePiece {
            address: entry.piece_address.load(Ordering::Relaxed),
            len: entry.piece_len.load(Ordering::Relaxed),
            fd: entry.piece_fd.load(Ordering::Relaxed) as RawFd,
            offset: entry.piece_offset.load(Ordering::Relaxed),
        };
        if piece.len > 0 {
            found.push(piece);
        }
        index = entry.next.load(Ordering::Relaxed);
    }
    // A region's entries are withdrawn first entry first: if that is still live, all were.
    fence(Ordering::Acquire);
    if look_up(port, rkey).is_none() {
        return Vec::new();
    }
    found
}

/// Checks one access against the table of `port`, which is that of process `pid`.
pub(crate) fn check(
    port: &Port,
    pid: u32,
    rkey: u64,
    address: u64,
    len: u64,
    need: Access,
    name: &'static str,
) -> Result<()> {
    let fault = |reason| Error::RemoteAccess {
        need: name,
        address,
        len,
        pid,
        host: None,
        rkey,
        reason,
    };
    let region = look_up(port, rkey).ok_or_else(|| fault("no region has this rkey"))?;
    if !region.access.allows(need) {
        return Err(fault("the region does not grant this right"));
    }
    let offset = address.wrapping_sub(region.address);
    if offset > region.len || len > region.len - offset {
        return Err(fault("it is not inside the region"));
    }
    Ok(())
}

fn in_table(index: u32) -> Option<usize> {
    (1..REGIONS)
        .contains(&(index as usize))
        .then_some(index as usize)
}

fn read<T>(port: &Port, rkey: u64, fields: impl FnOnce(&Entry) -> T) -> Option<T> {
    let generation = (rkey >> 32) as u32;
    let entry = port.entry(in_table(rkey as u32)?);
    if generation.is_multiple_of(2) || entry.generation.load(Ordering::Acquire) != generation {
        return None;
    }
    let value = fields(entry);
    fence(Ordering::Acquire);
    (entry.generation.load(Ordering::Relaxed) == generation).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soft::process::ProcessId;

    fn table() -> (Arc<Port>, Table) {
        let port = Arc::new(Port::create(ProcessId::own().unwrap(), 1).unwrap());
        (port.clone(), Table::new(port))
    }

    #[test]
    fn an_rkey_dies_with_its_region_even_when_the_entry_is_used_again() {
        let (port, table) = table();
        let first = table.insert(4096, 100, Access::ALL, &[]).unwrap();
        assert_eq!(look_up(&port, first.rkey).unwrap().len, 100);
        table.remove(first.rkey);
        assert!(look_up(&port, first.rkey).is_none());
        let second = table.insert(8192, 200, Access::READ, &[]).unwrap();
        assert_eq!(first.rkey as u32, second.rkey as u32, "the entry is reused");
        assert!(look_up(&port, first.rkey).is_none());
        assert_eq!(look_up(&port, second.rkey).unwrap().address, 8192);
    }

    #[test]
    fn bounds_rights_and_forged_keys_are_refused() {
        let (port, table) = table();
        let region = table.insert(4096, 100, Access::READ, &[]).unwrap();
        let check = |rkey, address, len, need| check(&port, 7, rkey, address, len, need, "test");
        assert!(check(region.rkey, 4096, 100, Access::READ).is_ok());
        assert!(check(region.rkey, 4196, 0, Access::READ).is_ok());
        for (rkey, address, len, need) in [
            (region.rkey, 4096, 101, Access::READ),
            (region.rkey, 4095, 1, Access::READ),
            (region.rkey, 4197, 0, Access::READ),
            (region.rkey, 4100, u64::MAX, Access::READ),
            (region.rkey, u64::MAX, 2, Access::READ),
            (region.rkey, 4096, 1, Access::WRITE),
            (region.rkey + (1 << 32), 4096, 1, Access::READ),
            (region.rkey + (2 << 32), 4096, 1, Access::READ),
            (region.rkey | 0xffff_ffff, 4096, 1, Access::READ),
            (0, 4096, 1, Access::READ),
        ] {
            let error = check(rkey, address, len, need).unwrap_err();
            assert!(
                error.is_remote_access(),
                "{rkey:#x} {address} {len} {need:?}"
            );
        }
    }

    #[test]
    fn pieces_are_chained_in_order() {
        let (port, table) = table();
        let given: Vec<_> = (0..3)
            .map(|i| MappablePiece {
                address: 4096 * (i + 1),
                len: 4096,
                fd: 10 + i as RawFd,
                offset: 4096 * i,
            })
            .collect();
        let region = table.insert(4096, 3 * 4096, Access::ALL, &given).unwrap();
        assert_eq!(pieces(&port, region.rkey), given);
        table.remove(region.rkey);
        assert_eq!(pieces(&port, region.rkey), []);
        let taken = table.take(3).unwrap();
        assert_eq!(taken.len(), 3, "all three entries came back");
        assert!(taken.iter().all(|&index| index <= 3));
    }
}
