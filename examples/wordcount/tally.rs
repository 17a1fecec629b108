//! Counts of one rank, before they go to the table.
//!
//! Frequent words would otherwise cost one remote atomic each time they occur. The tally is bounded:
//! when it holds many words, or long ones, its counts are added to the table and it begins anew.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::hash::Fnv;

/// Distinct words, and bytes of them, at which a tally is full.
const WORDS: usize = 64 << 10;
const BYTES: usize = 16 << 20;

#[derive(Default)]
pub(crate) struct Tally {
    counts: HashMap<Box<[u8]>, u64, BuildHasherDefault<Fnv>>,
    bytes: usize,
}

impl Tally {
    #[inline]
    pub(crate) fn add(&mut self, word: &[u8]) {
        match self.counts.get_mut(word) {
            Some(count) => *count += 1,
            None => {
                self.bytes += word.len();
                self.counts.insert(word.into(), 1);
            }
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.counts.len() >= WORDS || self.bytes >= BYTES
    }

    /// Empties the tally.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (Box<[u8]>, u64)> {
        self.bytes = 0;
        self.counts.drain()
    }
}
