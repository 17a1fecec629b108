//! Why a process cannot join the job that its environment names.

use crate::bootstrap::AllgatherError;
use crate::environment::EnvironmentError;
use crate::pmi::PmiError;
use crate::pmix::PmixError;
use crate::rendezvous::RendezvousError;

/// A process cannot join its job.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The environment says that there are other ranks, but not how to reach them.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// The launcher's key-value service failed.
    #[error(transparent)]
    Pmi(#[from] PmiError),
    /// The launcher offers PMIx, but PMIx failed.
    #[error(transparent)]
    Pmix(#[from] PmixError),
    /// The ranks did not meet over TCP.
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
}

impl StartError {
    /// The error, if it is of a [`Bootstrap`](crate::Bootstrap) of this crate.
    ///
    /// # Errors
    /// The error is of another kind, and is returned unchanged.
    pub fn of(error: AllgatherError) -> Result<Self, AllgatherError> {
        let error = match error.downcast::<PmiError>() {
            Ok(error) => return Ok(Self::Pmi(*error)),
            Err(other) => other,
        };
        let error = match error.downcast::<PmixError>() {
            Ok(error) => return Ok(Self::Pmix(*error)),
            Err(other) => other,
        };
        Ok(Self::Rendezvous(*error.downcast::<RendezvousError>()?))
    }
}
