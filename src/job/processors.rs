//! Processors: where this process may run, and whether it takes turns there with other ranks.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;

use super::pmi::{Client, PmiError};

/// More than any kernel numbers; a longer list is not one of processors.
const HIGHEST: u32 = 1 << 16;
/// What a launcher takes for a value in any case. A longer list is not published.
const LONGEST: usize = 200;

/// Processors by the kernel's numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Processors(BTreeSet<u32>);

impl Processors {
    /// Those that the calling thread may run on, and what it starts.
    pub(super) fn allowed() -> Option<Self> {
        let status = fs::read_to_string("/proc/thread-self/status").ok()?;
        let mut lines = status.lines();
        Self::parse(lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?)
    }

    /// Those that the machine runs.
    fn online() -> Option<Self> {
        Self::parse(&fs::read_to_string("/sys/devices/system/cpu/online").ok()?)
    }

    /// Those that share the core of one of them, itself included; where the machine does not say, a
    /// processor is a core.
    pub(super) fn core_of(processor: u32) -> Self {
        let file = format!("/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list");
        let listed = fs::read_to_string(file);
        (listed.ok().and_then(|list| Self::parse(&list)))
            .filter(|core| core.0.contains(&processor))
            .unwrap_or_else(|| Self([processor].into()))
    }

    /// The kernel's way to write them: `0-3,8`.
    fn parse(list: &str) -> Option<Self> {
        let mut found = BTreeSet::new();
        for part in list.trim().split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
            if first > last || last >= HIGHEST {
                return None;
            }
            found.extend(first..=last);
        }
        Some(Self(found))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }

    pub(super) fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    pub(super) fn and(&self, other: &Self) -> Self {
        Self(&self.0 & &other.0)
    }

    fn meets(&self, other: &Self) -> bool {
        !self.0.is_disjoint(&other.0)
    }
}

