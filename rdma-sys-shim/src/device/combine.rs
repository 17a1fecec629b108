//! Accumulates that a thread of the target carries out: what an origin asks for, and how the target does it. Devices do not
//! know the operations: the library gives each device a [`Combiner`].

#[cfg(any(test, fuzzing, feature = "testkit"))]
pub(crate) mod triple_and_add;

use std::hint::spin_loop;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use crate::guard::{self, AccessFault};

/// What is done to each element. The codes have a meaning to the [`Combiner`] only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Combination {
    /// The code of the operation.
    pub operation: u8,
    /// The code of the elements' type.
    pub ty: u8,
    /// The code for the elements that single atomics update; the others are updated under the lock.
    pub atomics: u8,
    /// What the origin sends for each element.
    pub operands: Operands,
    /// Whether the previous elements go back to the origin.
    pub fetches: bool,
}

/// What an origin sends for each element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operands {
    /// Nothing.
    #[default]
    None,
    /// An operand.
    One,
    /// A value to compare with, and an operand that replaces an equal element. There is one element.
    Compared,
}

const FETCHES: u8 = 1 << 7;

impl Combination {
    pub(crate) fn encode(self) -> [u8; 4] {
        let fetches = if self.fetches { FETCHES } else { 0 };
        let form = self.operands as u8 | fetches;
        [self.operation, self.ty, self.atomics, form]
    }

    /// `None` if no origin sends these bytes.
    pub(crate) fn decode([operation, ty, atomics, form]: [u8; 4]) -> Option<Self> {
        let operands = match form & !FETCHES {
            0 => Operands::None,
            1 => Operands::One,
            2 => Operands::Compared,
            _ => return None,
        };
        Some(Self {
            operation,
            ty,
            atomics,
            operands,
            fetches: form & FETCHES != 0,
        })
    }

    /// The bytes that an origin sends for an element.
    pub(crate) fn sent(self, element: &ElementRuns) -> usize {
        let parts = match self.operands {
            Operands::None => 0,
            Operands::One => 1,
            Operands::Compared => 2,
        };
        parts * element.size()
    }

    /// The bytes that go back for an element.
    pub(crate) fn fetched(self, element: &ElementRuns) -> usize {
        if self.fetches { element.size() } else { 0 }
    }
}

/// How elements of a type lie in memory. On the way they have no padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementRuns {
    /// Bytes from one element to the next; not 0.
    pub extent: usize,
    /// The offsets and lengths of the bytes of an element that are not padding, in ascending order.
    pub runs: &'static [(usize, usize)],
}

impl ElementRuns {
    /// The bytes of an element without padding.
    pub(crate) fn size(&self) -> usize {
        self.runs.iter().map(|&(_, len)| len).sum()
    }

    pub(crate) fn is_dense(&self) -> bool {
        self.size() == self.extent
    }

    /// The padding behind an element.
    fn tail(&self) -> usize {
        self.runs
            .last()
            .map_or(0, |&(at, len)| self.extent - (at + len))
    }

    /// The bytes that `count` elements span in memory.
    pub(crate) fn span(&self, count: usize) -> usize {
        (count * self.extent).saturating_sub(self.tail())
    }

    /// The parts of `count` elements from `base` on that are not padding: one if there is none.
    pub(crate) fn parts(
        self,
        base: *const u8,
        count: usize,
    ) -> impl Iterator<Item = (*const u8, usize)> + Clone {
        let whole = (self.is_dense()).then_some((base, count * self.extent));
        let elements = (0..if self.is_dense() { 0 } else { count }).flat_map(move |index| {
            let begin = base.wrapping_add(index * self.extent);
            (self.runs.iter()).map(move |&(at, len)| (begin.wrapping_add(at), len))
        });
        whole.into_iter().chain(elements)
    }

    /// As many of `count` elements from an address on as end between two words of eight bytes, which others may read as
    /// a whole meanwhile; all if there is no such end, since then no element is a word.
    pub(crate) fn up_to_a_word(&self, address: u64, count: usize) -> usize {
        let end = address.wrapping_add((count * self.extent) as u64);
        let behind = (end % 8) as usize;
        match behind.is_multiple_of(self.extent) {
            true => count.saturating_sub(behind / self.extent),
            false => count,
        }
    }

    /// The number of elements that span so many bytes; `None` if no number does.
    pub(crate) fn count(&self, span: u64) -> Option<usize> {
        if span == 0 {
            return Some(0);
        }
        let bytes = usize::try_from(span).ok()?.checked_add(self.tail())?;
        let count = bytes / self.extent;
        bytes.is_multiple_of(self.extent).then_some(count)
    }
}

/// Elements in memory of this process that belong to an accumulate, contiguous in each buffer. Buffers that the
/// [`Combination`] does not need may be null.
#[derive(Clone, Copy, Debug)]
pub struct CombinedElements {
    /// The number of elements; not 0.
    pub count: usize,
    /// The operands.
    pub operands: *const u8,
    /// The values to compare with.
    pub compare: *const u8,
    /// The buffer for the previous elements.
    pub old: *mut u8,
}

impl CombinedElements {
    /// The parts of what an origin sends.
    pub(crate) fn sent(
        self,
        what: Combination,
        element: ElementRuns,
    ) -> impl Iterator<Item = (*const u8, usize)> + Clone {
        let sent = match what.operands {
            Operands::None => [None, None],
            Operands::One => [None, Some(self.operands)],
            Operands::Compared => [Some(self.compare), Some(self.operands)],
        };
        (sent.into_iter().flatten()).flat_map(move |base| element.parts(base, self.count))
    }

