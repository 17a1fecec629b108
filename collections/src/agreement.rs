//! Checks, before a collective call does its work, that all ranks make the same call.

use transom::Communicator;

use crate::{Error, Result};

/// Collective. Fails on every rank unless all ranks pass the same description of the call.
pub(crate) fn alike(comm: &Communicator, operation: &'static str, ours: &str) -> Result<()> {
    let all = comm.allgatherv(ours.as_bytes())?;
    let other = (0..)
        .zip(&all)
        .find(|(_, theirs)| *theirs != ours.as_bytes());
    match other {
        None => Ok(()),
        Some((rank, theirs)) => Err(Error::RanksDiffer {
            operation,
            ours_rank: comm.rank(),
            ours: ours.to_owned(),
            rank,
            theirs: String::from_utf8_lossy(theirs).into_owned(),
        }),
    }
}

/// A failed rank, and the text of its error.
pub(crate) struct Failed {
    pub(crate) rank: u32,
    pub(crate) message: String,
}

impl Failed {
    /// The error of the call on a rank that did not fail itself.
    pub(crate) fn during(self, operation: &'static str) -> Error {
        Error::RankFailed {
            operation,
            rank: self.rank,
            message: self.message,
        }
    }
}

/// Collective. Returns the results of all ranks, or the first failure if some ranks failed.
pub(crate) fn gather(
    comm: &Communicator,
    ours: std::result::Result<&[u8], String>,
) -> Result<std::result::Result<Vec<Vec<u8>>, Failed>> {
    let (status, bytes) = match &ours {
        Ok(bytes) => (0, *bytes),
        Err(message) => (1, message.as_bytes()),
    };
    let mut all = comm.allgatherv(&[&[status], bytes].concat())?;
    let failed = (0..).zip(&all).find(|(_, said)| said[0] != 0);
    if let Some((rank, said)) = failed {
        let message = String::from_utf8_lossy(&said[1..]).into_owned();
        return Ok(Err(Failed { rank, message }));
    }
    for said in &mut all {
        said.remove(0);
    }
    Ok(Ok(all))
}
