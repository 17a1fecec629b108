//! How the ranks of a job find each other.
//!
//! The environment says who started this process ([`crate::start`]). This determines which implementation of
//! [`Bootstrap`] joins the job. [`pmi`](crate::pmi) and [`pmix`](crate::pmix) ask the launcher that started the
//! ranks. [`rendezvous`](crate::rendezvous) connects ranks over TCP if no launcher started them together. [`Alone`]
//! is a job of one rank. The code that starts the library sees only the trait. A program that starts ranks by other
//! means provides its own [`Allgather`].
//!
//! A rank's *bootstrap record* has its device's name and address, and where its control region is. A rank that cannot
//! start sends its reason instead; then no rank starts, and all report the reason. Results are checked: the number of
//! blocks, their lengths, and this rank's own block. That the other blocks are what those ranks passed cannot be
//! checked, so `Allgather` is an unsafe trait.

use std::error::Error;
use std::fmt;

use rdma_sys_shim::BootstrapSegment;

/// An allgather among some ranks, by any means: another communication library, files, sockets.
///
/// # Safety
/// Ranks use it to tell each other where their memory is, and then access that memory. So the implementer promises,
/// for each call that returns blocks:
///
/// - There is one block for each rank, and block `r` is, byte for byte, what rank `r` passed to its own call. The calls
///   of a rank are matched in order: the first calls of all ranks go together, then the second, and so on.
/// - [`rank`](Self::rank) and [`size`](Self::size) are the same in every call. No two ranks have the same number, all
///   numbers are below the size, and all ranks name the same size.
/// - The ranks are processes of one job, or are about to become one.
///
/// An implementation that cannot keep this promise in a call fails the call instead.
///
/// ```
/// use transom_launch::{Allgather, AllgatherError};
///
/// /// One rank exchanges blocks with no other rank.
/// struct Alone;
///
/// // SAFETY: the one block is what the one rank passed.
/// unsafe impl Allgather for Alone {
///     fn rank(&self) -> u32 {
///         0
///     }
///     fn size(&self) -> u32 {
///         1
///     }
///     fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, AllgatherError> {
///         Ok(vec![mine.to_vec()])
///     }
/// }
/// # assert_eq!(Alone.allgather(b"me").unwrap(), [b"me"]);
/// ```
pub unsafe trait Allgather {
    /// Local. The number of this rank, the same in every call.
    fn rank(&self) -> u32;

    /// Local. The number of ranks, the same in every call.
    fn size(&self) -> u32;

    /// Collective. Returns what each rank passed, in the order of ranks. In one call all ranks pass the same number
    /// of bytes, at least one. It returns only after all ranks have called.
    ///
    /// # Errors
    /// Transom reports them to the program unchanged, and makes no further call.
    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, AllgatherError>;
}

/// Why an [`Allgather`] failed.
pub type AllgatherError = Box<dyn Error + Send + Sync>;

/// A job that this process has joined, and the requests to the launcher that started its ranks.
pub trait Bootstrap: Allgather + Send + Sync {
    /// Local. How the ranks found each other, for the log.
    fn name(&self) -> &'static str;

    /// Local. Whether this process needs the launcher after the start. If not, Transom drops this value as soon as the
    /// ranks know each other.
    fn has_launcher(&self) -> bool {
        false
    }

    /// Local. Whether the launcher says that all ranks run on one host. If not, the ranks compare their hosts.
    ///
    /// # Errors
    /// The launcher does not answer.
    fn is_one_host(&self) -> Result<bool, AllgatherError> {
        Ok(false)
    }

    /// Local. Has the launcher keep this rank's bootstrap record. Other ranks can ask for it after their next
    /// allgather. Returns false, on all ranks alike, if the launcher keeps no records. Then the ranks exchange them by
    /// an allgather.
    ///
    /// # Errors
    /// The launcher does not answer.
    fn publish(&self, record: &str) -> Result<bool, AllgatherError> {
        let _ = record;
        Ok(false)
    }

    /// Local. The record of a rank that the launcher keeps.
    ///
    /// # Errors
    /// There is none, or the launcher does not answer.
    fn published(&self, rank: u32) -> Result<String, AllgatherError> {
        Err(format!("nobody keeps the bootstrap record of rank {rank}").into())
    }

    /// Local. The memory in which the launcher reports that a rank has died, if it has such memory.
    fn notices(&self) -> Option<BootstrapSegment> {
        None
    }

    /// Local. Whether a rank has left the job in good order; `None` if the launcher does not say.
    fn has_left(&self, rank: u32) -> Option<bool> {
        let _ = rank;
        None
    }

    /// Local. Whether the launcher is gone.
    fn is_gone(&self) -> bool {
        false
    }

    /// Local. Asks the launcher to end the job, even if another thread is in a call. The caller then exits with `code`,
    /// or waits to be killed.
    ///
    /// # Errors
    /// The launcher is gone, or does not answer.
    fn abort(&self, code: i32, message: &str) -> Result<(), AllgatherError> {
        let _ = (code, message);
        Ok(())
    }

    /// Local. Leaves the job. Most launchers count a rank that ends without this call as failed.
    ///
    /// # Errors
    /// The launcher is gone, or does not answer.
    fn finalize(&self) -> Result<(), AllgatherError> {
        Ok(())
    }
}

/// A job of one rank.
pub struct Alone;

// SAFETY: the one block is what the one rank passed.
unsafe impl Allgather for Alone {
    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        1
    }

    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, AllgatherError> {
        Ok(vec![mine.to_vec()])
    }
}

impl Bootstrap for Alone {
    fn name(&self) -> &'static str {
        "alone"
    }

    fn is_one_host(&self) -> Result<bool, AllgatherError> {
        Ok(true)
    }
}

/// Names ranks in ascending order: `ranks 1, 3-5`.
pub(crate) struct Ranks<'a>(pub(crate) &'a [u32]);

impl fmt::Display for Ranks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.len() == 1 { "rank " } else { "ranks " })?;
        let runs = self.0.chunk_by(|a, b| a.checked_add(1) == Some(*b));
        for (place, run) in runs.enumerate() {
            let comma = if place > 0 { ", " } else { "" };
            match run {
                [one] => write!(f, "{comma}{one}")?,
                [first, second] => write!(f, "{comma}{first}, {second}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_named_by_runs() {
        let named = |ranks: &[u32]| Ranks(ranks).to_string();
        assert_eq!(named(&[4]), "rank 4");
        assert_eq!(named(&[0, 1, 3]), "ranks 0, 1, 3");
        assert_eq!(named(&[1, 3, 4, 5, u32::MAX]), "ranks 1, 3-5, 4294967295");
    }
}
