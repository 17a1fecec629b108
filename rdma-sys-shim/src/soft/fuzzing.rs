//! The soft provider's parsers, for `crate::fuzzing`.

use super::Options;
use super::address::Address;

pub(crate) fn options(text: &str) {
    let _ = Options::parse(text);
    #[cfg(feature = "adversarial")]
    let _ = super::adversarial::AdversarialOptions::parse(text);
}

pub(crate) fn address(bytes: &[u8]) {
    if let Ok(address) = Address::decode(bytes) {
        let again = Address::decode(&address.encode());
        assert_eq!(again.ok(), Some(address));
    }
}

/// One that some process could have published.
#[cfg(test)]
pub(crate) fn an_address() -> Vec<u8> {
    let device = crate::open("soft", &crate::Surroundings::default()).expect("soft");
    device.address()
}
