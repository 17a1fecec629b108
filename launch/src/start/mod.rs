//! Who started this process, and how it joins the other ranks of its job.

mod detect;
mod error;
mod told;

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use crate::bootstrap::{Alone, Bootstrap};
use crate::environment::start_limit;
use crate::pmi::Client;
use crate::pmix::Pmix;
use crate::rendezvous::Rendezvous;

use detect::{Starter, detect};
pub use error::StartError;
pub use told::several_ranks;

/// Collective. Joins the job that the environment names.
///
/// # Errors
/// The environment names other ranks, but they cannot be reached in the way that it says, or do not come.
pub fn join() -> Result<Box<dyn Bootstrap>, StartError> {
    let variable = |name: &str| std::env::var_os(name);
    Ok(match detect(variable)? {
        Starter::Alone => Box::new(Alone),
        Starter::Pmi(launcher) => Box::new(Client::join(&launcher, variable)?),
        Starter::Rendezvous(member) => Box::new(Rendezvous::meet(&member, start_limit(variable)?)?),
        Starter::Pmix => Box::new(Pmix::join(variable)?),
    })
}

/// Local. How long ranks wait for each other at the start, by `TRANSOM_START_TIMEOUT`. `None`: for ever.
///
/// # Errors
/// The variable is not a number of seconds.
pub fn limit() -> Result<Option<Duration>, StartError> {
    Ok(start_limit(|name| std::env::var_os(name))?)
}

/// Local. A value that only the ranks know, made from the job's secret, for other proofs. `None` if [`join`] does not
/// join this job by its rendezvous.
#[must_use]
pub fn secret() -> Option<[u8; 32]> {
    secret_in(|name| std::env::var_os(name))
}

/// Local. The address of this host from which it reaches the rendezvous, if the ranks meet at one on a network. Sends
/// nothing.
#[must_use]
pub fn toward_rendezvous() -> Option<IpAddr> {
    let Ok(Starter::Rendezvous(member)) = detect(|name| std::env::var_os(name)) else {
        return None;
    };
    let from = |there: SocketAddr| {
        let any: IpAddr = match there {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        // Of a socket without connections, this only chooses the route.
        socket.connect(there).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    let found = member.address.resolve().ok()?.into_iter().find_map(from)?;
    (!found.is_loopback()).then_some(found)
}

fn secret_in(variable: impl Fn(&str) -> Option<OsString>) -> Option<[u8; 32]> {
    match detect(variable) {
        Ok(Starter::Rendezvous(member)) => Some(member.secret.tag("devices", &[])),
        _ => None,
    }
}

/// Local. Whether the environment makes this process a rank of a job, even if [`join`] fails for that job. A program
/// that starts its own ranks asks this first.
#[must_use]
pub fn is_launched() -> bool {
    !matches!(detect(|name| std::env::var_os(name)), Ok(Starter::Alone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_that_of_jobs_that_meet_by_it() {
        let of = |address, secret| {
            let told = [
                ("TRANSOM_RANK", "1"),
                ("TRANSOM_SIZE", "2"),
                ("TRANSOM_RENDEZVOUS", address),
                ("TRANSOM_JOB_SECRET", secret),
            ];
            secret_in(|name| {
                let mut set = told.iter().filter(|told| !told.1.is_empty());
                Some(set.find(|told| told.0 == name)?.1.into())
            })
        };
        let ours = of("node-7:80", "correct horse");
        assert!(ours.is_some());
        assert_eq!(ours, of("node-8:80", "correct horse"));
        assert_ne!(ours, of("node-7:80", "battery staple"));
        assert_eq!(of("", "correct horse"), None, "nobody checked it");
    }
}
