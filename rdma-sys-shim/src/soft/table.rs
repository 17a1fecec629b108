//! The table of registered regions: what an rkey is checked against.
//!
//! A process has two tables. The one in its segment tells peers what they may access and what they can map. Since peers
//! can write to it, the owner checks their requests, and its own, against the other table, which is in private memory.
//!
//! The owner writes an entry's fields, and then the next generation, which is odd while the entry is in use. Peers
//! compare the generation before and after they read an entry. The rkey contains index and generation, so it ends with
//! its region even if the entry is used again. To withdraw a region, the owner changes the generation, and then waits
//! for its threads that serve a request (`servers`).

use std::os::fd::RawFd;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::segment::{REGIONS, RegionEntry, Segment};
use super::servers;
use crate::system::page_size;
use crate::{Access, Error, RemoteRegion, Result};

/// A part of a memory file, and its address in the owner's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MappablePiece {
    pub(crate) address: u64,
    pub(crate) len: u64,
    pub(crate) fd: RawFd,
    pub(crate) offset: u64,
    /// The inode of the file, which is on the segment's device.
    pub(crate) inode: u64,
}

impl MappablePiece {
    /// The region's offset in the piece. `None` if the region is not inside, or its alignment in the mapped piece would
    /// differ. The owner has ensured both, but other peers can write to the table.
    pub(crate) fn place_of(&self, region: &RemoteRegion) -> Option<usize> {
        let skip = region.address.checked_sub(self.address)?;
        let is_inside = region.len <= self.len.checked_sub(skip)?;
        let is_aligned = (self.address ^ self.offset).is_multiple_of(page_size() as u64);
        (is_inside && is_aligned).then_some(skip as usize)
    }
}

/// A region's entry in the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registered {
    pub(crate) address: u64,
    pub(crate) len: u64,
    pub(crate) access: Access,
}

/// The owner's interface to the table.
pub(crate) struct RegionTable {
    segment: Arc<Segment>,
    free: Mutex<FreeList>,
}

struct FreeList {
    recycled: Vec<u32>,
    /// Entries from here on were never used. Entry 0 is not used at all, so that no rkey is 0.
    fresh: u32,
}

impl RegionTable {
    pub(crate) fn new(segment: Arc<Segment>) -> Self {
        Self {
            segment,
            free: Mutex::new(FreeList {
                recycled: Vec::new(),
                fresh: 1,
            }),
        }
    }

    /// Publishes a region. If peers can map it, `piece` is the part of a memory file that holds it.
    pub(crate) fn insert(
        &self,
        address: u64,
        len: u64,
        access: Access,
        piece: Option<MappablePiece>,
    ) -> Result<RemoteRegion> {
        let index = self.take()?;
        let piece = piece.unwrap_or_default();
        let generation = self.update(index, |entry| {
            // Readers with the old generation must not accept the new fields.
            fence(Ordering::Release);
            entry.address.store(address, Ordering::Relaxed);
            entry.len.store(len, Ordering::Relaxed);
            entry.access.store(access.bits().into(), Ordering::Relaxed);
            entry.piece_address.store(piece.address, Ordering::Relaxed);
            entry.piece_len.store(piece.len, Ordering::Relaxed);
            entry.piece_offset.store(piece.offset, Ordering::Relaxed);
            entry.piece_fd.store(piece.fd as u32, Ordering::Relaxed);
            entry.piece_inode.store(piece.inode, Ordering::Relaxed);
        });
        Ok(RemoteRegion {
            address,
            len,
            rkey: u64::from(generation) << 32 | u64::from(index),
        })
    }

    /// Withdraws a region that `insert` returned. Later accesses with its rkey fail, and accesses by this process for
    /// peers have ended on return.
    pub(crate) fn remove(&self, rkey: u64) {
        let index = rkey as u32;
        self.update(index, |_| ());
        servers::wait_for_all();
        self.free().recycled.push(index);
    }

