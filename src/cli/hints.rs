//! Hints that nobody knows. The library ignores them, as MPI wants it; who typed them wants to know.

use transom::Info;
use transom::lower::similar_hint;

use super::screen;

/// Keys, what their values are, and some of these.
const VALUES: [(&str, &str, &[&str]); 12] = [
    ("no_locks", FLAG, &["true", "false"]),
    (
        "accumulate_ordering",
        "none, or some of rar,raw,war,waw",
        &["none", "rar,raw,war,waw"],
    ),
    (
        "accumulate_ops",
        "same_op, same_op_no_op",
        &["same_op", "same_op_no_op"],
    ),
    (
        "mpi_accumulate_granularity",
        "0 to 2^63 − 1, in bytes",
        &["0", "4096"],
    ),
    ("same_size", FLAG, &["true", "false"]),
    ("same_disp_unit", FLAG, &["true", "false"]),
    ("alloc_shared_noncontig", FLAG, &["true", "false"]),
    (
        "mpi_minimum_memory_alignment",
        "a power of two up to 2^40, in bytes",
        &["64", "4096", "65536"],
    ),
    (
        "mpi_assert_memory_alloc_kinds",
        "a list of kinds, such as system,mpi:alloc_mem",
        &["system", "system,mpi:alloc_mem"],
    ),
    ("transom_eager_lock_all", FLAG, &["true", "false"]),
    ("transom_notification_counters", "0 to 1048576", &["8"]),
    ("transom_statistics", FLAG, &["true", "false"]),
];
const FLAG: &str = "true, false";

/// What a window takes for this hint.
pub(super) fn legal(key: &str) -> &'static str {
    let known = VALUES.iter().find(|(known, ..)| *known == key);
    known.map_or("any value", |(_, legal, _)| legal)
}

/// Hints as `--hint` takes them, some of each key.
pub(super) fn examples() -> Vec<String> {
    let of_key =
        |(key, _, values): (_, _, &'static [_])| values.iter().map(move |v| format!("{key}={v}"));
    VALUES.into_iter().flat_map(of_key).collect()
}

/// Warns of each of these names, in a line.
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
    fn what_is_said_of_each_hint_is_what_windows_take() {
        let known: Vec<&str> = VALUES.iter().map(|(key, ..)| *key).collect();
        assert_eq!(known, Info::KEYS);
        for (key, _, values) in VALUES {
            for value in values {
                assert!(is_legal_hint(key, value), "{key}={value}");
            }
            assert!(!is_legal_hint(key, ";"), "{key}");
        }
        assert!(legal("no_locks").contains("false"));
    }
}
