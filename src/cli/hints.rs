//! Hints that nobody knows. The library ignores them, as MPI wants it; who typed them wants to know.

use transom::Info;

use super::screen;

/// How alike two words are of which one may be a misspelling of the other.
const ALIKE: f64 = 0.85;

/// Warns of each hint that nobody knows, in a line.
pub(super) fn warn_of_unknown(hints: &Info) {
    for (key, _) in hints.iter() {
        if let Some(oddity) = oddity(key) {
            screen::warn(&oddity);
        }
    }
}

fn oddity(key: &str) -> Option<String> {
    if Info::KEYS.contains(&key) {
        return None;
    }
    let known = Info::KEYS
        .iter()
        .map(|known| (strsim::jaro_winkler(known, key), known))
        .filter(|(alike, _)| *alike > ALIKE)
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    Some(match known {
        Some((_, known)) => {
            format!("the hint {key:?} is not known and changes nothing (a similar one: {known})")
        }
        None => {
            let known = Info::KEYS.join(", ");
            format!("the hint {key:?} is not known and changes nothing (known: {known})")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_hint_is_named_or_else_all() {
        let nearest = |key: &str| oddity(key).unwrap();
        assert!(
            nearest("mpi_accumulate_granulrity")
                .contains("similar one: mpi_accumulate_granularity)")
        );
        assert!(nearest("nolocks").contains("similar one: no_locks)"));
        assert!(nearest("same_disp").contains("similar one: same_disp_unit)"));
        assert!(nearest("NO_LOCKS").contains("(known: no_locks, accumulate_ordering,"));
        assert!(nearest("striping_unit").contains("transom_statistics)"));
        assert!(Info::KEYS.iter().all(|key| oddity(key).is_none()));
    }
}
