//! Histogram, index-gather, and a random permutation.

use transom::{Communicator, Op};
use transom_collections::{DistArray, Distribution, Result};

use crate::random::{Random, mix};
use crate::{Done, check, sum, sum_before, timed};

/// No dart has hit this place.
const NOBODY: u64 = u64::MAX;

/// So many darts are thrown before this rank looks what they hit.
const DARTS: usize = 1 << 14;

fn indices(comm: &Communicator, elements: usize) -> Vec<usize> {
    let mut random = Random::of(comm.rank());
    let all = elements * comm.size() as usize;
    (0..elements).map(|_| random.below(all)).collect()
}

pub(crate) fn histogram(comm: &Communicator, elements: usize) -> Result<Done> {
    let all = elements * comm.size() as usize;
    let mut table = DistArray::<u64>::new(comm, all, Distribution::Cyclic)?;
    let (indices, ones) = (indices(comm, elements), vec![1; elements]);

    let ((), seconds) = timed(comm, || table.accumulate_indexed(Op::Sum, &indices, &ones))?;

    let (rank, ranks) = (comm.rank() as usize, comm.size() as usize);
    let is_right = table.with_own(|own| {
        for other in 0..comm.size() {
            let mut random = Random::of(other);
            for _ in 0..elements {
                let index = random.below(all);
                if index % ranks == rank {
                    own[index / ranks] = own[index / ranks].wrapping_sub(1);
                }
            }
        }
        own.iter().all(|&count| count == 0)
    })?;
    check(comm, is_right, "a count")?;
    table.free()?;
    Ok(Done {
        operations: all as u64,
        seconds,
    })
}

pub(crate) fn gather(comm: &Communicator, elements: usize) -> Result<Done> {
    let all = elements * comm.size() as usize;
    let table = DistArray::from_fn(comm, all, Distribution::Cyclic, |index| mix(index as u64))?;
    let indices = indices(comm, elements);
    let mut found = vec![0; elements];

    let ((), seconds) = timed(comm, || table.get_indexed_into(&indices, &mut found))?;

    let mut pairs = indices.iter().zip(&found);
    let is_right = pairs.all(|(&index, &found)| found == mix(index as u64));
    check(comm, is_right, "an element")?;
    table.free()?;
    Ok(Done {
        operations: all as u64,
        seconds,
    })
}

/// Collective. A random permutation of all numbers below `elements` times the number of ranks, and the seconds that it took.
///
/// Every number is a dart, thrown at a board of twice as many places, where it takes the place of another one, which is thrown
/// again. The darts in their order on the board are the permutation.
pub(crate) fn permute(
    comm: &Communicator,
    random: &mut Random,
    elements: usize,
) -> Result<(DistArray<u64>, f64)> {
    let (rank, ranks) = (comm.rank() as usize, comm.size() as usize);
    let places = 2 * elements * ranks;
    let mut board = DistArray::from_fn(comm, places, Distribution::Block, |_| NOBODY)?;
    let permutation = DistArray::new(comm, elements * ranks, Distribution::Block)?;
    let mut darts: Vec<u64> = (0..elements)
        .map(|dart| (dart * ranks + rank) as u64)
        .collect();

    let ((), seconds) = timed(comm, || {
        while !darts.is_empty() {
            let thrown = darts.split_off(darts.len().saturating_sub(DARTS));
            let at: Vec<usize> = thrown.iter().map(|_| random.below(places)).collect();
            let hit = board.get_accumulate_indexed(Op::Replace, &at, &thrown)?;
            darts.extend(hit.into_iter().filter(|&dart| dart != NOBODY));
        }
        let on_board: Vec<u64> =
            board.with_own(|own| own.iter().copied().filter(|&dart| dart != NOBODY).collect())?;
        let first = sum_before(comm, on_board.len() as u64)?;
        permutation.put_range(first as usize, &on_board)
    })?;
    board.free()?;
    Ok((permutation, seconds))
}

pub(crate) fn permutation(comm: &Communicator, elements: usize) -> Result<Done> {
    let (mut result, seconds) = permute(comm, &mut Random::of(comm.rank()), elements)?;
    let indices: Vec<usize> = result.own_indices().collect();
    // Each number is there once, if sums of what looks random agree.
    let mixed = |number: u64| mix(mix(number));
    let found = result.with_own(|own| {
        own.iter()
            .fold(0_u64, |sum, &dart| sum.wrapping_add(mixed(dart)))
    })?;
    let wanted = indices
        .iter()
        .fold(0_u64, |sum, &index| sum.wrapping_add(mixed(index as u64)));
    let is_right = sum(comm, found)? == sum(comm, wanted)?;
    check(comm, is_right, "an element twice")?;
    let operations = result.len() as u64;
    result.free()?;
    Ok(Done {
        operations,
        seconds,
    })
}
