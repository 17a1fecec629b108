//! What a rank keeps that grows with the number of ranks, from the sizes of the structures themselves.

use super::{Model, Placement};
use crate::comm::{barrier_bytes, block_bytes};
use crate::memory::columns::Column;
use crate::memory::control::PINNED_BYTES;
use crate::peers::Fabric;
use crate::window::{BlockLayout, PairTable, Targets};

/// A quantity that grows with the number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRow {
    /// Its name, with its number of instances.
    pub what: &'static str,
    /// The number of bytes, or of windows.
    pub count: u64,
    /// Whether `count` is in bytes.
    pub is_bytes: bool,
}

/// The memory that a rank of such a job keeps. Only the entries of a table for ranks that are met touch memory.
#[must_use]
pub fn memory(placement: Placement) -> Vec<MemoryRow> {
    let ranks = placement.ranks;
    let rings = Model::new(placement, false).rings;
    let block = BlockLayout::new(barrier_bytes(&rings)).bytes(0);
    let bytes = |what, count| MemoryRow {
        what,
        count,
        is_bytes: true,
    };
    vec![
        bytes("control block of a window, registered", block),
        bytes(
            "control block of a communicator, registered",
            block_bytes(&rings),
        ),
        MemoryRow {
            what: "windows in the first slab of a control region over RDMA",
            count: PINNED_BYTES.saturating_sub(block_bytes(&rings)) / block,
            is_bytes: false,
        },
        bytes(
            "targets of a window, touched when used",
            Targets::bytes(ranks),
        ),
        bytes(
            "pairs of a window that posts, starts or notifies, touched when used",
            PairTable::bytes(ranks),
        ),
        bytes(
            "places of blocks of a window or communicator, where they differ",
            Column::<u64>::bytes(ranks),
        ),
        bytes("tables of peers, touched when used", Fabric::bytes(ranks)),
        bytes("order of ranks and hosts of a communicator", rings.bytes()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(ranks: u32, what: &str) -> u64 {
        let rows = memory(Placement {
            ranks,
            per_host: 64,
        });
        let row = rows.iter().find(|row| row.what.starts_with(what));
        row.unwrap().count
    }

    #[test]
    fn what_peers_write_grows_with_the_logarithm() {
        for what in [
            "control block of a window",
            "control block of a communicator",
        ] {
            let (few, many) = (count(1 << 10, what), count(1 << 20, what));
            assert!(many < 4 * few, "{what}: {few}, {many}");
        }
        assert_eq!(count(1000, "targets"), 64 * 1000 + 8 * 17);
    }
}
