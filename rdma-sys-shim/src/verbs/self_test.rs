//! A few atomics on this process's own memory, before anybody relies on them.

use std::sync::atomic::{AtomicU64, Ordering};

use super::endpoint::VerbsEndpoint;
use crate::{Device, Endpoint, Error, Fetch, LocalRegion, RemoteAddress, Result, Width};

/// Numbers with distinct bytes, also in their sum, so that a wrong byte order is detected.
const START: u64 = 0x0102_0304_0506_0708;
const ADD: u64 = 0x1112_1314_1516_1718;
const NEW: u64 = 0x2122_2324_2526_2728;

/// The three results and the final word.
const WANTED: [u64; 4] = [START, START + ADD, NEW, NEW];

/// Tests fetch_add and compare_swap through the device, to itself: some devices have returned the wrong byte order.
///
/// # Errors
/// A result or the final word is wrong.
pub(super) fn atomics(device: &dyn Device, to_self: &VerbsEndpoint) -> Result<()> {
    let region = device.allocate(8, 8)?;
    judge(device.name(), try_out(&mut Own { to_self, region })?)
}

/// The number of the device's adds while the processor also adds.
const TRIALS: u64 = 500;
/// The most adds of the processor during one of the device; then it only waits.
const MOST_BESIDE: u64 = 1 << 20;

/// Whether no add to a word is lost if the device and the processor add at the same time. A device may claim atomics
/// that are atomic to the processor's; only this test would reveal that they are lost on the way to memory.
pub(super) fn adds_beside_the_processor(
    device: &dyn Device,
    to_self: &VerbsEndpoint,
) -> Result<bool> {
    let region = device.allocate(8, 8)?;
    none_is_lost(&mut Own { to_self, region })
}

fn none_is_lost(word: &mut impl Word) -> Result<bool> {
    let mut added = word.load();
    for _ in 0..TRIALS {
        added += word.add_by_both()?;
    }
    Ok(word.load() == added)
}

/// A word in memory, for tests of a device's atomics on it.
trait Word {
    fn fetch(&mut self, fetch: Fetch) -> Result<u64>;
    /// Stores by the processor.
    fn store(&mut self, value: u64);
    fn load(&self) -> u64;
    /// The device adds 1 while the processor repeatedly adds 1. Returns the sum of both.
    fn add_by_both(&mut self) -> Result<u64>;
}

/// An add, a swap that must happen, and one that must not.
fn try_out(word: &mut impl Word) -> Result<[u64; 4]> {
    let swap = |new| Fetch::CompareSwap {
        expect: START + ADD,
        new,
    };
    word.store(START);
    let before = word.fetch(Fetch::Add(ADD))?;
    let sum = word.fetch(swap(NEW))?;
    let new = word.fetch(swap(START))?;
    Ok([before, sum, new, word.load()])
}

fn judge(device: &str, found: [u64; 4]) -> Result<()> {
    match found == WANTED {
        true => Ok(()),
        false => Err(Error::BrokenAtomics {
            device: device.to_owned(),
            found,
            wanted: WANTED,
        }),
    }
}

/// A word of this process, which the connection to itself accesses.
struct Own<'a> {
    to_self: &'a VerbsEndpoint,
    region: LocalRegion,
}

impl Own<'_> {
    fn at(&self) -> RemoteAddress {
        self.region.remote().at(0)
    }
}

