//! How long is waited for a peer.

use std::time::Duration;

use super::DEVICE;
use crate::{Error, Result};

const VARIABLE: &str = "TRANSOM_CONNECT_TIMEOUT";
const USUAL: Duration = Duration::from_secs(10);

/// How long a peer may take to answer: as the environment variable `TRANSOM_CONNECT_TIMEOUT` says, in seconds.
///
/// # Errors
/// It is not a number from 0.001 to 86,400.
pub(crate) fn timeout() -> Result<Duration> {
    match std::env::var_os(VARIABLE) {
        Some(text) => parse(&text.to_string_lossy()),
        None => Ok(USUAL),
    }
}

fn parse(text: &str) -> Result<Duration> {
    match text.trim().parse() {
        Ok(seconds) if (0.001..=86_400.0).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err(Error::BadOption {
            device: DEVICE,
            option: format!("{VARIABLE}={text}"),
            known: "TRANSOM_CONNECT_TIMEOUT=SECONDS, from 0.001 to 86400",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_parsed_and_nonsense_is_named() {
        assert_eq!(parse("2.5").unwrap(), Duration::from_millis(2500));
        assert_eq!(parse(" 30 ").unwrap(), Duration::from_secs(30));
        for bad in ["", "soon", "0", "-1", "NaN", "inf", "1e9"] {
            let error = parse(bad).unwrap_err().to_string();
            assert!(error.contains(VARIABLE), "{error}");
        }
    }
}
