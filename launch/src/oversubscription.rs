//! Whether the ranks of a host are oversubscribed: more than its processors, so that they should not spin.
//!
//! A rank cannot decide this from the processors that it may use: if a launcher binds every rank to a core,
//! each rank sees one. So all ranks exchange the sets of processors on which they may run.

use crate::processors::Processors;

/// Local. The processors that this rank may run on, or none if that is unknown.
#[must_use]
pub fn allowed() -> Vec<u32> {
    Processors::allowed().map_or_else(|_| Vec::new(), |mine| mine.iter().collect())
}

/// Local. How many ranks of this host there are for each processor that they use, rounded up; 1 if they are not
/// oversubscribed. Each rank has published its [`processors`](crate::launcher::processors).
#[must_use]
pub fn ranks_per_processor(told: &[&str]) -> u32 {
    let lists: Vec<_> = told.iter().map(|list| Processors::parse(list)).collect();
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let processors = match lacks_time(told.len(), available) {
        true => available,
        false if outnumber_processors(&lists) => match used(&lists) {
            0 => available,
            used => used,
        },
        false => return 1,
    };
    (told.len().div_ceil(processors) as u32).max(2)
}

/// Whether a container may use less processor time than so many ranks need. A process that is bound to processors
/// cannot determine this.
fn lacks_time(ranks: usize, available: usize) -> bool {
    Processors::allowed().is_ok_and(|mine| available < mine.len() && available < ranks)
}

/// The number of processors on which some rank may run, as far as they are known.
fn used(ranks: &[Option<Processors>]) -> usize {
    let known = ranks.iter().flatten();
    let all = known.fold(Processors::default(), |all, one| all.or(one));
    all.len()
}

/// Whether more ranks may run on some rank's processors than it has processors, or no rank's processors are known. A
/// rank whose processors are unknown may run everywhere.
fn outnumber_processors(ranks: &[Option<Processors>]) -> bool {
    let meets = |mine: &Processors, other: &Option<Processors>| {
        other.as_ref().is_none_or(|other| mine.meets(other))
    };
    let outnumbered = |mine: &Processors| {
        let sharing = ranks.iter().filter(|&other| meets(mine, other));
        sharing.count() > mine.len()
    };
    ranks.iter().all(Option::is_none) || ranks.iter().flatten().any(outnumbered)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: &str = "";

    fn oversubscribed(ranks: &[&str]) -> bool {
        let lists: Vec<_> = ranks.iter().map(|list| Processors::parse(list)).collect();
        outnumber_processors(&lists)
    }

    #[test]
    fn ranks_on_processors_of_their_own_are_not_oversubscribed() {
        assert!(!oversubscribed(&["0", "1", "2", "3"]));
        assert!(!oversubscribed(&["0-1", "0-1", "2-3", "2-3"]));
        assert!(!oversubscribed(&["0,4", "1,5", "0,4"]));
        assert!(!oversubscribed(&["0-3", "0-3", "0-3", UNKNOWN]));
    }

    #[test]
    fn ranks_that_outnumber_their_processors_are_oversubscribed() {
        assert!(oversubscribed(&["0-1", "0-1", "0-1"]));
        assert!(oversubscribed(&["1", "2", "0", "0"]));
        assert!(oversubscribed(&["0", "1", "0-1"]));
        assert!(oversubscribed(&["0-1", "1-2", "1", "3"]));
        assert!(oversubscribed(&["0", UNKNOWN]));
        assert!(oversubscribed(&[UNKNOWN]));
    }

    #[test]
    fn ranks_are_counted_for_each_processor_that_they_use() {
        let all = Processors::allowed().unwrap();
        let list = all.to_string();
        assert_eq!(ranks_per_processor(&vec![&*list; all.len() + 1]), 2);
        let each: Vec<_> = all.iter().map(|one| one.to_string()).collect();
        let each: Vec<_> = each.iter().map(String::as_str).collect();
        assert_eq!(ranks_per_processor(&each), 1);
        // Processors that no rank of this process may use count, too: others may.
        assert_eq!(
            used(&[Processors::parse("0-1"), None, Processors::parse("1,70")]),
            3
        );
        let ranks = 300 * used(&[Processors::parse(&list)]);
        assert_eq!(ranks_per_processor(&vec![&*list; ranks]), 300);
        assert!(ranks_per_processor(&vec![UNKNOWN; ranks]) >= 300);
        assert_eq!(ranks_per_processor(&[UNKNOWN]), 2);
    }
}
