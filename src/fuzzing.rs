//! What parses outside input, for fuzzers: each function takes any bytes, and panics if the parser
//! breaks a promise. `fuzz/` calls them under cargo-fuzz; the test below does on every run.

use bytemuck::pod_collect_to_vec;

use crate::Info;
use crate::peers::fuzzing;
use crate::window::fuzzing as window;

/// The record that another rank publishes about itself.
pub fn record(bytes: &[u8]) {
    fuzzing::record(bytes);
}

/// Hints, one `key=value` in a line.
pub fn info(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let info = pairs.fold(Info::new(), |info, (key, value)| info.with(key, value));
    window::info(&info);
}

/// A peer's table of attached regions.
pub fn region_table(bytes: &[u8]) {
    let whole = &bytes[..bytes.len() / 8 * 8];
    window::region_table(&pod_collect_to_vec::<u8, u64>(whole));
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::proptest;
    use transom_testing::fuzzing::{any_bytes, damaged};

    use super::*;

    fn all(bytes: &[u8]) {
        record(bytes);
        info(bytes);
        region_table(bytes);
    }

    /// Valid input, which tests corrupt.
    fn seeds() -> Vec<Vec<u8>> {
        let mut table = vec![0_u64; 512];
        table[..8].copy_from_slice(&[2, 3, 4096, 64, 1, 8192, 64, 2]);
        vec![
            fuzzing::a_bootstrap_record(),
            b"accumulate_ordering=rar,raw\nno_locks=true\nsame_size=false".to_vec(),
            b"mpi_minimum_memory_alignment=64\ntransom_notification_counters=9".to_vec(),
            b"mpi_assert_memory_alloc_kinds=system,mpi:alloc_mem\naccumulate_ops=same_op".to_vec(),
            b"mpi_assert_memory_alloc_kinds=cuda:device".to_vec(),
            bytemuck::cast_slice(&table).to_vec(),
        ]
    }

    #[test]
    fn valid_input_passes() {
        seeds().iter().for_each(|seed| all(seed));
    }

    proptest! {
        #[test]
        fn any_bytes_pass(bytes in any_bytes(600)) {
            all(&bytes);
        }

        #[test]
        fn damaged_input_passes(bytes in damaged(seeds())) {
            all(&bytes);
        }
    }
}
