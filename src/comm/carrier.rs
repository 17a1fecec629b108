//! What moves the bytes of a communicator's collectives.

use super::blocks::RankBlocks;
use super::call::Call;
use crate::error::Result;

/// The collectives on bytes: over pipes, or over an allgather of the caller's. After a failed call, none is made any
/// more.
pub(super) trait Carrier: Send {
    /// Collective. Begins a call, which every rank of the team has to begin alike: fails on all of them, and before
    /// anything is sent, if one does not, or if it says of its own arguments that they do not `fit`. Where all are
    /// refused alike, all go on.
    fn begin(&mut self, operation: &'static str, call: Call, fit: Result<()>) -> Result<()>;

    /// Copies `root`'s bytes to all.
    fn bcast(&mut self, bytes: &mut [u8], root: u32) -> Result<()>;

    /// `lens` are the lengths by rank; at the root, returns all bytes in the order of ranks.
    fn gather(&mut self, mine: &[u8], lens: &[usize], root: u32) -> Result<Vec<u8>>;

    /// The same, on every rank.
    fn allgather(&mut self, mine: &[u8], lens: &[usize]) -> Result<Vec<u8>>;

    /// Takes each block to the rank that it is for. Each rank passes at most one for each. Returns those for this
    /// rank, in no order.
    fn alltoall(&mut self, blocks: RankBlocks) -> Result<RankBlocks>;

    /// `combine` folds what arrives into what is held. At the root, `bytes` is the result.
    fn reduce(
        &mut self,
        bytes: &mut [u8],
        root: u32,
        combine: &mut dyn FnMut(&mut [u8], &[u8]),
    ) -> Result<()>;

    /// `merge` folds what arrives into what is held, in any order, and some of it again. On every rank, `bytes` is the
    /// result.
    fn merge(&mut self, bytes: &mut [u8], merge: &mut dyn FnMut(&mut [u8], &[u8])) -> Result<()>;
}