    /// Writes the fields of the owner's entry and of the published one, and begins the next generation of both. Returns
    /// that generation.
    fn update(&self, index: u32, write: impl Fn(&RegionEntry)) -> u32 {
        let own = self.segment.own_entry(index as usize);
        let published = self.segment.published_entry(index as usize);
        // Peers can write to the published entry, so the owner's entry counts the generations.
        let before = own.unwrap_or(published).generation.load(Ordering::Relaxed);
        // 0 means that the entry was never used, so the last generation, which is odd, is followed by 2. An rkey becomes
        // valid again after 2^31 regions in its entry. No honest peer keeps the rkey of a withdrawn region for so long.
        let generation = before.checked_add(1).unwrap_or(2);
        for entry in own.into_iter().chain([published]) {
            write(entry);
            entry.generation.store(generation, Ordering::Release);
        }
        generation
    }

    fn take(&self) -> Result<u32> {
        let mut free = self.free();
        if let Some(index) = free.recycled.pop() {
            return Ok(index);
        }
        if free.fresh as usize >= REGIONS {
            return Err(Error::System {
                call: format!("registering more than {} regions", REGIONS - 1),
                source: std::io::Error::from_raw_os_error(libc::ENOMEM).into(),
                remedy: Some("free windows or registered memory".into()),
            });
        }
        free.fresh += 1;
        Ok(free.fresh - 1)
    }

    fn free(&self) -> MutexGuard<'_, FreeList> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The entry for `rkey` in the table of `segment`, if `rkey` is valid.
pub(crate) fn look_up(segment: &Segment, rkey: u64) -> Option<Registered> {
    read(segment, rkey, |entry| Registered {
        address: entry.address.load(Ordering::Relaxed),
        len: entry.len.load(Ordering::Relaxed),
        access: Access::from_bits(entry.access.load(Ordering::Relaxed) as u8),
    })
}

/// The rkey of a region that contains these bytes, if there is one.
pub(crate) fn find(segment: &Segment, address: u64, len: u64) -> Option<u64> {
    // Entries are first used in order: none follow one that was never used.
    (1..REGIONS as u32)
        .map(|index| {
            let entry = segment.entry(index as usize);
            let generation = entry.map_or(0, |entry| entry.generation.load(Ordering::Acquire));
            (index, generation)
        })
        .take_while(|&(_, generation)| generation != 0)
        .map(|(index, generation)| u64::from(generation) << 32 | u64::from(index))
        .find(|&rkey| {
            look_up(segment, rkey).is_some_and(|found| {
                let skipped = address.checked_sub(found.address);
                let end = skipped.and_then(|skipped| skipped.checked_add(len));
                end.is_some_and(|end| end <= found.len)
            })
        })
}

/// The piece of a memory file that contains the region; `None` if the rkey is not valid.
pub(crate) fn piece(segment: &Segment, rkey: u64) -> Option<MappablePiece> {
    let piece = read(segment, rkey, |entry| MappablePiece {
        address: entry.piece_address.load(Ordering::Relaxed),
        len: entry.piece_len.load(Ordering::Relaxed),
        fd: entry.piece_fd.load(Ordering::Relaxed) as RawFd,
        offset: entry.piece_offset.load(Ordering::Relaxed),
        inode: entry.piece_inode.load(Ordering::Relaxed),
    })?;
    (piece.len > 0).then_some(piece)
}

/// Checks one access against the table of `segment`; the error is the reason for a refusal.
pub(crate) fn allows(
    segment: &Segment,
    rkey: u64,
    address: u64,
    len: u64,
    need: Access,
) -> std::result::Result<(), &'static str> {
    let region = look_up(segment, rkey).ok_or("no region has this rkey")?;
    if !region.access.allows(need) {
        return Err("the region does not grant this right");
    }
    let offset = address.wrapping_sub(region.address);
    if offset > region.len || len > region.len - offset {
        return Err("it is not inside the region");
    }
    Ok(())
}

fn in_table(index: u32) -> Option<usize> {
    (1..REGIONS)
        .contains(&(index as usize))
        .then_some(index as usize)
}

