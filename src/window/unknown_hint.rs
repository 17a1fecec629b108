//! Hints whose names are not known. MPI requires that a library ignores them, but a user who mistyped
//! one wants to know.

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::info::{Info, KEYS, KINDS_IN_USE};
use crate::wait::lock;

/// The known name of which `key` may be a misspelling. Names that other MPIs know are similar to none.
pub(crate) fn similar(key: &str) -> Option<&'static str> {
    if KEYS.contains(&key) || key == KINDS_IN_USE {
        return None;
    }
    let key = key.to_ascii_lowercase();
    let distances = KEYS.map(|known| (strsim::osa_distance(known, &key), known));
    let near = distances
        .into_iter()
        .filter(|(distance, known)| *distance <= (known.len() / 4).min(4));
    near.min().map(|(_, known)| known)
}

/// Warns of each name that may be a misspelling, once in this process.
pub(super) fn warn(info: &Info) {
    static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    for (key, _) in info.iter() {
        if let Some(known) = similar(key)
            && lock(&WARNED).insert(key.to_owned())
        {
            tracing::warn!(
                "the hint {key:?} is not known and changes nothing; did you mean {known:?}?"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelling_leads_to_the_name_that_was_meant() {
        for (key, known) in [
            ("no_lock", "no_locks"),
            ("nolocks", "no_locks"),
            ("NO_LOCKS", "no_locks"),
            ("no-locks", "no_locks"),
            ("same_szie", "same_size"),
            ("accumulate_order", "accumulate_ordering"),
            ("acumulate_opps", "accumulate_ops"),
            ("accumulate_granularity", "mpi_accumulate_granularity"),
            ("transom_eager_lockall", "transom_eager_lock_all"),
        ] {
            assert_eq!(similar(key), Some(known), "{key}");
        }
        assert!(KEYS.iter().all(|key| similar(key).is_none()));
    }

    #[test]
    fn names_that_are_known_elsewhere_are_no_misspellings() {
        for key in [
            // MPI-4.1, of windows, communicators, files, processes and sessions.
            "mpi_memory_alloc_kinds",
            "mpi_assert_no_any_tag",
            "mpi_assert_no_any_source",
            "mpi_assert_exact_length",
            "mpi_assert_allow_overtaking",
            "mpi_assert_strict_start_ordering",
            "mpi_assert_strict_persistent_collective_ordering",
            "mpi_initial_errhandler",
            "mpi_hw_resource_type",
            "mpi_hw_resource_num",
            "mpi_shared_memory",
            "mpi_size",
            "thread_level",
            "access_style",
            "collective_buffering",
            "cb_block_size",
            "cb_buffer_size",
            "cb_nodes",
            "chunked",
            "chunked_item",
            "chunked_size",
            "filename",
            "file_perm",
            "io_node_list",
            "nb_proc",
            "num_io_nodes",
            "striping_factor",
            "striping_unit",
            "arch",
            "host",
            "path",
            "soft",
            "wdir",
            "ip_address",
            "ip_port",
            // MPICH, Intel MPI, Open MPI and Cray MPICH.
            "alloc_shm",
            "optimized_mr",
            "rma_op_types",
            "which_accumulate_ops",
            "accumulate_noncontig_dtype",
            "accumulate_max_bytes",
            "disable_shm_accumulate",
            "coll_attach",
            "win_allocate",
            "acc_single_intrinsic",
            "blocking_fence",
            "epochs_used",
            "asynchronous_progress",
            "romio_cb_read",
            "romio_no_indep_rw",
            "MPIR_hint",
            "use_shared_memory",
            "size",
            "locks",
            "",
        ] {
            assert_eq!(similar(key), None, "{key}");
        }
    }
}
