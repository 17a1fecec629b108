//! Input for parsers: any bytes, and damaged valid input.

use proptest::prelude::*;
use proptest::sample::{Index, select};

/// At most `most` bytes.
pub fn any_bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..most)
}

/// One of the seeds, with some bytes changed, and often cut short.
pub fn damaged(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let damage = prop::collection::vec((any::<Index>(), any::<u8>()), 0..6);
    let cut = proptest::option::of(any::<Index>());
    (select(seeds), damage, cut).prop_map(|(mut bytes, damage, cut)| {
        for (at, byte) in damage {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        bytes
    })
}
