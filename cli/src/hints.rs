//! Unknown hints. The library ignores them, as MPI demands, but the user wants to know of them.

use transom::Info;
use transom::lower::similar_hint;

use super::screen;

/// Keys, and some of their values.
const VALUES: [(&str, &[&str]); 12] = [
    ("no_locks", FLAG),
    ("accumulate_ordering", &["none", "rar,raw,war,waw"]),
    ("accumulate_ops", &["same_op", "same_op_no_op"]),
    ("mpi_accumulate_granularity", &["0", "4096"]),
    ("same_size", FLAG),
    ("same_disp_unit", FLAG),
    ("alloc_shared_noncontig", FLAG),
    ("mpi_minimum_memory_alignment", &["64", "4096", "65536"]),
    (
        "mpi_assert_memory_alloc_kinds",
        &["system", "system,mpi:alloc_mem"],
    ),
    ("transom_eager_lock_all", FLAG),
    ("transom_notification_counters", &["8"]),
    ("transom_statistics", FLAG),
];
const FLAG: &[&str] = &["true", "false"];

/// Examples of hints in the form that `--hint` accepts, some for each key.
pub(super) fn examples() -> Vec<String> {
    let of_key =
        |(key, values): (_, &'static [_])| values.iter().map(move |v| format!("{key}={v}"));
    VALUES.into_iter().flat_map(of_key).collect()
}

/// Prints one line of warning for each of these keys.
pub(super) fn warn_of_unknown(keys: &[String]) {
    for key in keys {
        screen::warn(&oddity(key));
    }
}

fn oddity(key: &str) -> String {
    let tip = match similar_hint(key) {
        Some(known) => format!("did you mean {known:?}?"),
        None => format!("the known ones are {}", Info::KEYS.join(", ")),
    };
    format!("the hint {key:?} is not known and changes nothing; {tip}")
}

#[cfg(test)]
mod tests {
    use transom::lower::is_legal_hint;

    use super::*;

    #[test]
    fn the_nearest_hint_is_named_or_else_all() {
        let typo = oddity("mpi_accumulate_granulrity");
        assert!(
            typo.ends_with("; did you mean \"mpi_accumulate_granularity\"?"),
            "{typo}"
        );
        let other = oddity("striping_unit");
        assert!(other.contains("; the known ones are no_locks, accumulate_ordering,"));
    }

    #[test]
    fn the_examples_of_each_hint_are_what_windows_take() {
        let known: Vec<&str> = VALUES.iter().map(|(key, _)| *key).collect();
        assert_eq!(known, Info::KEYS);
        for (key, values) in VALUES {
            for value in values {
                assert!(is_legal_hint(key, value), "{key}={value}");
            }
            assert!(!is_legal_hint(key, ";"), "{key}");
        }
    }
}