    /// The parts of what goes back.
    pub(crate) fn fetched(
        self,
        what: Combination,
        element: ElementRuns,
    ) -> impl Iterator<Item = (*mut u8, usize)> + Clone {
        let old = what.fetches.then_some(self.old.cast_const());
        (old.into_iter())
            .flat_map(move |old| element.parts(old, self.count))
            .map(|(to, len)| (to.cast_mut(), len))
    }

    /// `count` of the elements, from the one of index `first` on.
    pub(crate) fn part(self, element: ElementRuns, first: usize, count: usize) -> Self {
        let skip = first * element.extent;
        Self {
            count,
            operands: self.operands.wrapping_add(skip),
            compare: self.compare.wrapping_add(skip),
            old: self.old.wrapping_add(skip),
        }
    }
}

/// Carries out accumulates on memory of this process for peers: the code by which this process accumulates on mapped
/// memory, too.
pub trait Combiner: Send + Sync {
    /// How the elements lie, and whether those from this address on are updated under the lock. `None` if there is no
    /// such combination.
    fn element(&self, what: Combination, address: u64) -> Option<(ElementRuns, bool)>;

    /// Takes the lock if it is free; `None` if the word is not a lock.
    fn try_lock(&self, lock: &AtomicU64) -> Option<bool>;

    /// Releases the lock, which [`Combiner::try_lock`] took.
    fn unlock(&self, lock: &AtomicU64);

    /// Combines operands into `count` elements at `at`, and stores the previous elements at `old`. Operands and previous
    /// elements have no padding. The lock is held if [`Combiner::element`] asks for it.
    ///
    /// # Safety
    /// `operands` is readable and `old` writable for what the combination sends and fetches. The elements at `at` are
    /// in memory that is shared with peers. A fault there may end the call: it accesses them by atomics or assembly
    /// only, and meanwhile holds no lock or value with a destructor.
    unsafe fn combine(
        &self,
        what: Combination,
        at: *mut u8,
        count: usize,
        operands: *const u8,
        old: *mut u8,
    );
}

/// The combiner of a device, once the library has given it.
#[derive(Clone, Default)]
pub(crate) struct GivenCombiner(Arc<OnceLock<Arc<dyn Combiner>>>);

impl GivenCombiner {
    /// Only the first call has an effect.
    pub(crate) fn give(&self, combiner: Arc<dyn Combiner>) {
        let _ = self.0.set(combiner);
    }

    pub(crate) fn get(&self) -> Option<&dyn Combiner> {
        self.0.get().map(|combiner| &**combiner)
    }
}

/// What became of an accumulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combined {
    Done,
    /// Somebody else holds the lock; nothing was done. A rank that maps the memory takes the lock itself, the target's own
    /// threads included, and may combine much or lose its processor meanwhile.
    Busy,
    /// The word is no lock; nothing was done.
    NotALock,
    /// The memory is not mapped with the necessary right.
    Faulted,
}

/// Attempts to take a lock that is held, which is short.
const ATTEMPTS: u32 = 256;

/// Carries out a part of an accumulate on memory of this process.
///
/// # Safety
/// As for [`Combiner::combine`], except that the lock is not held. `lock`, if [`Combiner::element`] asks for one, is
/// aligned, in memory that is shared with peers; both may be unmapped by now.
pub(crate) unsafe fn carry_out(
    combiner: &dyn Combiner,
    what: Combination,
    lock: Option<*mut u8>,
    (at, count, span): (*mut u8, usize, usize),
    operands: *const u8,
    old: *mut u8,
) -> Combined {
    let combine = || {
        // SAFETY: the caller's promise; the lock is held where it is needed.
        let done = unsafe {
            guard::guarded(at, span, || {
                combiner.combine(what, at, count, operands, old);
            })
        };
        match done {
            Ok(()) => Combined::Done,
            Err(AccessFault) => Combined::Faulted,
        }
    };
    let Some(lock) = lock else {
        return combine();
    };
    for _ in 0..ATTEMPTS {
        // SAFETY: an aligned word of shared memory, by the caller's promise; `try_lock` uses its atomics, and holds nothing.
        let taken = unsafe {
            guard::guarded(lock, size_of::<u64>(), || {
                combiner.try_lock(AtomicU64::from_ptr(lock.cast()))
            })
        };
        match taken {
            Err(AccessFault) => return Combined::Faulted,
            Ok(None) => return Combined::NotALock,
            Ok(Some(false)) => spin_loop(),
            Ok(Some(true)) => {
                let done = combine();
                // SAFETY: as above. If the word is gone, so is the lock.
                let _ = unsafe {
                    guard::guarded(lock, size_of::<u64>(), || {
                        combiner.unlock(AtomicU64::from_ptr(lock.cast()));
                    })
                };
                return done;
            }
        }
    }
    Combined::Busy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_combination_survives_the_journey() {
        for operands in [Operands::None, Operands::One, Operands::Compared] {
            for fetches in [false, true] {
                let what = Combination {
                    operation: 3,
                    ty: 200,
                    atomics: 15,
                    operands,
                    fetches,
                };
                assert_eq!(Combination::decode(what.encode()), Some(what));
            }
        }
        assert_eq!(Combination::decode([0, 0, 0, 3]), None);
    }

    #[test]
    fn elements_are_counted_without_the_padding_behind_the_last() {
        let padded = ElementRuns {
            extent: 16,
            runs: &[(0, 2), (8, 4)],
        };
        assert_eq!((padded.size(), padded.span(3)), (6, 44));
        assert_eq!(padded.count(44), Some(3));
        assert_eq!(padded.count(45), None);
        assert_eq!(padded.count(u64::MAX), None);
        let dense = ElementRuns {
            extent: 8,
            runs: &[(0, 8)],
        };
        assert_eq!(
            [0, 8, 9].map(|span| dense.count(span)),
            [Some(0), Some(1), None]
        );
    }
}
