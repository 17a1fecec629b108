//! The secret of a job, and the tags made with it.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

pub(super) const TAG: usize = 32;

/// The job's secret, which only its ranks know. It cannot be computed from anything that leaves the process, but a
/// short secret could be guessed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    pub(crate) fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The secret of a job without one: it is public.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// The zero byte after the purpose separates two purposes if one is a prefix of the other.
    fn mac(&self, purpose: &str, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mac = Hmac::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        let parts = [purpose.as_bytes(), &[0]]
            .into_iter()
            .chain(parts.iter().copied());
        parts.fold(mac, |mac: Hmac<Sha256>, part| mac.chain_update(part))
    }

    /// A tag over `parts` that cannot be computed without the secret. A tag for one purpose is useless for another.
    pub(crate) fn tag(&self, purpose: &str, parts: &[&[u8]]) -> [u8; TAG] {
        self.mac(purpose, parts).finalize().into_bytes().into()
    }

    /// Takes the same time whether the tag is right or not.
    pub(super) fn is_tag(&self, tag: &[u8], purpose: &str, parts: &[&[u8]]) -> bool {
        self.mac(purpose, parts).verify_slice(tag).is_ok()
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
