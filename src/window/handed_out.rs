//! Of which ranks this one has a pointer to their memory.

use std::collections::BTreeSet;

use super::Window;
use crate::memory::rank_set::RankSet;

impl Window {
    /// Records that this rank may load from and store to the memory of `rank`.
    pub(super) fn give_away(&self, rank: u32) {
        let ranks = self.handed_out.get_or_init(|| RankSet::new(self.ranks()));
        ranks.add(rank);
    }

    /// Whether this rank may load from and store to another rank's memory, in windows that
    /// `allocate_shared` did not make.
    #[inline]
    pub(crate) fn has_handed_out(&self) -> bool {
        self.handed_out.get().is_some()
    }

    /// The owners of that memory and this rank, in the order of ranks.
    pub(crate) fn handed_out_and_own(&self) -> BTreeSet<u32> {
        let ranks = self.handed_out.get().into_iter().flat_map(RankSet::iter);
        ranks.chain([self.rank()]).collect()
    }
}
