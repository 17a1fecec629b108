//! `NAME[:PORT[:GID]]`, as `--device` and `TRANSOM_DEVICE` take it.

use std::str::FromStr;

use super::{SelectError, Subject};

/// The requested RDMA device, and optionally its port and GID, which then override the rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// The device's name; `None` (written as an empty name, or as `verbs`) leaves it to the rule.
    pub name: Option<String>,
    /// The port's number; `None` (left out or empty) leaves it to the rule.
    pub port: Option<u8>,
    /// The index in the port's GID table; `None` leaves it to the rule.
    pub gid_index: Option<u8>,
}

/// The name that stands for any RDMA device that the rule finds.
const ANY: &str = "verbs";

impl FromStr for Selector {
    type Err = SelectError;

    fn from_str(spec: &str) -> Result<Self, SelectError> {
        let malformed = |reason: String| {
            let form = "the form is NAME[:PORT[:GID]], as in rxe0 or rxe0:1:3";
            SelectError::new(
                Subject::Request,
                format!("device {spec:?}: {reason}"),
                Some(form.to_owned()),
            )
        };
        let mut parts = spec.split(':');
        let name = parts.next().unwrap_or("");
        if name.contains(|c: char| c.is_whitespace() || c.is_control() || c == '/') {
            return Err(malformed(format!("{name:?} cannot be a device's name")));
        }
        let port = match parts.next() {
            None | Some("") => None,
            Some(text) => match text.parse() {
                Ok(0) | Err(_) => {
                    let reason = format!("port {text:?} is not a number from 1 to 255");
                    return Err(malformed(reason));
                }
                Ok(number) => Some(number),
            },
        };
        let gid_index = match parts.next() {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| {
                malformed(format!("GID index {text:?} is not a number from 0 to 255"))
            })?),
        };
        match parts.next() {
            Some(_) => Err(malformed("there are more than three parts".to_owned())),
            None => Ok(Self {
                name: (!matches!(name, "" | ANY)).then(|| name.to_owned()),
                port,
                gid_index,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_parsed() {
        let selector = |name: Option<&str>, port, gid_index| Selector {
            name: name.map(str::to_owned),
            port,
            gid_index,
        };
        for (spec, expected) in [
            ("", selector(None, None, None)),
            ("verbs", selector(None, None, None)),
            ("rxe0", selector(Some("rxe0"), None, None)),
            ("rxe0:1", selector(Some("rxe0"), Some(1), None)),
            ("rxe0:", selector(Some("rxe0"), None, None)),
            ("rxe0:2:3", selector(Some("rxe0"), Some(2), Some(3))),
            ("rxe0::0", selector(Some("rxe0"), None, Some(0))),
            (":2", selector(None, Some(2), None)),
            ("verbs:2", selector(None, Some(2), None)),
        ] {
            assert_eq!(spec.parse(), Ok(expected), "{spec:?}");
        }
    }

    #[test]
    fn malformed_text_is_refused_with_the_part_and_the_form() {
        for (spec, part) in [
            ("rxe0:x", "port \"x\" is not a number from 1 to 255"),
            ("rxe0:0", "port \"0\""),
            ("rxe0:256", "port \"256\""),
            ("rxe0:-1", "port \"-1\""),
            ("rxe0:1:", "GID index \"\" is not a number from 0 to 255"),
            ("rxe0:1:256", "GID index \"256\""),
            ("rxe0:1:fe80", "GID index \"fe80\""),
            ("rxe0:1:2:3", "more than three parts"),
            ("../rxe0", "\"../rxe0\" cannot be a device's name"),
            ("rxe 0", "\"rxe 0\" cannot be"),
        ] {
            let error = spec.parse::<Selector>().unwrap_err().to_string();
            assert!(error.contains(&format!("{spec:?}")), "{error}");
            assert!(error.contains(part), "{error}");
            assert!(error.contains("NAME[:PORT[:GID]]"), "{error}");
        }
    }
}
