//! Processors: where a process may run, and binding it there.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;

use libc::c_ulong;

use crate::sys::check;

/// More than any kernel numbers; a longer list is not one of processors.
const HIGHEST: u32 = 1 << 16;
/// Processors in a word of a mask.
const BITS: u32 = c_ulong::BITS;

/// Processors by the kernel's numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Processors(BTreeSet<u32>);

impl Processors {
    /// Those that the calling thread may run on, and what it starts.
    pub(crate) fn allowed() -> io::Result<Self> {
        Self::of(0)
    }

    /// Those that a process may run on; 0 is the calling thread.
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let mut mask = Mask(vec![0; 16]);
        loop {
            match mask.read(pid) {
                Ok(()) => return Ok(Self(mask.processors().collect())),
                // It has fewer bits than the kernel's.
                Err(error)
                    if error.raw_os_error() == Some(libc::EINVAL)
                        && (mask.0.len() as u32) < HIGHEST / BITS =>
                {
                    mask.0.resize(mask.0.len() * 2, 0);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Those that share the core of one of them, itself included; where the machine does not say, a
    /// processor is a core.
    pub(crate) fn core_of(processor: u32) -> Self {
        let file = format!("/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list");
        let listed = fs::read_to_string(file);
        (listed.ok().and_then(|list| Self::parse(&list)))
            .filter(|core| core.0.contains(&processor))
            .unwrap_or_else(|| Self([processor].into()))
    }

    /// The kernel's way to write them: `0-3,8`.
    pub(crate) fn parse(list: &str) -> Option<Self> {
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

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }

    pub(crate) fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    pub(crate) fn and(&self, other: &Self) -> Self {
        Self(&self.0 & &other.0)
    }

    pub(crate) fn meets(&self, other: &Self) -> bool {
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

/// Processors as the kernel takes them: a bit for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mask(Vec<c_ulong>);

impl From<&Processors> for Mask {
    fn from(processors: &Processors) -> Self {
        let mut words = Vec::new();
        for processor in processors.iter() {
            let (word, bit) = ((processor / BITS) as usize, processor % BITS);
            words.resize(words.len().max(word + 1), 0);
            words[word] |= 1 << bit;
        }
        Self(words)
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.processors().collect::<Processors>().fmt(f)
    }
}

impl Mask {
    fn processors(&self) -> impl Iterator<Item = u32> {
        let words = (0..).step_by(BITS as usize).zip(&self.0);
        words.flat_map(|(first, word)| {
            (0..BITS).filter_map(move |bit| (word >> bit & 1 == 1).then_some(first + bit))
        })
    }

    /// Takes the bits of a process, or of the calling thread (0).
    fn read(&mut self, pid: u32) -> io::Result<()> {
        let (words, bytes) = (self.0.as_mut_ptr(), size_of_val(&self.0[..]));
        // SAFETY: the call writes at most as many bytes as it is told, which are those of live words
        // that nobody else has. A cpu_set_t is such words too, and their number is what it is told.
        check(unsafe { libc::sched_getaffinity(pid.cast_signed(), bytes, words.cast()) })?;
        Ok(())
    }

    /// Has the calling thread, and what it starts, run there only. Async-signal-safe.
    pub(crate) fn bind(&self) -> io::Result<()> {
        let (words, bytes) = (self.0.as_ptr(), size_of_val(&self.0[..]));
        // SAFETY: the call reads as many bytes as it is told, which are those of live words. A
        // cpu_set_t is such words too, and their number is what it is told.
        check(unsafe { libc::sched_setaffinity(0, bytes, words.cast()) })?;
        Ok(())
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
        assert!(Processors::core_of(first).0.contains(&first));
        // What nobody has is a core of its own.
        assert_eq!(Processors::core_of(u32::MAX), Processors([u32::MAX].into()));
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
            let mask = Mask::from(&last);
            move || {
                mask.bind().unwrap();
                Processors::allowed().unwrap()
            }
        });
        assert_eq!(bound.join().unwrap(), last);
        let error = Mask(Vec::new()).bind().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn masks_have_a_bit_for_each_processor() {
        for (list, words) in [
            ("0", vec![1]),
            ("1,63", vec![1 << 63 | 2]),
            ("64,130", vec![0, 1, 4]),
        ] {
            let mask = Mask::from(&set(list));
            assert_eq!(mask, Mask(words));
            assert_eq!(Processors(mask.processors().collect()), set(list));
        }
    }
}
