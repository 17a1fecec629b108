//! The host's world: whether it has begun, and the ranks that the host connects.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use transom::lower::{Allgather, AllgatherError};

use crate::constants;
use crate::host::{self, HostError, check};
use crate::mpi_h::MPI_Comm;

/// Some ranks that the host connects.
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

    pub(crate) fn count(&self) -> usize {
        self.size as usize
    }

    /// The bytes that each rank passed, one after the other.
    pub(crate) fn allgather_bytes(&self, mine: &[u8]) -> std::result::Result<Vec<u8>, HostError> {
        let len = c_int::try_from(mine.len()).map_err(|_| HostError(0))?;
        let mut all = vec![0; mine.len() * self.size as usize];
        let byte = constants::byte();
        // SAFETY: each rank passes `len` bytes, and there is room for `size` times as many.
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

// SAFETY: `MPI_Allgather` stores the block of the communicator's rank `r` at place `r` on each rank, and matches the
// collectives of one communicator in their order. A host that does not do so violates MPI.
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

/// Call it when the host has begun its world.
pub(crate) fn begins() {
    HAS_WORLD.store(true, Ordering::Relaxed);
}

/// Call it when the program has begun a session, which need not have a world.
pub(crate) fn session_begins() {
    HAS_SESSION.store(true, Ordering::Relaxed);
}

/// Whether this library has seen the program begin a world or a session.
pub(crate) fn was_begun_here() -> bool {
    HAS_WORLD.load(Ordering::Relaxed) || HAS_SESSION.load(Ordering::Relaxed)
}

/// Whether the host's world has begun and not ended. In Intel MPI, a session also counts.
pub(crate) fn has_begun() -> bool {
    let mut has_ended = 0;
    // SAFETY: a local.
    unsafe { host::PMPI_Finalized(&raw mut has_ended) };
    if has_ended != 0 {
        return false;
    }
    if was_begun_here() {
        return HAS_WORLD.load(Ordering::Relaxed);
    }
    let mut flag = 0;
    // SAFETY: a local.
    unsafe { host::PMPI_Initialized(&raw mut flag) };
    flag != 0
}

/// This process's rank in the host's world.
pub(crate) fn rank() -> u32 {
    Ranks::of(constants::comm_world()).map_or(0, |ranks| ranks.rank)
}

/// The beginning of messages about this process: its rank in the host's world, if there is one.
pub(crate) fn name() -> String {
    match has_begun() {
        true => format!("rank {}: ", rank()),
        false => String::new(),
    }
}
