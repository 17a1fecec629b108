//! Merging: combines a value of every rank into one value of the same length, in as many rounds as an
//! allgather takes.
//!
//! In round k, a rank sends to the rank 2^k ahead the merged value of the 2^k ranks that end with itself. A merge does
//! not depend on the order, and may include a rank twice, so the same rounds work for any number of ranks.

use bytemuck::{Pod, Zeroable};

use super::call::Call;
use super::{Communicator, InCollective, to_elements};
use crate::datatype::Element;
use crate::error::{Error, ErrorClass, Result};

/// The header of each message: the lowest rank that failed, and the class of its error.
#[derive(Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct Failed {
    rank: u32,
    class: u32,
}

const NO_RANK: u32 = u32::MAX;
const VALUE_AT: usize = size_of::<Failed>();

/// Bytes of a message that merges values of this type.
pub(crate) const fn merge_bytes<T>() -> u64 {
    (VALUE_AT + size_of::<T>()) as u64
}

/// The result on all ranks, in a call that continues.
pub(crate) struct Merged<'c, T> {
    pub(crate) value: T,
    comm: &'c Communicator,
    operation: &'static str,
    carrier: InCollective<'c>,
}

impl Communicator {
    /// Collective. Merges a value of every rank, or fails on every rank if it failed on one. `merge` must be
    /// associative, commutative and idempotent: values arrive in any order, and more than once.
    pub(crate) fn merge_on<T: Element>(
        &self,
        operation: &'static str,
        mine: std::result::Result<T, &Error>,
        merge: impl Fn(T, T) -> T,
    ) -> Result<Merged<'_, T>> {
        let failed = match &mine {
            Ok(_) => Failed {
                rank: NO_RANK,
                class: 0,
            },
            Err(error) => Failed {
                rank: self.rank(),
                class: error.class() as u32,
            },
        };
        let value = mine.as_ref().map_or_else(|_| T::zeroed(), |value| *value);
        let own = [bytemuck::bytes_of(&failed), bytemuck::bytes_of(&value)].concat();
        let mut combine = |held: &mut [u8], came: &[u8]| merge_messages(held, came, &merge);
        let mut all = own.clone();
        let mut carrier = self.begin(operation, Call::new(operation), Ok(()))?;
        carrier.merge(&mut all, &mut combine)?;
        // Other ranks forward this rank's message.
        let mut again = all.clone();
        combine(&mut again, &own);
        let (failed, value) = parts::<T>(&all);
        if again != all || (failed.rank != NO_RANK && failed.rank >= self.size()) {
            let what = "what another rank passed on as the value";
            return Err(self.garbled(operation, self.rank(), what));
        }
        if failed.rank == NO_RANK {
            return Ok(Merged {
                value,
                comm: self,
                operation,
                carrier,
            });
        }
        drop(carrier);
        let class = ErrorClass::from_code(failed.class as u8);
        let words = mine.err().map(ToString::to_string);
        Err(self.explain(operation, failed.rank, class, words))
    }
}

impl<T> Merged<'_, T> {
    /// Collective. Gathers a value of each rank in the same call, if the merged value tells all ranks to do so.
    pub(crate) fn gather<U: Element>(&mut self, mine: U) -> Result<Vec<U>> {
        let comm = self.comm;
        let mine = bytemuck::bytes_of(&mine);
        let lens = vec![mine.len(); comm.size() as usize];
        let all = self.carrier.allgather(mine, &lens)?;
        if all.chunks_exact(mine.len()).nth(comm.rank() as usize) != Some(mine) {
            let what = "what another rank passed on as the block";
            return Err(comm.garbled(self.operation, comm.rank(), what));
        }
        Ok(to_elements(&all))
    }
}

fn parts<T: Element>(message: &[u8]) -> (Failed, T) {
    let (failed, value) = message.split_at(VALUE_AT);
    (
        bytemuck::pod_read_unaligned(failed),
        bytemuck::pod_read_unaligned(value),
    )
}

/// If ranks failed, the lowest one counts. Values count only if no rank failed.
fn merge_messages<T: Element>(held: &mut [u8], came: &[u8], merge: &impl Fn(T, T) -> T) {
    let ((held_failed, here), (came_failed, there)) = (parts::<T>(held), parts::<T>(came));
    if came_failed.rank < held_failed.rank {
        held.copy_from_slice(came);
    } else if held_failed.rank == NO_RANK {
        let value = merge(here, there);
        held[VALUE_AT..].copy_from_slice(bytemuck::bytes_of(&value));
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::error::Misuse;
    use crate::peers::ranks_on_hosts;
    use crate::wait::Patience;

    /// What each rank finds, where ranks are placed so: all numbers as bits, and numbers gathered in the same call.
    fn merged(
        hosts: &[u32],
        fails: fn(u32) -> bool,
    ) -> Vec<std::result::Result<(u64, Vec<u64>), String>> {
        let ranks = ranks_on_hosts("soft", hosts, Patience::suspicious());
        let call = |context| {
            let world = Communicator::world(context);
            let rank = world.rank();
            let unit = u64::from(rank);
            let error = Error::new("test", Misuse::BadUnit { unit });
            let mine = if fails(rank) {
                Err(&error)
            } else {
                Ok(1_u64 << rank)
            };
            let found = world.merge_on("test", mine, |a, b| a | b);
            let found = found.and_then(|mut found| Ok((found.value, found.gather(unit)?)));
            found.map_err(|error| error.to_string())
        };
        thread::scope(|scope| {
            let threads = ranks.iter().map(|rank| scope.spawn(move || call(rank)));
            let threads: Vec<_> = threads.collect();
            threads.into_iter().map(|one| one.join().unwrap()).collect()
        })
    }

    #[test]
    fn every_rank_gets_what_all_have_however_they_are_placed() {
        for hosts in [
            &[0][..],
            &[0, 0],
            &[0, 0, 0],
            &[0, 0, 0, 0, 0, 0, 0],
            &[0, 1, 2, 3, 4],
            &[0, 1, 0, 1, 1],
            &[0, 1, 2, 2, 1, 2, 0],
        ] {
            let count = hosts.len() as u64;
            let all = ((1 << count) - 1, (0..count).collect());
            for found in merged(hosts, |_| false) {
                assert_eq!(found.as_ref(), Ok(&all), "{hosts:?}");
            }
        }
    }

    #[test]
    fn the_lowest_rank_that_failed_is_named_on_all() {
        for hosts in [&[0, 0, 0, 0, 0][..], &[0, 1, 0, 1, 1]] {
            for found in merged(hosts, |rank| rank == 2 || rank == 4) {
                let error = found.unwrap_err();
                assert!(
                    error.contains("rank 2") && error.contains("unit"),
                    "{error}"
                );
            }
        }
    }
}