impl Word for Own<'_> {
    fn fetch(&mut self, fetch: Fetch) -> Result<u64> {
        let mut old = 0;
        // SAFETY: the operation is waited for before the place for its answer goes.
        let ticket = unsafe { (self.to_self).fetch(self.at(), Width::W8, fetch, &raw mut old)? };
        self.to_self.wait(ticket)?;
        Ok(old)
    }

    fn store(&mut self, value: u64) {
        // SAFETY: the region's only word, which nobody else knows of.
        unsafe { self.region.base().cast::<u64>().write_volatile(value) }
    }

    fn load(&self) -> u64 {
        // SAFETY: as above; every operation on it is complete.
        unsafe { self.region.base().cast::<u64>().read_volatile() }
    }

    fn add_by_both(&mut self) -> Result<u64> {
        let (mut old, mut added) = (0, 1);
        let one = Fetch::Add(1);
        // SAFETY: as above; the loop ends when the operation is complete, or has failed for good.
        let ticket = unsafe { (self.to_self).fetch(self.at(), Width::W8, one, &raw mut old) }?;
        // SAFETY: the region's only word. The processor uses atomics on it only while the device adds.
        let word = unsafe { AtomicU64::from_ptr(self.region.base().cast()) };
        while !self.to_self.completed(ticket)? {
            if added > MOST_BESIDE {
                self.to_self.wait(ticket)?;
                break;
            }
            word.fetch_add(1, Ordering::Relaxed);
            added += 1;
        }
        Ok(added)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_loses_adds_of_the_processor_is_found() {
        let tried = |is_late| none_is_lost(&mut Model { is_late, ..RIGHT }).unwrap();
        assert!(tried(|_| false));
        assert!(!tried(|turn| turn == TRIALS));
    }

    /// A device that does something to the numbers on their way.
    struct Model {
        word: u64,
        operand: fn(u64) -> u64,
        answer: fn(u64) -> u64,
        /// Whether it swaps when the word is as expected, and when it is not.
        swaps: [bool; 2],
        /// Whether memory ever sees what it does.
        writes: bool,
        /// How often it added beside the processor, and when it had read the word before and writes it afterwards: else it
        /// is atomic.
        turn: u64,
        is_late: fn(u64) -> bool,
    }

    const RIGHT: Model = Model {
        word: 0,
        operand: |number| number,
        answer: |number| number,
        swaps: [true, false],
        writes: true,
        turn: 0,
        is_late: |_| false,
    };

    impl Model {
        fn replace(&mut self, new: u64) -> u64 {
            let old = self.word;
            if self.writes {
                self.word = new;
            }
            (self.answer)(old)
        }
    }

    impl Word for Model {
        fn fetch(&mut self, fetch: Fetch) -> Result<u64> {
            let new = match fetch {
                Fetch::Add(add) => self.word.wrapping_add((self.operand)(add)),
                Fetch::CompareSwap { expect, new } => {
                    let [equal, other] = self.swaps;
                    let is_equal = self.word == (self.operand)(expect);
                    let swaps = if is_equal { equal } else { other };
                    if swaps {
                        (self.operand)(new)
                    } else {
                        self.word
                    }
                }
            };
            Ok(self.replace(new))
        }

        fn store(&mut self, value: u64) {
            self.word = value;
        }

        fn load(&self) -> u64 {
            self.word
        }

        fn add_by_both(&mut self) -> Result<u64> {
            self.turn += 1;
            self.word += match (self.is_late)(self.turn) {
                true => 1,
                false => 4,
            };
            Ok(4)
        }
    }

    fn verdict(mut model: Model) -> Result<()> {
        judge("mlx5_7", try_out(&mut model)?)
    }

    #[test]
    fn a_device_that_does_as_it_is_told_passes() {
        verdict(RIGHT).unwrap();
    }

    #[test]
    fn answers_in_the_other_byte_order_are_found_and_shown() {
        let answers = Model {
            answer: u64::swap_bytes,
            ..RIGHT
        };
        let text = verdict(answers).unwrap_err().to_string();
        for part in ["mlx5_7", "0x807060504030201", "0x102030405060708"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn whatever_else_is_wrong_is_found() {
        let faults = [
            // Operands in the other byte order, and both.
            Model {
                operand: u64::swap_bytes,
                ..RIGHT
            },
            Model {
                operand: u64::swap_bytes,
                answer: u64::swap_bytes,
                ..RIGHT
            },
            // The new value is the answer.
            Model {
                answer: |old| old + ADD,
                ..RIGHT
            },
            Model {
                answer: |_| 0,
                ..RIGHT
            },
            // It never swaps, or always, or the wrong way round.
            Model {
                swaps: [false, false],
                ..RIGHT
            },
            Model {
                swaps: [true, true],
                ..RIGHT
            },
            Model {
                swaps: [false, true],
                ..RIGHT
            },
            // It answers from the word, and leaves it as it was.
            Model {
                writes: false,
                ..RIGHT
            },
        ];
        for (index, fault) in faults.into_iter().enumerate() {
            let found = verdict(fault);
            let broken = matches!(found, Err(Error::BrokenAtomics { .. }));
            assert!(broken, "fault {index}: {found:?}");
        }
    }

    #[test]
    fn right_answers_do_not_excuse_a_word_that_stayed() {
        let [before, sum, new, _] = WANTED;
        judge("rxe0", [before, sum, new, START]).unwrap_err();
        judge("rxe0", [before, sum, new, NEW.swap_bytes()]).unwrap_err();
    }
}
