//! Variables of the environment.

use std::env;
use std::ffi::OsString;

/// Local. The value of a variable; `None` if it is not set or empty. Bytes that are not UTF-8 are replaced, so that whoever
/// parses the value refuses it.
#[must_use]
pub fn variable(name: &str) -> Option<String> {
    text(env::var_os(name))
}

fn text(value: Option<OsString>) -> Option<String> {
    let value = value.filter(|value| !value.is_empty())?;
    Some(value.to_string_lossy().into_owned())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn an_empty_variable_is_not_set_and_what_is_not_text_is_kept() {
        assert_eq!(text(None), None);
        assert_eq!(text(Some("".into())), None);
        assert_eq!(text(Some("agent".into())).unwrap(), "agent");
        assert_eq!(
            text(Some(OsString::from_vec(vec![b'1', 0xff]))).unwrap(),
            "1\u{fffd}"
        );
    }
}
