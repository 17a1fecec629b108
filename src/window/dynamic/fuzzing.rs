//! The parser of a peer's table, for `crate::fuzzing`.

use super::table::{Copied, TABLE_BYTES};

/// Regions that the words can hold, whatever they say.
pub(crate) fn region_table(words: &[u64]) {
    if let Some((first, further)) = Copied(words).contents() {
        assert!(first.len() * 24 <= TABLE_BYTES);
        assert!(
            further
                .iter()
                .all(|table| table.address != 0 && table.len.is_multiple_of(24))
        );
    }
}
