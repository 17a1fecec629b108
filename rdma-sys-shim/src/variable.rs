//! Variables of the environment.

use std::env;

/// Local. The value of a variable; `None` if it is not set or empty. Bytes that are not UTF-8 are replaced, so that whoever
/// parses the value refuses it.
#[must_use]
pub fn variable(name: &str) -> Option<String> {
    let value = env::var_os(name).filter(|value| !value.is_empty())?;
    Some(value.to_string_lossy().into_owned())
}
