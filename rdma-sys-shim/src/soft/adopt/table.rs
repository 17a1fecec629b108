//! Which pages of this process are adopted, where they are, and how many shares there are in
//! them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::memfd::{self, Memfd};
use super::stretch::{Attributes, Stretch};

static TABLE: Mutex<Table> = Mutex::new(Table::new());

/// The adopted pages of this process, as extents by their first address.
pub(super) struct Table {
    extents: BTreeMap<usize, Extent>,
    generation: u64,
}

/// Adjacent pages that live in one memfd and have the same number of shares.
#[derive(Clone)]
pub(super) struct Extent {
    end: usize,
    memfd: Arc<Memfd>,
    offset: u64,
    attributes: Attributes,
    /// Zero for pages that nobody needs adopted, and that could not be given back.
    shares: usize,
}

/// The process's table. Whoever moves pages holds it, and so does a fork, from before it until
/// the child has its own pages.
pub(super) fn lock() -> MutexGuard<'static, Table> {
    // Nothing between two steps that belong together panics.
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Extent {
    pub(super) fn memfd(&self) -> &Arc<Memfd> {
        &self.memfd
    }

    pub(super) fn is_orphan(&self) -> bool {
        self.shares == 0
    }

    pub(super) fn attributes(&self) -> Attributes {
        self.attributes
    }
}

impl Table {
    const fn new() -> Self {
        Self {
            extents: BTreeMap::new(),
            generation: 0,
        }
    }

