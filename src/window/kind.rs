//! What a window says of itself (MPI-4.1, section 12.2.6).

use super::Window;
use crate::comm::Group;
use crate::error::Result;
use crate::terms::Flavor;

/// How a rank's own loads and stores go together with its peers' accesses (MPI-4.1, section 12.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryModel {
    /// There is one copy of the memory: what a peer stored is seen by loads without further calls,
    /// and the other way round.
    Unified,
}

impl Window {
    /// Local. This rank's own memory; null for a size of 0 (but in a contiguous shared window, where it
    /// is the end of the rank before), and in a dynamic window (MPI-4.1,
    /// section 12.2.6, `MPI_WIN_BASE`).
    ///
    /// Peers may write there while an epoch allows them to: access it by the rules of MPI-4.1,
    /// section 12.7, and through raw pointers.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Local. Size of this rank's memory in bytes; 0 in a dynamic window (MPI-4.1, section 12.2.6,
    /// `MPI_WIN_SIZE`).
    #[must_use]
    pub fn size(&self) -> u64 {
        self.known_size(self.team.rank)
    }

    /// Local. This rank's displacement unit in bytes (MPI-4.1, section 12.2.6,
    /// `MPI_WIN_DISP_UNIT`).
    #[must_use]
    pub fn disp_unit(&self) -> u64 {
        self.columns.unit.get(self.team.rank)
    }

    /// Local. Which call made the window (MPI-4.1, section 12.2.6, `MPI_WIN_CREATE_FLAVOR`).
    #[must_use]
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// Local. Always [`MemoryModel::Unified`] (MPI-4.1, section 12.2.6, `MPI_WIN_MODEL`): peers'
    /// accesses take place in the very memory that this rank loads from and stores to. Where it is
    /// mapped, that is one page under several addresses; RDMA devices write to memory coherently
    /// with the processor's caches.
    #[must_use]
    pub fn model(&self) -> MemoryModel {
        MemoryModel::Unified
    }

    /// Local. This process's rank in the window's communicator.
    #[must_use]
    #[inline]
    pub fn rank(&self) -> u32 {
        self.team.rank
    }

    /// Local. How many ranks the window's communicator has.
    #[must_use]
    #[inline]
    pub fn ranks(&self) -> u32 {
        self.team.size()
    }

    /// Local. The ranks of the window (MPI-4.1, section 12.2.6, `MPI_Win_get_group`).
    #[must_use]
    pub fn group(&self) -> &Group {
        &self.team.group
    }

    /// Local. Size in bytes of another rank's memory; 0 in a dynamic window.
    ///
    /// # Errors
    /// `rank` is not a rank of the window.
    pub fn size_of(&self, rank: u32) -> Result<u64> {
        self.team.check_rank("size_of", rank)?;
        Ok(self.known_size(rank))
    }

    /// Local. Another rank's displacement unit in bytes.
    ///
    /// # Errors
    /// `rank` is not a rank of the window.
    pub fn disp_unit_of(&self, rank: u32) -> Result<u64> {
        self.team.check_rank("disp_unit_of", rank)?;
        Ok(self.columns.unit.get(rank))
    }

    fn known_size(&self, rank: u32) -> u64 {
        match self.flavor {
            Flavor::Dynamic => 0,
            _ => self.columns.size.get(rank),
        }
    }
}
