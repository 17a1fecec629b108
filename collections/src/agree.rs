//! What all ranks have to say alike.

use transom::Communicator;

use crate::error::{Error, Result};

/// Collective. Fails on every rank if one passes other numbers, which `show` puts into words.
pub(crate) fn agree<const N: usize>(
    comm: &Communicator,
    operation: &'static str,
    mine: [usize; N],
    show: impl Fn([usize; N]) -> String,
) -> Result<()> {
    let all = comm.allgather(&mine.map(|number| number as u64))?;
    let of =
        |rank: usize| -> [usize; N] { std::array::from_fn(|index| all[rank * N + index] as usize) };
    let other = (1..comm.size() as usize).find(|&rank| of(rank) != of(0));
    match other {
        None => Ok(()),
        Some(rank) => Err(Error::RanksDiffer {
            operation,
            ours_rank: 0,
            ours: show(of(0)),
            rank: rank as u32,
            theirs: show(of(rank)),
        }),
    }
}
