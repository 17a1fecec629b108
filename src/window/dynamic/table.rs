//! The table of attached regions, in registered memory of its rank, as peers read it.
//!
//! | words | |
//! |---|---|
//! | 0 | version: odd while the table changes |
//! | 1 | how many entries are in use |
//! | 2–49 | address and rkey of each overflow table, which holds further entries |
//! | 128–511 | the first 128 entries: address, length, rkey |
//!
//! Only its rank writes it, between an odd and the next even version. A reader uses only what it read
//! between two equal even versions. Overflow tables are never moved or given back while the window
//! lives, and each is twice as long as the one before it, so that a reader with a torn count reads too
//! much or too little, but always registered memory.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use rdma_sys_shim::{Device, LocalRegion, RemoteRegion};

use crate::error::Result;

/// Of 64 bits, so it does not wrap.
const VERSION: usize = 0;
const COUNT: usize = 1;
const OVERFLOW: usize = 2;
const ENTRIES: usize = 128;

const ENTRY_WORDS: usize = 3;
pub(crate) const ENTRY_BYTES: usize = ENTRY_WORDS * 8;
const FIRST: usize = 128;
const MAX_OVERFLOW: usize = 24;

/// Bytes of the table with its first entries: one read fetches them.
pub(crate) const TABLE_BYTES: usize = (ENTRIES + FIRST * ENTRY_WORDS) * 8;
/// Offset of the version.
pub(crate) const VERSION_AT: u64 = (VERSION * 8) as u64;

const _: () = assert!(OVERFLOW + 2 * MAX_OVERFLOW <= ENTRIES);

/// The place of the entry with this number: the table (0 for the main one, else an overflow table), and the index in
/// it.
fn table_of(slot: usize) -> (usize, usize) {
    match slot / FIRST {
        0 => (0, slot),
        blocks => {
            let table = blocks.ilog2() as usize + 1;
            (table, slot - table_len(table))
        }
    }
}

/// The number of entries of an overflow table: as many as all tables before it. Number 0 is the main table.
const fn table_len(table: usize) -> usize {
    FIRST << table.saturating_sub(1)
}

/// This rank's own table.
pub(crate) struct Table {
    home: LocalRegion,
    overflow: Vec<LocalRegion>,
    count: usize,
}

impl Table {
    pub(crate) fn new(device: &dyn Device) -> Result<Self> {
        Ok(Self {
            home: device.allocate(TABLE_BYTES, 64)?,
            overflow: Vec::new(),
            count: 0,
        })
    }

    pub(crate) fn remote(&self) -> RemoteRegion {
        self.home.remote()
    }

    /// Adds an entry, at the end.
    pub(crate) fn push(&mut self, device: &dyn Device, region: RemoteRegion) -> Result<()> {
        let (number, _) = table_of(self.count);
        if number > self.overflow.len() {
            let bytes = table_len(number) * ENTRY_WORDS * 8;
            self.overflow.push(device.allocate(bytes, 64)?);
        }
        self.change(|table| {
            if let Some(last) = table.overflow.last() {
                let at = OVERFLOW + 2 * (table.overflow.len() - 1);
                word(&table.home, at).store(last.remote().address, Ordering::Relaxed);
                word(&table.home, at + 1).store(last.remote().rkey, Ordering::Relaxed);
            }
            table.count += 1;
            table.set(table.count - 1, region);
        });
        Ok(())
    }

    /// Removes the entry `slot`; the last one takes its place.
    pub(crate) fn swap_remove(&mut self, slot: usize) {
        self.change(|table| {
            table.count -= 1;
            let last = table.get(table.count);
            table.set(slot, last);
        });
    }

    fn change(&mut self, change: impl FnOnce(&mut Self)) {
        let version = word(&self.home, VERSION).load(Ordering::Relaxed);
        word(&self.home, VERSION).store(version.wrapping_add(1), Ordering::Relaxed);
        // A reader that sees a part of the change also sees that a change has begun.
        fence(Ordering::Release);
        change(self);
        word(&self.home, COUNT).store(self.count as u64, Ordering::Relaxed);
        word(&self.home, VERSION).store(version.wrapping_add(2), Ordering::Release);
    }

