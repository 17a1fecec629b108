//! The host's world: whether it has begun, and the ranks that the host joins.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use transom::lower::{Allgather, AllgatherError};

use crate::constants;
use crate::host::{self, HostError, check};
use crate::mpi_h::MPI_Comm;

/// Some ranks that the host joins.
pub(crate) struct Ranks {
    comm: MPI_Comm,
    rank: u32,
    size: u32,
}

impl Ranks {
    /// The processes of a communicator, in its order.
    pub(crate) fn of(comm: MPI_Comm) -> std::result::Result<Self, HostError> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: both are locals, and the host checks the handle.
        unsafe {
            check(host::PMPI_Comm_rank(comm, &raw mut rank))?;
            check(host::PMPI_Comm_size(comm, &raw mut size))?;
        }
        Ok(Self {
            comm,
            rank: rank.unsigned_abs(),
            size: size.unsigned_abs(),
        })
    }

    pub(crate) fn is_one(&self) -> bool {
        self.size == 1
    }

    /// What each passed, one after the other.
    pub(crate) fn allgather_bytes(&self, mine: &[u8]) -> std::result::Result<Vec<u8>, HostError> {
        let len = c_int::try_from(mine.len()).map_err(|_| HostError(0))?;
        let mut all = vec![0; mine.len() * self.size as usize];
        let byte = constants::byte();
        // SAFETY: each rank has `len` bytes, for which there is room `size` times.
        check(unsafe {
            host::PMPI_Allgather(
                mine.as_ptr().cast(),
                len,
                byte,
                all.as_mut_ptr().cast(),
                len,
                byte,
                self.comm,
            )
        })?;
        Ok(all)
    }
}

// SAFETY: `MPI_Allgather` puts what rank `r` of the communicator sends at place `r` of what each receives, and the
// collectives of one communicator go together in their order. A host that breaks this breaks MPI.
unsafe impl Allgather for Ranks {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn allgather(&self, mine: &[u8]) -> std::result::Result<Vec<Vec<u8>>, AllgatherError> {
        let all = self.allgather_bytes(mine).map_err(HostError::text)?;
        Ok(all.chunks(mine.len()).map(<[u8]>::to_vec).collect())
    }
}

static HAS_WORLD: AtomicBool = AtomicBool::new(false);
static HAS_SESSION: AtomicBool = AtomicBool::new(false);

/// The host has begun its world.
pub(crate) fn begins() {
    HAS_WORLD.store(true, Ordering::Relaxed);
}

/// The program has begun a session, which need not have a world.
pub(crate) fn session_begins() {
    HAS_SESSION.store(true, Ordering::Relaxed);
}

/// Whether the host has its world, which it has no more once it has ended. In Intel MPI, sessions count as if they had.
pub(crate) fn has_begun() -> bool {
    let mut has_ended = 0;
    // SAFETY: a local.
    unsafe { host::PMPI_Finalized(&raw mut has_ended) };
    if has_ended != 0 {
        return false;
    }
    if HAS_WORLD.load(Ordering::Relaxed) || HAS_SESSION.load(Ordering::Relaxed) {
        return HAS_WORLD.load(Ordering::Relaxed);
    }
    let mut flag = 0;
    // SAFETY: a local.
    unsafe { host::PMPI_Initialized(&raw mut flag) };
    flag != 0
}

/// Which rank of the host's world this is.
pub(crate) fn rank() -> u32 {
    Ranks::of(constants::comm_world()).map_or(0, |ranks| ranks.rank)
}

/// What sentences about this process begin with: its rank in the host's world, while there is one.
pub(crate) fn name() -> String {
    match has_begun() {
        true => format!("rank {}: ", rank()),
        false => String::new(),
    }
}
