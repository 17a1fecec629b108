//! Values of single ranks that are made when they are first needed.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::rank_set::RankSet;

/// A table with a value for each rank, once it is known. All zero means "none is known", so memory is touched only for
/// ranks that are met.
pub(crate) struct OnceTable<T> {
    /// Null, or from a box that the table owns.
    places: Box<[AtomicPtr<T>]>,
    /// Includes all ranks whose value is known.
    known: RankSet,
}

// SAFETY: owns the values as boxes do; a shared table lends shared references to values and accepts other values.
unsafe impl<T: Send + Sync> Sync for OnceTable<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for OnceTable<T> {}

impl<T> OnceTable<T> {
    pub(crate) fn new(ranks: u32) -> Self {
        Self {
            places: bytemuck::zeroed_slice_box(ranks as usize),
            known: RankSet::new(ranks),
        }
    }

    /// The memory that a table takes without the values, once all of it is touched.
    pub(crate) const fn bytes(ranks: u32) -> u64 {
        ranks as u64 * size_of::<AtomicPtr<T>>() as u64 + RankSet::bytes(ranks)
    }

    #[inline]
    pub(crate) fn get(&self, rank: u32) -> Option<&T> {
        // SAFETY: null, or set by `set` from a box that is kept as long as `self`.
        unsafe { self.places[rank as usize].load(Ordering::Acquire).as_ref() }
    }

    /// Stores the first value that is set for a rank, and returns the stored one.
    pub(crate) fn set(&self, rank: u32, value: T) -> &T {
        let place = &self.places[rank as usize];
        // Before the value is visible, so that a thread that sees the value also finds it in `known`.
        self.known.add(rank);
        let new = Box::into_raw(Box::new(value));
        let order = (Ordering::AcqRel, Ordering::Acquire);
        let kept = match place.compare_exchange(ptr::null_mut(), new, order.0, order.1) {
            Ok(_) => new,
            Err(first) => {
                // SAFETY: from the box above, and no other reference exists.
                drop(unsafe { Box::from_raw(new) });
                first
            }
        };
        // SAFETY: not null, and from a box that is kept as long as `self`.
        unsafe { &*kept }
    }

    /// All known values, in the order of ranks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let known = self.known.iter();
        known.filter_map(move |rank| Some((rank, self.get(rank)?)))
    }
}

impl<T> Drop for OnceTable<T> {
    fn drop(&mut self) {
        for rank in self.known.iter() {
            let value = *self.places[rank as usize].get_mut();
            if !value.is_null() {
                // SAFETY: `set` made it from a box, and with `&mut self` there is no other reference to it.
                drop(unsafe { Box::from_raw(value) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn the_first_value_of_a_rank_stays() {
        let value = Arc::new(());
        let table = OnceTable::new(200);
        assert!(table.get(7).is_none() && table.iter().next().is_none());
        thread::scope(|scope| {
            for thread in 0..4_u32 {
                let (table, value) = (&table, &value);
                scope.spawn(move || {
                    for rank in [130, 7, 199] {
                        let (kept, _) = table.set(rank, (thread, value.clone()));
                        assert_eq!(*kept, table.get(rank).unwrap().0);
                    }
                });
            }
        });
        let ranks: Vec<u32> = table.iter().map(|(rank, _)| rank).collect();
        assert_eq!(ranks, [7, 130, 199]);
        assert_eq!(Arc::strong_count(&value), 4);
        drop(table);
        assert_eq!(Arc::strong_count(&value), 1, "all were dropped");
    }
}
