//! A second thread of this rank's, which takes part in long copies: whether there may be one, and where it runs.

use std::sync::Arc;

use rdma_sys_shim::{Error, SecondThread, StartThread};
use transom_launch::oversubscription;

use super::start;
use crate::error::Result;

const VARIABLE: &str = "TRANSOM_SECOND_THREAD";

/// Whether the environment allows it.
///
/// # Errors
/// The variable says something else.
pub(super) fn is_wanted() -> Result<bool> {
    parse(std::env::var_os(VARIABLE).map(|value| value.to_string_lossy().into_owned()))
}

fn parse(value: Option<String>) -> Result<bool> {
    match value.as_deref() {
        None | Some("" | "on") => Ok(true),
        Some("off") => Ok(false),
        Some(other) => Err(Error::BadWord {
            name: VARIABLE,
            value: other.to_owned(),
            known: "on, off",
        }
        .into()),
    }
}

/// Gives leave for it, if there is a second processor.
pub(super) fn allow() -> Option<SecondThread> {
    how_it_starts().map(SecondThread::allow)
}

fn how_it_starts() -> Option<StartThread> {
    // Later, or in another thread, this process may be bound.
    let anywhere = oversubscription::allowed_to(launcher_with_more_processors().unwrap_or(0));
    if anywhere.len() < 2 {
        return None;
    }
    Some(Arc::new(move |start| {
        // Bound as the calling thread is, it would come to another processor only when that one sleeps.
        let anywhere = oversubscription::run_at(&anywhere);
        start();
        if let Err(error) = anywhere {
            tracing::debug!(%error, "the second thread stays where the first is bound");
        }
    }))
}

/// The launcher, if it has bound this process to a core without having been told to, and nobody has bound it elsewhere
/// since: then its other threads may leave that.
fn launcher_with_more_processors() -> Option<u32> {
    let bound = std::env::var("TRANSOM_BOUND").ok()?;
    (bound == oversubscription::processors())
        .then(start::launcher_process)
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_needs_a_second_processor() {
        assert_eq!(
            how_it_starts().is_some(),
            oversubscription::allowed_to(0).len() > 1
        );
        let first = oversubscription::allowed_to(0)[..1].to_vec();
        let bound = std::thread::spawn(move || {
            let _bound = oversubscription::run_at(&first).unwrap();
            how_it_starts().is_none()
        });
        assert!(bound.join().unwrap());
    }

    #[test]
    fn the_variable_says_on_or_off() {
        let said = |value: &str| parse(Some(value.to_owned()));
        assert!(parse(None).unwrap() && said("").unwrap() && said("on").unwrap());
        assert!(!said("off").unwrap());
        let message = said("of").unwrap_err().to_string();
        assert!(
            message.contains("TRANSOM_SECOND_THREAD=\"of\" is none of: on, off"),
            "{message}"
        );
    }
}
