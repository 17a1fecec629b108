//! Of which ranks this one has a pointer to their memory.

use std::collections::BTreeSet;

use super::Window;
use crate::memory::rank_set::RankSet;

impl Window {
    /// Notes that this rank may load from and store to the memory of `rank`.
    pub(super) fn give_away(&self, rank: u32) {
        let ranks = self.handed_out.get_or_init(|| RankSet::new(self.ranks()));
        ranks.add(rank);
    }

    /// Whether this rank may load from and store to memory of another, in windows not of
    /// `allocate_shared`.
    #[inline]
    pub(crate) fn has_handed_out(&self) -> bool {
        self.handed_out.get().is_some()
    }

    /// Whose memory that is, and this rank, in their order.
    pub(crate) fn handed_out_and_own(&self) -> BTreeSet<u32> {
        let ranks = self.handed_out.get().into_iter().flat_map(RankSet::iter);
        ranks.chain([self.rank()]).collect()
    }
}
