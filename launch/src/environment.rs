//! What environment variables say, and errors that show it.

use std::borrow::Cow;
use std::ffi::OsString;
use std::time::Duration;

/// The environment says that there are other ranks, but not how to reach them.
#[derive(Debug, thiserror::Error)]
#[error("{problem} (found: {found}); {remedy}")]
#[non_exhaustive]
pub struct EnvironmentError {
    /// Which variables contradict each other, or what else is wrong.
    pub problem: Cow<'static, str>,
    /// The variables that were read, with their values.
    pub found: String,
    /// How to correct the environment.
    pub remedy: &'static str,
}

impl EnvironmentError {
    pub(crate) fn new(
        problem: impl Into<Cow<'static, str>>,
        names: &[&str],
        variable: impl Fn(&str) -> Option<OsString>,
        remedy: &'static str,
    ) -> Self {
        Self {
            problem: problem.into(),
            found: describe(names, variable),
            remedy,
        }
    }
}

pub(crate) const START_TIMEOUT: &str = "TRANSOM_START_TIMEOUT";

/// Much longer than the time between the start of the first and the last rank of a large job on a slow file system.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// How long to wait for ranks that start late. `None`: forever.
pub(crate) fn start_limit(
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<Duration>, EnvironmentError> {
    let set = seconds(
        START_TIMEOUT,
        0,
        variable,
        "TRANSOM_START_TIMEOUT is not a number of seconds",
        "set it to a whole number, to 0 to wait for ever, or unset it for 600",
    )?;
    let limit = set.unwrap_or(DEFAULT_TIMEOUT);
    Ok((!limit.is_zero()).then_some(limit))
}

pub(crate) const SURVIVORS_TIMEOUT: &str = "TRANSOM_SURVIVORS_TIMEOUT";

/// Long enough for a rank that computes, and notices a death when it next waits.
const DEFAULT_SURVIVORS_TIMEOUT: Duration = Duration::from_secs(60);

/// How long to wait for ranks that have not answered after a death.
pub(crate) fn survivors_limit(
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Duration, EnvironmentError> {
    let set = seconds(
        SURVIVORS_TIMEOUT,
        1,
        variable,
        "TRANSOM_SURVIVORS_TIMEOUT is not a number of seconds",
        "set it to a whole number from 1, or unset it for 60",
    )?;
    Ok(set.unwrap_or(DEFAULT_SURVIVORS_TIMEOUT))
}

/// A variable that is a number of seconds, at least `least`; `None` if it is unset.
fn seconds(
    name: &'static str,
    least: u32,
    variable: impl Fn(&str) -> Option<OsString>,
    problem: &'static str,
    remedy: &'static str,
) -> Result<Option<Duration>, EnvironmentError> {
    let Some(text) = variable(name) else {
        return Ok(None);
    };
    match text.to_str().and_then(|text| text.parse::<u32>().ok()) {
        Some(seconds) if seconds >= least => Ok(Some(Duration::from_secs(seconds.into()))),
        _ => Err(EnvironmentError::new(problem, &[name], variable, remedy)),
    }
}

/// Lists the variables and their values.
pub(crate) fn describe(names: &[&str], variable: impl Fn(&str) -> Option<OsString>) -> String {
    let each = names.iter().map(|name| match variable(name) {
        Some(value) => format!("{name}={value:?}"),
        None => format!("no {name}"),
    });
    each.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_in_seconds_and_has_a_default() {
        let limit = |text: Option<&str>| start_limit(|_| text.map(OsString::from));
        assert_eq!(limit(None).unwrap(), Some(DEFAULT_TIMEOUT));
        assert_eq!(limit(Some("0")).unwrap(), None);
        assert_eq!(limit(Some("7")).unwrap(), Some(Duration::from_secs(7)));
        for bad in ["", "soon", "-1", "1.5", "99999999999"] {
            let error = limit(Some(bad)).unwrap_err().to_string();
            assert!(
                error.contains(&format!("{START_TIMEOUT}={bad:?}")),
                "{error}"
            );
        }
    }

    #[test]
    fn survivors_wait_for_a_minute_unless_they_are_told() {
        let limit = |text: Option<&str>| survivors_limit(|_| text.map(OsString::from));
        assert_eq!(limit(None).unwrap(), DEFAULT_SURVIVORS_TIMEOUT);
        assert_eq!(limit(Some("1")).unwrap(), Duration::from_secs(1));
        for bad in ["", "0", "soon", "-1", "1.5", "99999999999"] {
            let error = limit(Some(bad)).unwrap_err().to_string();
            assert!(
                error.contains(&format!("{SURVIVORS_TIMEOUT}={bad:?}")),
                "{error}"
            );
        }
    }
}
