//! Who started this process, and how it joins the other ranks of its job.

mod detect;
mod error;

use crate::bootstrap::{Alone, Bootstrap};
use crate::environment::start_limit;
use crate::pmi::Client;
use crate::pmix::Pmix;
use crate::rendezvous::Rendezvous;

use detect::{Starter, detect};
pub use error::StartError;

/// Collective. Joins the job that the environment names.
///
/// # Errors
/// The environment names other ranks that cannot be reached by what it says, or that do not come.
pub fn join() -> Result<Box<dyn Bootstrap>, StartError> {
    let variable = |name: &str| std::env::var_os(name);
    Ok(match detect(variable)? {
        Starter::Alone => Box::new(Alone),
        Starter::Pmi(launcher) => Box::new(Client::join(&launcher, variable)?),
        Starter::Rendezvous(member) => Box::new(Rendezvous::meet(&member, start_limit(variable)?)?),
        Starter::Pmix => Box::new(Pmix::join(variable)?),
    })
}

/// Local. Whether [`join`] finds other ranks in the environment, or a launcher of one, usable or not.
pub(crate) fn is_launched() -> bool {
    !matches!(detect(|name| std::env::var_os(name)), Ok(Starter::Alone))
}
