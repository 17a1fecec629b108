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

/// Local. Whether the ranks of this host are oversubscribed. Each rank has published its
/// [`processors`](crate::launcher::processors).
#[must_use]
pub fn are_oversubscribed(told: &[&str]) -> bool {
    let lists: Vec<_> = told.iter().map(|list| Processors::parse(list)).collect();
    lacks_time(told.len()) || outnumber_processors(&lists)
}

/// Whether a container may use less processor time than so many ranks need. A process that is bound to processors
/// cannot determine this.
fn lacks_time(ranks: usize) -> bool {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    Processors::allowed().is_ok_and(|mine| available < mine.len() && available < ranks)
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
        let all = Processors::allowed().unwrap();
        let list = all.to_string();
        assert!(are_oversubscribed(&vec![&*list; all.len() + 1]));
        let each: Vec<_> = all.iter().map(|one| one.to_string()).collect();
        let each: Vec<_> = each.iter().map(String::as_str).collect();
        assert!(!are_oversubscribed(&each));
    }
}
