//! What an origin knows of a target's table of regions.
//!
//! The version is compared because another region may have been attached at the same address within one epoch. After a
//! change an origin makes three reads, and one more for each overflow table. An rkey is not reused while its region
//! exists, so mappings of regions that stay attached are kept. A target that changes its table faster than an origin
//! reads it starves the origin. A detached region is unmapped at the origin's next access.

use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use rdma_sys_shim::{Endpoint, Mapping, RemoteAddress, RemoteRegion};

use super::table::{Copied, ENTRY_BYTES, TABLE_BYTES, VERSION_AT, entries};
use crate::error::{Error, PeerError, Result};
use crate::memory::displacement::{Address, Offset};
use crate::memory::reach::Reach;
use crate::memory::remote::{RemoteMemory, RemoteWord};
use crate::terms::WorldRank;
use crate::wait::{Patience, Verdict};

/// Bytes of an overflow table that one read fetches: whole entries.
const PART: usize = ENTRY_BYTES << 14;

/// A target's regions as of the last time that this rank read the table. Every access compares the version: by a load
/// if the table is mapped, else by a small read.
pub(crate) struct RegionCache {
    table: Arc<RemoteMemory>,
    version: RemoteWord,
    rank: WorldRank,
    patience: Patience,
    known: RwLock<Known>,
}

struct Known {
    version: u64,
    /// Ordered by address.
    regions: Vec<KnownRegion>,
}

struct KnownRegion {
    remote: RemoteRegion,
    access: OnceLock<RegionAccess>,
}

/// The access to a region, found at its first use.
struct RegionAccess {
    mapping: Option<Mapping>,
    has_atomics: bool,
}

/// Known regions stay mapped while this exists.
pub(crate) struct KeptMapped<'a> {
    _known: RwLockReadGuard<'a, Known>,
}

/// A place in a region of the target.
pub(crate) struct CachedPlace<'a> {
    pub(crate) at: RemoteAddress,
    /// The address where it is mapped here, or null.
    pub(crate) there: *mut u8,
    pub(crate) has_atomics: bool,
    pub(crate) kept: KeptMapped<'a>,
}

impl RegionCache {
    /// `table`: that of this rank.
    pub(crate) fn new(table: RemoteMemory, rank: WorldRank, patience: Patience) -> Self {
        let table = Arc::new(table);
        Self {
            version: table.word(VERSION_AT),
            table,
            rank,
            patience,
            known: RwLock::new(Known {
                // A table that is not being changed has an even version.
                version: 1,
                regions: Vec::new(),
            }),
        }
    }