fn read<T>(segment: &Segment, rkey: u64, fields: impl FnOnce(&RegionEntry) -> T) -> Option<T> {
    let generation = (rkey >> 32) as u32;
    let entry = segment.entry(in_table(rkey as u32)?)?;
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

    fn table() -> (Arc<Segment>, RegionTable) {
        let segment = Arc::new(Segment::create(std::process::id(), 1).unwrap());
        (segment.clone(), RegionTable::new(segment))
    }

    #[test]
    fn an_rkey_dies_with_its_region_even_when_the_entry_is_used_again() {
        let (segment, table) = table();
        let first = table.insert(4096, 100, Access::ALL, None).unwrap();
        assert_eq!(look_up(&segment, first.rkey).unwrap().len, 100);
        table.remove(first.rkey);
        assert!(look_up(&segment, first.rkey).is_none());
        let second = table.insert(8192, 200, Access::READ, None).unwrap();
        assert_eq!(first.rkey as u32, second.rkey as u32, "the entry is reused");
        assert!(look_up(&segment, first.rkey).is_none());
        assert_eq!(look_up(&segment, second.rkey).unwrap().address, 8192);
    }

    #[test]
    fn regions_are_found_after_any_number_of_generations() {
        let (segment, table) = table();
        let first = table.insert(4096, 100, Access::ALL, None).unwrap();
        let second = table.insert(8192, 200, Access::ALL, None).unwrap();
        let (own, published) = (segment.own_entry(1), segment.published_entry(1));
        for entry in own.into_iter().chain([published]) {
            entry.generation.store(u32::MAX, Ordering::Relaxed);
        }
        let last = u64::from(u32::MAX) << 32 | 1;
        assert_eq!(find(&segment, 4096, 100), Some(last));
        table.remove(last);
        assert_eq!(find(&segment, 8192, 200), Some(second.rkey));
        let again = table.insert(4096, 100, Access::ALL, None).unwrap();
        assert_eq!(find(&segment, 4096, 100), Some(again.rkey));
        assert_eq!(first.rkey as u32, again.rkey as u32, "the entry is reused");
    }

    #[test]
    fn bounds_rights_and_forged_keys_are_refused() {
        let (segment, table) = table();
        let region = table.insert(4096, 100, Access::READ, None).unwrap();
        let check = |rkey, address, len, need| allows(&segment, rkey, address, len, need);
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
            assert!(
                check(rkey, address, len, need).is_err(),
                "{rkey:#x} {address} {len} {need:?}"
            );
        }
    }

    #[test]
    fn a_region_is_found_by_its_place_while_it_lives() {
        let (segment, table) = table();
        assert_eq!(find(&segment, 4096, 100), None);
        let first = table.insert(4096, 100, Access::ALL, None).unwrap();
        let second = table.insert(8192, 100, Access::ALL, None).unwrap();
        assert_eq!(find(&segment, 4096, 100), Some(first.rkey));
        assert_eq!(find(&segment, 8192, 100), Some(second.rkey));
        assert_eq!(find(&segment, 4100, 96), Some(first.rkey));
        for (address, len) in [(4096, 101), (4195, 2), (4095, 1), (4100, u64::MAX)] {
            assert_eq!(find(&segment, address, len), None, "{address} {len}");
        }
        table.remove(first.rkey);
        assert_eq!(find(&segment, 4096, 100), None);
        assert_eq!(
            find(&segment, 8192, 100),
            Some(second.rkey),
            "behind one that is gone"
        );
    }

    #[test]
    fn a_piece_is_there_as_long_as_its_region() {
        let (segment, table) = table();
        let given = MappablePiece {
            address: 4096,
            len: 8192,
            fd: 10,
            offset: 4096,
            inode: 77,
        };
        let region = table.insert(5000, 100, Access::ALL, Some(given)).unwrap();
        assert_eq!(piece(&segment, region.rkey), Some(given));
        table.remove(region.rkey);
        assert_eq!(piece(&segment, region.rkey), None);
        let without = table.insert(5000, 100, Access::ALL, None).unwrap();
        assert_eq!(piece(&segment, without.rkey), None);
    }
}
