//! A meeting of ranks that nobody started together: rank 0 listens at an address that all know, and the
//! others come to it over TCP.
//!
//! Ranks prove to each other that they know the job's secret (`handshake`), and what they say then cannot
//! be changed by others (`channel`); it can be read by whoever sees their packets. Who has come is kept
//! by `register`. These three know of no socket. `center` is rank 0 and `spoke` any other. `newcomers` are
//! connections to rank 0 until they have proven themselves, and each rank's is a `line` from then on.
//!
//! A rank says one block in each allgather; rank 0 answers when all have. Where no job comes of it, rank 0 tells all
//! that have come why (`fault`).

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
mod secret;
mod spoke;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub use address::Address;
pub use error::RendezvousError;
pub use fault::Fault;
pub use secret::Secret;

use crate::bootstrap::{Allgather, AllgatherError, Bootstrap};
use center::Center;
use spoke::Spoke;

/// After so long, a rank says for whom it still waits.
const REMIND_AFTER: Duration = Duration::from_secs(15);

/// For how much longer than rank 0 the others wait: it knows who is missing.
const GRACE: Duration = Duration::from_secs(30);

/// The most ranks that can meet: rank 0 has a descriptor for each, and all hear of all.
pub(crate) const MAX_RANKS: u32 = 65_536;

/// Who this rank is, and where the others are met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) address: Address,
    pub(crate) secret: Secret,
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
    /// Collective. Returns once all ranks have come. `limit`: for how long ranks are waited for, here and
    /// in each allgather; `None`: for ever.
    ///
    /// # Errors
    /// Ranks never came, or do not belong together; rank 0 cannot listen at the address, or cannot be
    /// reached there.
    pub fn meet(member: &Member, limit: Option<Duration>) -> Result<Self, RendezvousError> {
        let way = match member.rank {
            0 => Way::Center(Center::meet(member, limit)?),
            _ => Way::Spoke(Spoke::meet(member, limit)?),
        };
        Ok(Self {
            rank: member.rank,
            size: member.size,
            way: Mutex::new(way),
        })
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

// SAFETY: rank 0 takes one block of each rank for each call, from the connection on which that rank proved who it is,
// and sends all of them in the order of ranks. Messages of a connection are numbered and authenticated, so that none is
// lost, repeated or changed. A rank twice, or another size, ends the start for all.
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
