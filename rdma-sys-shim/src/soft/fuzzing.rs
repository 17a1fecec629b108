//! The soft provider's parsers, for `crate::fuzzing`.

use super::Options;
use super::address::Address;

pub(crate) fn options(text: &str) {
    let _ = Options::parse(text);
}

pub(crate) fn address(bytes: &[u8]) {
    if let Ok(address) = Address::decode(bytes) {
        let again = Address::decode(&address.encode());
        assert_eq!(again.ok(), Some(address));
    }
}

/// An address that some process could have published.
#[cfg(test)]
pub(crate) fn an_address() -> Vec<u8> {
    let options = Options::parse("").expect("no options");
    let device = super::SoftDevice::open(options, None).expect("soft");
    crate::Device::address(&device)
}