    fn entry(&self, slot: usize) -> [&AtomicU64; ENTRY_WORDS] {
        let (region, first) = match table_of(slot) {
            (0, place) => (&self.home, ENTRIES + place * ENTRY_WORDS),
            (table, place) => (&self.overflow[table - 1], place * ENTRY_WORDS),
        };
        std::array::from_fn(|at| word(region, first + at))
    }

    fn set(&self, slot: usize, region: RemoteRegion) {
        let values = [region.address, region.len, region.rkey];
        for (word, value) in self.entry(slot).into_iter().zip(values) {
            word.store(value, Ordering::Relaxed);
        }
    }

    fn get(&self, slot: usize) -> RemoteRegion {
        let [address, len, rkey] = self.entry(slot).map(|word| word.load(Ordering::Relaxed));
        RemoteRegion { address, len, rkey }
    }
}

fn word(region: &LocalRegion, at: usize) -> &AtomicU64 {
    assert!(at < region.len() / 8);
    let place = region.base().wrapping_add(at * 8);
    // SAFETY: inside the region, which is aligned to a line and outlives the reference; peers only read it, and this
    // process changes it only by atomics.
    unsafe { AtomicU64::from_ptr(place.cast()) }
}

/// A peer's copy of a table. It may be torn unless the version proves otherwise.
pub(crate) struct Copied<'a>(pub(crate) &'a [u64]);

impl Copied<'_> {
    /// The entries in the main table, and the overflow tables with the rest, each with the length in use. `None` if
    /// these words are inconsistent.
    pub(crate) fn contents(&self) -> Option<(Vec<RemoteRegion>, Vec<RemoteRegion>)> {
        let count = usize::try_from(*self.0.get(COUNT)?).ok()?;
        let here = count.min(FIRST) * ENTRY_WORDS;
        let first = entries(self.0.get(ENTRIES..ENTRIES + here)?);
        let mut overflow = Vec::new();
        let mut rest = count - count.min(FIRST);
        while rest > 0 {
            let table = overflow.len() + 1;
            let at = OVERFLOW + 2 * (table - 1);
            let used = rest.min(table_len(table));
            let place = self.0.get(at..at + 2).filter(|_| table <= MAX_OVERFLOW)?;
            if place[0] == 0 {
                return None;
            }
            overflow.push(RemoteRegion {
                address: place[0],
                len: (used * ENTRY_WORDS * 8) as u64,
                rkey: place[1],
            });
            rest -= used;
        }
        Some((first, overflow))
    }
}

/// The entries that these words hold.
pub(crate) fn entries(words: &[u64]) -> Vec<RemoteRegion> {
    let entries = words.chunks_exact(ENTRY_WORDS);
    entries
        .map(|entry| RemoteRegion {
            address: entry[0],
            len: entry[1],
            rkey: entry[2],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_a_place_of_its_own() {
        let mut expected = (0, 0);
        for slot in 0..FIRST * 9 {
            if expected.1 == table_len(expected.0) {
                expected = (expected.0 + 1, 0);
            }
            assert_eq!(table_of(slot), expected, "slot {slot}");
            expected.1 += 1;
        }
    }

    #[test]
    fn what_cannot_belong_together_is_refused() {
        let mut words = vec![0_u64; TABLE_BYTES / 8];
        assert_eq!(Copied(&words).contents(), Some((vec![], vec![])));
        words[ENTRIES..ENTRIES + 3].copy_from_slice(&[4096, 100, 7]);
        words[COUNT] = 1;
        let region = RemoteRegion {
            address: 4096,
            len: 100,
            rkey: 7,
        };
        assert_eq!(Copied(&words).contents(), Some((vec![region], vec![])));
        // A count that runs ahead of its overflow table.
        words[COUNT] = FIRST as u64 + 5;
        assert_eq!(Copied(&words).contents(), None);
        words[OVERFLOW..OVERFLOW + 2].copy_from_slice(&[8192, 9]);
        let (first, overflow) = Copied(&words).contents().unwrap();
        assert_eq!((first.len(), overflow[0].len), (FIRST, 5 * 24));
        words[COUNT] = u64::MAX;
        assert_eq!(Copied(&words).contents(), None);
        assert_eq!(Copied(&words[..8]).contents(), None);
    }
}