    /// The region that holds `len` bytes at `address`, if there is one. `check` is called during a long wait for a
    /// table that changes.
    pub(crate) fn find<'c>(
        &self,
        address: Address,
        len: u64,
        check: &dyn Fn() -> Verdict<'c>,
    ) -> Result<Option<CachedPlace<'_>>> {
        let version = self.version.load()?;
        let mut known = self.known();
        if known.version != version {
            drop(known);
            self.refresh(check)?;
            known = self.known();
        }
        let Some((region, offset)) = known.holding(address, len) else {
            return Ok(None);
        };
        let access = region.access(&**self.table.endpoint())?;
        let reach = access.mapping.as_ref().map_or(Reach::NOTHING, Reach::from);
        Ok(Some(CachedPlace {
            at: region.remote.at(offset.0),
            there: reach.at(offset, len),
            has_atomics: access.has_atomics,
            kept: KeptMapped { _known: known },
        }))
    }

    /// The end of the region that holds `address`, as far as known here.
    pub(crate) fn end_of(&self, address: Address) -> Option<Address> {
        let known = self.known();
        let (region, _) = known.holding(address, 1)?;
        let RemoteRegion { address, len, .. } = region.remote;
        // With a corrupt table, the sum may wrap.
        Some(Address(address.saturating_add(len)))
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the table until it did not change during a reading. Regions that still exist keep their mappings: an rkey
    /// is not reused while its region lives.
    #[cold]
    fn refresh<'c>(&self, check: &dyn Fn() -> Verdict<'c>) -> Result<()> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let mut fresh = None;
        let read = || {
            fresh = self.try_read()?;
            Ok(fresh.is_some())
        };
        self.patience.wait(read, check)?;
        let (version, mut regions) = fresh.unwrap_or_default();
        regions.sort_unstable_by_key(|region| region.address);
        let mut old = std::mem::take(&mut known.regions).into_iter().peekable();
        known.regions = regions
            .into_iter()
            .map(|remote| {
                while old
                    .next_if(|old| old.remote.address < remote.address)
                    .is_some()
                {}
                let kept = old.next_if(|old| old.remote == remote);
                kept.unwrap_or_else(|| KnownRegion {
                    remote,
                    access: OnceLock::new(),
                })
            })
            .collect();
        known.version = version;
        Ok(())
    }

    /// One reading: the version and the entries, or `None` if the table changed meanwhile.
    fn try_read(&self) -> Result<Option<(u64, Vec<RemoteRegion>)>> {
        let version = self.version.load()?;
        if !version.is_multiple_of(2) {
            return Ok(None);
        }
        let mut words = vec![0_u64; TABLE_BYTES / 8];
        self.table.read(0, bytemuck::cast_slice_mut(&mut words))?;
        let Some((mut regions, further)) = Copied(&words).contents() else {
            return match self.version.load()? == version {
                true => Err(self.garbled()),
                false => Ok(None),
            };
        };
        // The device may have read the count before the overflow tables to which it refers.
        if !further.is_empty() && self.version.load()? != version {
            return Ok(None);
        }
        for table in further {
            // Read in parts: the device refuses memory that does not exist, so a corrupt count cannot make this rank
            // allocate much.
            for start in (0..table.len).step_by(PART) {
                let part = RemoteRegion {
                    address: table.address.wrapping_add(start),
                    len: (table.len - start).min(PART as u64),
                    ..table
                };
                let mut words = vec![0_u64; part.len as usize / 8];
                self.table
                    .read_region(&part, bytemuck::cast_slice_mut(&mut words))?;
                regions.extend(entries(&words));
            }
        }
        Ok((self.version.load()? == version).then_some((version, regions)))
    }

    #[cold]
    fn garbled(&self) -> Error {
        let garbled = PeerError::Garbled {
            rank: self.rank.0,
            what: "the table of attached regions",
        };
        Error::new("access", garbled)
    }
}

impl Known {
    /// The region that holds `len` bytes at `address`, and their offset in it.
    fn holding(&self, address: Address, len: u64) -> Option<(&KnownRegion, Offset)> {
        let after = self
            .regions
            .partition_point(|region| region.remote.address <= address.0);
        let region = &self.regions[after.checked_sub(1)?];
        let offset = address.in_memory_at(region.remote.address);
        let fits = offset.fits(len, region.remote.len);
        fits.then_some((region, offset))
    }
}

