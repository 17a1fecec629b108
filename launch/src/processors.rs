//! The processors that a process may run on, and binding to them.

use std::fmt;
use std::fs;
use std::io;

use libc::c_ulong;

use crate::sys::check;

/// More than any kernel numbers. A list with higher numbers is not one of processors.
const HIGHEST: u32 = 1 << 16;
/// Processors in a word.
const BITS: u32 = c_ulong::BITS;

/// A set of processors by the kernel's numbers, in the kernel's format: one bit for each, in words. The last word is
/// not zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Processors(Vec<c_ulong>);

impl Processors {
    /// The processors on which the calling thread, and the threads and processes that it starts, may run.
    pub(crate) fn allowed() -> io::Result<Self> {
        let mut words = vec![0 as c_ulong; 16];
        loop {
            let (place, bytes) = (words.as_mut_ptr(), size_of_val(&words[..]));
            // SAFETY: the call writes at most the given number of bytes, which is the length of live words that nothing
            // else uses. A cpu_set_t consists of such words, and the call takes their length.
            let read = unsafe { libc::sched_getaffinity(0, bytes, place.cast()) };
            match check(read) {
                Ok(_) => return Ok(Self::trimmed(words)),
                // The set is smaller than the kernel's.
                Err(error)
                    if error.raw_os_error() == Some(libc::EINVAL)
                        && (words.len() as u32) < HIGHEST / BITS =>
                {
                    words.resize(words.len() * 2, 0);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn trimmed(mut words: Vec<c_ulong>) -> Self {
        let used = words.iter().rposition(|&word| word != 0);
        words.truncate(used.map_or(0, |last| last + 1));
        Self(words)
    }

    /// Binds the calling thread, and the threads and processes that it starts, to these processors. Async-signal-safe.
    pub(crate) fn bind(&self) -> io::Result<()> {
        let (words, bytes) = (self.0.as_ptr(), size_of_val(&self.0[..]));
        // SAFETY: the call reads the given number of bytes, which is the length of live words. A cpu_set_t consists of
        // such words, and the call takes their length.
        check(unsafe { libc::sched_setaffinity(0, bytes, words.cast()) })?;
        Ok(())
    }

    /// The processors of the same core, including `processor` itself. If the machine does not say, each processor is a
    /// core.
    pub(crate) fn core_of(processor: u32) -> Self {
        let file = format!("/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list");
        let alone = Self::from_iter([processor]);
        let listed = fs::read_to_string(file).ok();
        let core = listed.and_then(|list| Self::parse(&list));
        core.filter(|core| core.meets(&alone)).unwrap_or(alone)
    }

    /// Parses the kernel's list format: `0-3,8`.
    pub(crate) fn parse(list: &str) -> Option<Self> {
        let mut found = Vec::new();
        for part in list.trim().split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
            if first > last || last >= HIGHEST {
                return None;
            }
            found.extend(first..=last);
        }
        Some(found.into_iter().collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        let words = (0..).step_by(BITS as usize).zip(&self.0);
        words.flat_map(|(first, word)| {
            (0..BITS).filter_map(move |bit| (word >> bit & 1 == 1).then_some(first + bit))
        })
    }

    pub(crate) fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    pub(crate) fn and(&self, other: &Self) -> Self {
        let both = self.0.iter().zip(&other.0);
        Self::trimmed(both.map(|(one, other)| one & other).collect())
    }

    pub(crate) fn or(&self, other: &Self) -> Self {
        let (long, short) = match self.0.len() < other.0.len() {
            true => (other, self),
            false => (self, other),
        };
        let mut words = long.0.clone();
        for (word, more) in words.iter_mut().zip(&short.0) {
            *word |= more;
        }
        Self(words)
    }

    pub(crate) fn meets(&self, other: &Self) -> bool {
        !self.and(other).0.is_empty()
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
        let mut words = Vec::new();
        for processor in processors {
            let (word, bit) = ((processor / BITS) as usize, processor % BITS);
            words.resize(words.len().max(word + 1), 0);
            words[word] |= 1 << bit;
        }
        Self(words)
    }
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
        for wrong in ["", "-", "3-1", "1,", "a", "0-65536", "-1"] {
            assert_eq!(Processors::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn this_process_may_run_where_the_kernel_says() {
        let allowed = Processors::allowed().unwrap();
        assert_ne!(allowed.len(), 0);
        let first = allowed.first().unwrap();
        assert!(Processors::core_of(first).iter().any(|one| one == first));
        // A processor that does not exist is a core of its own.
        let nobodys = HIGHEST - 1;
        assert_eq!(
            Processors::core_of(nobodys),
            [nobodys].into_iter().collect()
        );
    }

    #[test]
    fn a_bound_thread_runs_there_and_nowhere_else() {
        let last: Processors = Processors::allowed()
            .unwrap()
            .iter()
            .last()
            .into_iter()
            .collect();
        let bound = std::thread::spawn({
            let last = last.clone();
            move || {
                last.bind().unwrap();
                Processors::allowed().unwrap()
            }
        });
        assert_eq!(bound.join().unwrap(), last);
        let error = Processors::default().bind().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn there_is_a_bit_for_each_processor() {
        for (list, words) in [
            ("0", vec![1]),
            ("1,63", vec![1 << 63 | 2]),
            ("64,130", vec![0, 1, 4]),
        ] {
            assert_eq!(set(list), Processors(words));
            assert_eq!(set(list).to_string(), list);
            assert_eq!(set(list).iter().collect::<Processors>(), set(list));
        }
    }
}
