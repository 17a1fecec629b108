//! Ranks that no launcher started together meet over TCP: rank 0 listens at an address that all ranks know, and the
//! others connect to it.
//!
//! Ranks prove to each other that they know the job's secret (`handshake`, `rdma_sys_shim::proof`). After that nobody else can change what
//! they send (`channel`), but whoever sees their packets can read it. `register` records which ranks have come. These
//! three do not use sockets. `center` is rank 0, and `spoke` is any other rank. `newcomers` are connections to rank 0
//! that have not proved yet that they know the secret. After the proof, a connection is a `line`.
//!
//! In each allgather a rank sends one block, and rank 0 answers when it has the blocks of all ranks. If the start
//! fails, rank 0 tells all ranks that have come why (`fault`).
//!
//! After the proof, a wrong claim comes from a rank of the job. If a number is claimed twice, a size differs, or a rank
//! leaves, the start fails for all ranks. A wrong secret may come from anybody, so the start goes on: rank 0 tells that
//! process, and keeps its address for the error about missing ranks. Before rank 0 closes a connection it sends the
//! fault and reads what has arrived, since the kernel would discard the fault otherwise. The other ranks wait longer
//! than rank 0, which alone knows which ranks are missing.

mod address;
mod center;
mod channel;
mod error;
mod fault;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod handshake;
mod line;
mod newcomers;
mod register;
mod spoke;

use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub use address::Address;
pub use error::RendezvousError;
pub use fault::Fault;
pub use rdma_sys_shim::proof::Secret;

use crate::bootstrap::{Allgather, AllgatherError, Bootstrap};
use center::Center;
use spoke::Spoke;

/// A rank that waits for this long prints which ranks it waits for.
const REMIND_AFTER: Duration = Duration::from_secs(15);

/// How often a rank looks whether those that it waits for have ended.
const LOOK: Duration = Duration::from_millis(100);

/// The other ranks wait for this much longer than rank 0 does, because only rank 0 knows which ranks are missing.
const GRACE: Duration = Duration::from_secs(30);

/// The largest number of ranks that can meet: rank 0 needs a descriptor for each.
pub(crate) const MAX_RANKS: u32 = 65_536;

/// This rank's number, and where it meets the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) address: Address,
    pub(crate) secret: Secret,
    /// The environment variable that limits the wait, for errors.
    pub(crate) limited_by: &'static str,
}

/// The ranks of a job, which have met.
pub struct Rendezvous {
    rank: u32,
    size: u32,
    way: Mutex<Way>,
}

enum Way {
    Center(Center),
    Spoke(Spoke),
}

impl Rendezvous {
    /// Collective. Returns when all ranks have come. `limit` is how long to wait for ranks, here and in each allgather;
    /// `None` is forever.
    ///
    /// # Errors
    /// Ranks never came, or do not belong together; or rank 0 cannot listen at the address, or cannot be reached there.
    pub fn meet(member: &Member, limit: Option<Duration>) -> Result<Self, RendezvousError> {
        let stays = |_| false;
        let way = match member.rank {
            0 => {
                let listeners = member.address.listen()?;
                Way::Center(Center::meet(member, listeners, limit, &stays)?)
            }
            _ => Way::Spoke(Spoke::meet(member, limit, &stays)?),
        };
        Ok(Self::by(member, way))
    }

    /// Collective. As [`Self::meet`], for rank 0, which listens already. `limit`: how long to wait for ranks, and `later`:
    /// in each allgather at least. `is_gone`: whether another rank is known to have ended.
    pub(crate) fn host(
        member: &Member,
        listener: TcpListener,
        limit: Duration,
        later: Duration,
        is_gone: &dyn Fn(u32) -> bool,
    ) -> Result<Self, RendezvousError> {
        let mut center = Center::meet(member, vec![listener], Some(limit), is_gone)?;
        center.limit = Some(limit.max(later));
        Ok(Self::by(member, Way::Center(center)))
    }

    /// Collective. As [`Self::host`], for the other ranks.
    pub(crate) fn visit(
        member: &Member,
        limit: Duration,
        later: Duration,
        is_gone: &dyn Fn(u32) -> bool,
    ) -> Result<Self, RendezvousError> {
        let mut spoke = Spoke::meet(member, Some(limit), is_gone)?;
        spoke.limit = Some(limit.max(later));
        Ok(Self::by(member, Way::Spoke(spoke)))
    }

    fn by(member: &Member, way: Way) -> Self {
        Self {
            rank: member.rank,
            size: member.size,
            way: Mutex::new(way),
        }
    }

    fn gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, RendezvousError> {
        let all = mine.len().checked_mul(self.size as usize);
        if all.is_none_or(|all| u32::try_from(all).is_err()) {
            let (len, size) = (mine.len(), self.size);
            return Err(RendezvousError::TooLong { len, size });
        }
        match &mut *self.way.lock().unwrap_or_else(PoisonError::into_inner) {
            Way::Center(center) => center.allgather(mine),
            Way::Spoke(spoke) => spoke.allgather(mine),
        }
    }
}

// SAFETY: for each call rank 0 takes one block of each rank, from the connection on which that rank proved who it is,
// and sends all blocks in the order of ranks. Messages of a connection are numbered and authenticated, so none is lost,
// repeated or changed. If a rank comes twice, or with another size, the start ends for all ranks.
unsafe impl Allgather for Rendezvous {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, AllgatherError> {
        Ok(self.gather(mine)?)
    }
}

impl Bootstrap for Rendezvous {
    fn name(&self) -> &'static str {
        "rendezvous"
    }
}
