//! How often is asked, and how long is waited.

use std::time::Duration;

use super::DEVICE;
use crate::{Error, Result};

const VARIABLE: &str = "TRANSOM_CONNECT_TIMEOUT";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    /// How long a peer may take to answer.
    pub(crate) timeout: Duration,
    /// When a message is repeated first; the time doubles up to `longest_pause`. Each is drawn from
    /// around that, so that those who began together do not go on together.
    pub(crate) first_pause: Duration,
    pub(crate) longest_pause: Duration,
    /// The same to a peer that has said that it is busy.
    pub(crate) busy_pause: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            first_pause: Duration::from_millis(5),
            longest_pause: Duration::from_millis(200),
            busy_pause: Duration::from_secs(1),
        }
    }
}

impl Timing {
    /// As the environment variable `TRANSOM_CONNECT_TIMEOUT` says, in seconds.
    ///
    /// # Errors
    /// It is not a number from 0.001 to 86,400.
    pub(crate) fn from_environment() -> Result<Self> {
        match std::env::var(VARIABLE) {
            Ok(text) => Self::parse(&text),
            Err(std::env::VarError::NotPresent) => Ok(Self::default()),
            Err(std::env::VarError::NotUnicode(text)) => Self::parse(&text.to_string_lossy()),
        }
    }

    fn parse(text: &str) -> Result<Self> {
        match text.trim().parse() {
            Ok(seconds) if (0.001..=86_400.0).contains(&seconds) => Ok(Self {
                timeout: Duration::from_secs_f64(seconds),
                ..Self::default()
            }),
            _ => Err(Error::BadOption {
                device: DEVICE,
                option: format!("{VARIABLE}={text}"),
                known: "TRANSOM_CONNECT_TIMEOUT=SECONDS, from 0.001 to 86400",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_parsed_and_nonsense_is_named() {
        let timeout = |text| Timing::parse(text).map(|timing| timing.timeout);
        assert_eq!(timeout("2.5").unwrap(), Duration::from_millis(2500));
        assert_eq!(timeout(" 30 ").unwrap(), Duration::from_secs(30));
        for bad in ["", "soon", "0", "-1", "NaN", "inf", "1e9"] {
            let error = timeout(bad).unwrap_err().to_string();
            assert!(error.contains(VARIABLE), "{error}");
        }
    }
}
