//! What only the ranks of a job know, and what is made of it.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

pub(super) const TAG: usize = 32;

/// The job's secret. It leaves the process in no form from which it could be had back, but by guessing
/// it; so a long random one is as good as none that can be guessed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    pub(crate) fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// Known to everybody.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    fn begin(&self) -> Hmac<Sha256> {
        begin(&self.0)
    }

    /// What nobody can say of `parts` who does not know the secret. What is said for one purpose says
    /// nothing of another.
    pub(super) fn tag(&self, purpose: &str, parts: &[&[u8]]) -> [u8; TAG] {
        let mut mac = self.begin();
        feed(&mut mac, purpose, parts);
        mac.finalize().into_bytes().into()
    }

    /// Takes as long whether or not it is right.
    pub(super) fn is_tag(&self, tag: &[u8], purpose: &str, parts: &[&[u8]]) -> bool {
        let mut mac = self.begin();
        feed(&mut mac, purpose, parts);
        mac.verify_slice(tag).is_ok()
    }
}

fn begin(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

/// No purpose is the beginning of another with its zero.
fn feed(mac: &mut Hmac<Sha256>, purpose: &str, parts: &[&[u8]]) {
    mac.update(purpose.as_bytes());
    mac.update(&[0]);
    for part in parts {
        mac.update(part);
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_differ_by_secret_purpose_and_what_is_said() {
        let ours = Secret::new("correct horse");
        let tag = ours.tag("greeting", &[b"hello"]);
        assert!(ours.is_tag(&tag, "greeting", &[b"hel", b"lo"]));
        assert!(!ours.is_tag(&tag, "greetings", &[b"hello"]));
        assert!(!ours.is_tag(&tag, "greeting", &[b"hallo"]));
        assert!(!ours.is_tag(&tag[..31], "greeting", &[b"hello"]));
        assert!(!Secret::none().is_tag(&tag, "greeting", &[b"hello"]));
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", Secret::new("correct horse")), "Secret");
    }
}