impl fmt::Display for Processors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = left.next() {
            let mut last = first;
            while let Some(next) = left.next_if_eq(&(last + 1)) {
                last = next;
            }
            write!(f, "{comma}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

impl FromIterator<u32> for Processors {
    fn from_iter<I: IntoIterator<Item = u32>>(processors: I) -> Self {
        Self(processors.into_iter().collect())
    }
}

/// Processors in the form in which a process can be bound to them without allocating.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mask(Vec<libc::c_ulong>);

impl From<&Processors> for Mask {
    fn from(processors: &Processors) -> Self {
        let bits = libc::c_ulong::BITS;
        let mut words = Vec::new();
        for processor in processors.iter() {
            let (word, bit) = ((processor / bits) as usize, processor % bits);
            words.resize(words.len().max(word + 1), 0);
            words[word] |= 1 << bit;
        }
        Self(words)
    }
}

impl Mask {
    /// Has the calling thread, and what it starts, run there only. Async-signal-safe.
    pub(super) fn bind(&self) -> io::Result<()> {
        let (words, bytes) = (self.0.as_ptr(), size_of_val(&self.0[..]));
        // SAFETY: the kernel reads as many bytes as it is told, which are those of live words. A
        // cpu_set_t is such words too, but of a number that does not matter to the kernel.
        match unsafe { libc::sched_setaffinity(0, bytes, words.cast()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Tells the others where this rank may run. They can ask after the next barrier.
pub(super) fn publish(client: &Client) -> Result<(), PmiError> {
    let list = Processors::allowed().map_or(String::new(), |mine| mine.to_string());
    let known = !list.is_empty() && list.len() <= LONGEST;
    client.put(&key(client.rank()), if known { &list } else { UNKNOWN })
}

const UNKNOWN: &str = "unknown";

fn key(rank: u32) -> String {
    format!("transom-processors-{rank}")
}

/// Whether ranks take turns on the processors of this one, so that it had better not spin.
/// `neighbours` are the ranks of this host.
///
/// That they are more than those processors does not say so: a launcher that binds every rank to a
/// core leaves each with one. Then the neighbours are asked where they run.
pub(super) fn are_crowded<I: Iterator<Item = u32>>(
    client: &Client,
    neighbours: impl Fn() -> I,
) -> Result<bool, PmiError> {
    // Which also counts what a container may use of the processors' time.
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    if neighbours().count() <= available {
        return Ok(false);
    }
    let is_bound = |mine: &Processors| {
        mine.len() <= available && Processors::online().is_some_and(|all| all != *mine)
    };
    let Some(mine) = Processors::allowed().filter(is_bound) else {
        return Ok(true);
    };
    let others = neighbours().filter(|&rank| rank != client.rank());
    let lists = others.map(|rank| Ok(Processors::parse(&client.get(&key(rank))?)));
    outnumbered(&mine, lists)
}

/// Whether this rank and those of the others that may run on one of its processors are more than these.
/// Asks no further than it has to. Those of which nothing is known may run everywhere.
fn outnumbered<E>(
    mine: &Processors,
    others: impl Iterator<Item = Result<Option<Processors>, E>>,
) -> Result<bool, E> {
    let mut sharing = 1;
    for other in others {
        if other?.is_none_or(|other| mine.meets(&other)) {
            sharing += 1;
        }
        if sharing > mine.len() {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(list: &str) -> Processors {
        Processors::parse(list).unwrap()
    }

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        for list in ["0", "0-1", "0-3,8", "1,3,5-6,127"] {
            assert_eq!(set(list).to_string(), list);
        }
        assert_eq!(set("3,1-2,2\n").to_string(), "1-3");
        assert_eq!(set("0-3,8").len(), 5);
        for wrong in ["", "-", "3-1", "1,", "a", "0-65536", "-1", UNKNOWN] {
            assert_eq!(Processors::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn this_process_may_run_somewhere() {
        let allowed = Processors::allowed().unwrap();
        let online = Processors::online().unwrap();
        assert_eq!(allowed.and(&online), allowed);
        let first = allowed.first().unwrap();
        assert!(Processors::core_of(first).meets(&allowed));
    }

    #[test]
    fn masks_have_a_bit_for_each_processor() {
        for (list, words) in [
            ("0", vec![1]),
            ("1,63", vec![1 << 63 | 2]),
            ("64,130", vec![0, 1, 4]),
        ] {
            assert_eq!(Mask::from(&set(list)), Mask(words));
        }
    }

    /// Whether each of some ranks of this host, bound like this, finds itself crowded.
    fn bound(masks: &[Option<Processors>]) -> Vec<bool> {
        let size = u32::try_from(masks.len()).unwrap();
        let (found, _) = crate::job::pmi::tests::job(size, |client| {
            if let Some(mask) = &masks[client.rank() as usize] {
                Mask::from(mask).bind().unwrap();
                assert_eq!(Processors::allowed().as_ref(), Some(mask));
            }
            publish(&client).unwrap();
            client.barrier().unwrap();
            let crowded = are_crowded(&client, || 0..size).unwrap();
            client.finalize().unwrap();
            crowded
        });
        found
    }

    #[test]
    fn ranks_find_out_whether_they_share_processors() {
        let all = Processors::allowed().unwrap();
        let each: Vec<_> = all
            .iter()
            .map(|one| Some([one].into_iter().collect()))
            .collect();
        let many = all.len() + 1;
        assert_eq!(bound(&vec![None; many]), vec![true; many]);
        assert_eq!(bound(&[None]), [false]);
        // With but one processor there is no difference between bound and not.
        if all.len() > 1 {
            assert_eq!(bound(&each), vec![false; each.len()]);
            assert_eq!(bound(&vec![each[0].clone(); 2]), [true, true]);
        }
    }

    /// Whether the first of these ranks is outnumbered, and how many others were asked.
    fn crowded(ranks: &[&str]) -> (bool, usize) {
        let mut asked = 0;
        let others = ranks[1..].iter().map(|list| {
            asked += 1;
            Ok::<_, ()>(Processors::parse(list))
        });
        let verdict = outnumbered(&set(ranks[0]), others).unwrap();
        (verdict, asked)
    }

    #[test]
    fn ranks_on_processors_of_their_own_are_not_crowded() {
        assert_eq!(crowded(&["0", "1", "2", "3"]), (false, 3));
        assert_eq!(crowded(&["0-1", "0-1", "2-3", "2-3"]), (false, 3));
        assert_eq!(crowded(&["0,4", "1,5", "0,4"]), (false, 2));
    }

    #[test]
    fn ranks_that_share_processors_are_crowded_and_ask_no_further() {
        assert_eq!(crowded(&["0", "0", "0", "0"]), (true, 1));
        assert_eq!(crowded(&["0", "1", "0-1", "2"]), (true, 2));
        assert_eq!(crowded(&["0-1", "0-1", "1-2", "3"]), (true, 2));
        assert_eq!(crowded(&["0", UNKNOWN, "1"]), (true, 1));
    }
}