impl KnownRegion {
    fn access(&self, endpoint: &dyn Endpoint) -> Result<&RegionAccess> {
        if let Some(access) = self.access.get() {
            return Ok(access);
        }
        let found = RegionAccess {
            mapping: endpoint.map(&self.remote)?,
            has_atomics: endpoint.has_atomics(&self.remote),
        };
        // If another thread was first, its result is kept.
        Ok(self.access.get_or_init(|| found))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::super::table::Table;
    use super::*;

    /// An entry of which each part says what the others are.
    fn region(number: u64, turn: u64) -> RemoteRegion {
        let (address, len) = (number * 4096, turn % 4096 + 1);
        RemoteRegion {
            address,
            len,
            rkey: address << 16 | len,
        }
    }

    /// One thread changes the table without a pause, two read it; `device` says how.
    fn readers_see_whole_tables(device: &str) {
        const ENTRIES: u64 = 300;
        let device = crate::devices::open(device);
        let endpoint = device.connect(&device.address()).unwrap();
        let mut table = Table::new(&*device).unwrap();
        for number in 0..ENTRIES {
            table.push(&*device, region(number, 0)).unwrap();
        }
        let patience = Patience::new(1);
        let memory = RemoteMemory::new(endpoint, table.remote(), patience).unwrap();
        let cache = RegionCache::new(memory, WorldRank(0), patience);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut seen = 0;
                        while !over.load(Ordering::Relaxed) || seen == 0 {
                            let Some((_, regions)) = cache.try_read().unwrap() else {
                                continue;
                            };
                            seen += 1;
                            let count = regions.len() as u64;
                            assert!(count == ENTRIES || count == ENTRIES - 1, "{count}");
                            let mut numbers: Vec<_> = regions
                                .iter()
                                .map(|found| {
                                    let whole = region(found.address / 4096, found.len - 1);
                                    assert_eq!(*found, whole);
                                    found.address
                                })
                                .collect();
                            numbers.sort_unstable();
                            numbers.dedup();
                            assert_eq!(numbers.len() as u64, count, "one twice");
                        }
                        seen
                    })
                })
                .collect();
            // The numbers in the slots, as the table has them.
            let mut slots: Vec<u64> = (0..ENTRIES).collect();
            for turn in 1..40_000 {
                let slot = (turn * 7919 % ENTRIES) as usize;
                let number = slots.swap_remove(slot);
                table.swap_remove(slot);
                table.push(&*device, region(number, turn)).unwrap();
                slots.push(number);
                // Readings take longer than changes: now and then, one has time.
                if turn.is_multiple_of(50) {
                    thread::yield_now();
                }
            }
            over.store(true, Ordering::Relaxed);
            for reader in readers {
                assert!(reader.join().unwrap() > 0);
            }
        });
    }

    /// A table that says what cannot be: an entry beyond the end of all addresses, more entries than there are.
    #[test]
    fn a_table_that_lies_gives_errors() {
        let device = crate::devices::open("soft");
        let endpoint = device.connect(&device.address()).unwrap();
        let table = device.allocate(TABLE_BYTES, 64).unwrap();
        let set = |at: usize, value: u64| {
            assert!(at < TABLE_BYTES / 8);
            // SAFETY: an aligned word of the region.
            unsafe { table.base().cast::<u64>().add(at).write_volatile(value) };
        };
        let patience = Patience::new(1);
        let memory = RemoteMemory::new(endpoint, table.remote(), patience).unwrap();
        let cache = RegionCache::new(memory, WorldRank(0), patience);
        let find = |address, len| cache.find(Address(address), len, &|| Ok(()));
        let first = (TABLE_BYTES - 128 * 24) / 8;
        set(1, 1);
        for (at, value) in [(0, 4096), (1, u64::MAX), (2, 7)] {
            set(first + at, value);
        }
        // Its rkey is none.
        assert!(find(5000, 8).is_err());
        assert_eq!(cache.end_of(Address(5000)), Some(Address(u64::MAX)));
        for (turn, count) in (1..).zip([129, 1 << 30, 1 << 40, u64::MAX]) {
            set(0, 2 * turn);
            set(1, count);
            for table in 0..24 {
                set(2 + 2 * table, 4096);
            }
            assert!(find(5000, 8).is_err(), "{count}");
        }
    }

    #[test]
    fn readers_of_a_mapped_table_see_it_whole() {
        readers_see_whole_tables("soft");
    }

    #[test]
    fn readers_through_a_device_see_it_whole() {
        readers_see_whole_tables("soft:map=off");
    }

    #[test]
    fn readers_through_a_late_device_see_it_whole() {
        readers_see_whole_tables("soft:adversarial,seed=4");
    }
}
