//! What moves the bytes of a communicator's collectives.

use super::blocks::RankBlocks;
use super::call::Call;
use crate::error::Result;

/// The collectives on bytes: over pipes, or over an allgather of the caller. No call follows a failed one.
pub(super) trait Carrier: Send {
    /// Collective. Begins a call, which every rank of the team must begin alike. If ranks differ, or one reports by
    /// `fit` that its own arguments are wrong, it fails on all ranks before anything is sent. If all ranks refuse
    /// alike, the communicator remains usable.
    fn begin(&mut self, operation: &'static str, call: Call, fit: Result<()>) -> Result<()>;

    /// Copies `root`'s bytes to all.
    fn bcast(&mut self, bytes: &mut [u8], root: u32) -> Result<()>;

    /// `lens` are the lengths by rank. The root gets all bytes in the order of ranks.
    fn gather(&mut self, mine: &[u8], lens: &[usize], root: u32) -> Result<Vec<u8>>;

    /// The same, on every rank.
    fn allgather(&mut self, mine: &[u8], lens: &[usize]) -> Result<Vec<u8>>;

    /// Delivers each block to its receiver. A rank passes at most one block for each receiver. Returns the blocks for
    /// this rank, in any order.
    fn alltoall(&mut self, blocks: RankBlocks) -> Result<RankBlocks>;

    /// `combine` folds received values into the local one. At the root, `bytes` is the result.
    fn reduce(
        &mut self,
        bytes: &mut [u8],
        root: u32,
        combine: &mut dyn FnMut(&mut [u8], &[u8]),
    ) -> Result<()>;

    /// `merge` folds received values into the local one, in any order and some of them twice. On every rank, `bytes` is
    /// the result.
    fn merge(&mut self, bytes: &mut [u8], merge: &mut dyn FnMut(&mut [u8], &[u8])) -> Result<()>;
}