    /// Counts the forks since the first ancestor: a share of an older generation is in pages that
    /// are the parent's.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Range<usize>, &Extent)> {
        self.extents
            .iter()
            .map(|(&start, extent)| (start..extent.end, extent))
    }

    /// The adopted parts of `range`, in order, cut to it.
    pub(super) fn within(
        &self,
        range: &Range<usize>,
    ) -> impl Iterator<Item = (Range<usize>, &Extent)> {
        let first = self
            .extents
            .range(..range.start)
            .next_back()
            .map_or(range.start, |(&start, _)| start);
        let range = range.clone();
        self.extents
            .range(first..range.end.max(first))
            .map(move |(&start, extent)| {
                (start.max(range.start)..extent.end.min(range.end), extent)
            })
            .filter(|(part, _)| !part.is_empty())
    }

    /// Whether all of `range` is adopted.
    pub(super) fn covers(&self, range: &Range<usize>) -> bool {
        let adopted: usize = self.within(range).map(|(part, _)| part.len()).sum();
        adopted == range.len()
    }

    /// Whether some of `range` is adopted and has no share.
    pub(super) fn has_orphans(&self, range: &Range<usize>) -> bool {
        self.within(range).any(|(_, extent)| extent.is_orphan())
    }

    /// The place of an adopted range that lies within one extent.
    pub(super) fn stretch(&self, range: &Range<usize>) -> Option<Stretch> {
        let (&start, extent) = self.extents.range(..=range.start).next_back()?;
        (range.end <= extent.end).then(|| Stretch {
            addr: range.start,
            len: range.len(),
            fd: extent.memfd.raw(),
            offset: extent.offset + (range.start - start) as u64,
            attributes: extent.attributes,
        })
    }

    /// Enters pages that have just been moved, without a share in them yet.
    pub(super) fn insert(&mut self, stretch: &Stretch, memfd: &Arc<Memfd>) {
        let end = stretch.addr + stretch.len;
        debug_assert!(self.within(&(stretch.addr..end)).next().is_none());
        let extent = Extent {
            end,
            memfd: Arc::clone(memfd),
            offset: stretch.offset,
            attributes: stretch.attributes,
            shares: 0,
        };
        self.extents.insert(stretch.addr, extent);
    }

    /// Takes a share in all adopted pages of `range`, and says which these are.
    pub(super) fn take_shares(&mut self, range: &Range<usize>) -> Vec<Range<usize>> {
        self.split(range);
        let mut held: Vec<Range<usize>> = Vec::new();
        for (&start, extent) in self.extents.range_mut(range.clone()) {
            extent.shares += 1;
            match held.last_mut() {
                Some(last) if last.end == start => last.end = extent.end,
                _ => held.push(start..extent.end),
            }
        }
        held
    }

    /// Drops a share in ranges that [`Self::take_shares`] gave, and says which pages of them have
    /// none left, each part within one extent.
    pub(super) fn drop_shares(&mut self, held: &[Range<usize>]) -> Vec<Range<usize>> {
        let mut orphans = Vec::new();
        for range in held {
            self.split(range);
            for (&start, extent) in self.extents.range_mut(range.clone()) {
                extent.shares -= 1;
                if extent.shares == 0 {
                    orphans.push(start..extent.end);
                }
            }
        }
        orphans
    }

    /// Frees the memfd's memory for pages that are private again.
    pub(super) fn free(&self, stretch: &Stretch) {
        if let Some((_, extent)) = self.extents.range(..=stretch.addr).next_back() {
            extent.memfd.free(stretch.offset, stretch.len);
        }
    }

    /// Forgets pages that are no longer adopted.
    pub(super) fn remove(&mut self, range: &Range<usize>) {
        if range.is_empty() {
            return;
        }
        self.split(range);
        let starts: Vec<usize> = self.extents.range(range.clone()).map(|(&s, _)| s).collect();
        for start in starts {
            self.extents.remove(&start);
        }
    }

    /// Starts anew in a forked child, without allocating or freeing: the old extents leak.
    pub(super) fn start_anew(&mut self) {
        std::mem::forget(std::mem::take(&mut self.extents));
        memfd::forget_all();
        self.generation += 1;
    }

    /// Cuts the extents so that none crosses a bound of `range`.
    fn split(&mut self, range: &Range<usize>) {
        for at in [range.start, range.end] {
            let Some((&start, extent)) = self.extents.range_mut(..at).next_back() else {
                continue;
            };
            if extent.end > at {
                let mut tail = extent.clone();
                tail.offset += (at - start) as u64;
                extent.end = at;
                self.extents.insert(at, tail);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(extents: impl IntoIterator<Item = Range<usize>>) -> Table {
        let memfd = Arc::new(Memfd::new(1 << 20).unwrap());
        let mut table = Table::new();
        for range in extents {
            let stretch = Stretch {
                addr: range.start,
                len: range.len(),
                fd: memfd.raw(),
                offset: range.start as u64,
                attributes: Attributes::default(),
            };
            table.insert(&stretch, &memfd);
        }
        table
    }

    #[test]
    fn shares_are_counted_by_page() {
        let mut table = table([0x10..0x50, 0x60..0x80]);
        let all = table.take_shares(&(0..0x100));
        assert_eq!(all, [0x10..0x50, 0x60..0x80]);
        let middle = table.take_shares(&(0x20..0x70));
        assert_eq!(middle, [0x20..0x50, 0x60..0x70]);
        assert_eq!(table.drop_shares(&all), [0x10..0x20, 0x70..0x80]);
        assert_eq!(table.drop_shares(&middle), [0x20..0x50, 0x60..0x70]);
        assert!(table.iter().all(|(_, extent)| extent.is_orphan()));
    }

    #[test]
    fn gaps_and_orphans_are_found() {
        let mut table = table([0x10..0x50, 0x50..0x60, 0x70..0x80]);
        assert!(table.covers(&(0x10..0x60)) && table.covers(&(0x48..0x58)));
        assert!(!table.covers(&(0x8..0x18)) && !table.covers(&(0x10..0x80)));
        assert!(!table.covers(&(0x78..0x88)) && !table.covers(&(0x60..0x70)));
        let first = table.take_shares(&(0x10..0x58));
        assert!(!table.has_orphans(&(0x10..0x58)) && table.has_orphans(&(0x10..0x59)));
        table.drop_shares(&first);
        assert!(table.has_orphans(&(0x20..0x30)));
    }

    #[test]
    fn parts_keep_their_place_in_the_file() {
        let mut table = table(Some(0x10..0x50));
        table.remove(&(0x20..0x30));
        let parts: Vec<_> = table.within(&(0x18..0x40)).map(|(part, _)| part).collect();
        assert_eq!(parts, [0x18..0x20, 0x30..0x40]);
        assert_eq!(table.stretch(&(0x38..0x48)).unwrap().offset, 0x38);
        assert!(table.stretch(&(0x18..0x28)).is_none());
        assert_eq!(table.within(&(0x20..0x30)).count(), 0);
        assert_eq!(table.within(&(0x50..0x60)).count(), 0);
    }
}
