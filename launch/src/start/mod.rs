//! Who started this process, and how it meets the other ranks of its job.

mod detect;
mod error;

use crate::environment::start_limit;
use crate::pmi::Client;
use crate::pmix::Pmix;
use crate::rendezvous::Rendezvous;

use detect::{Starter, detect};
pub use error::StartError;

/// How this process has joined its job.
pub enum Joined {
    /// A job of one rank: nobody started it together with others.
    Alone,
    /// A launcher that speaks PMI-1.1.
    Pmi(Client),
    /// A launcher that offers PMIx.
    Pmix(Pmix),
    /// Ranks that met over TCP.
    Rendezvous(Rendezvous),
}

/// Collective. Joins the job that the environment names.
///
/// # Errors
/// The environment names other ranks that cannot be reached by what it says, or that do not come.
pub fn join() -> Result<Joined, StartError> {
    let variable = |name: &str| std::env::var_os(name);
    Ok(match detect(variable)? {
        Starter::Alone => Joined::Alone,
        Starter::Pmi(launcher) => Joined::Pmi(Client::join(&launcher, variable)?),
        Starter::Rendezvous(member) => {
            let limit = start_limit(variable)?;
            Joined::Rendezvous(Rendezvous::meet(&member, limit)?)
        }
        Starter::Pmix => Joined::Pmix(Pmix::join(variable)?),
    })
}

/// Local. Whether [`join`] finds other ranks in the environment, or a launcher of one, usable or not.
pub(crate) fn is_launched() -> bool {
    !matches!(detect(|name| std::env::var_os(name)), Ok(Starter::Alone))
}
