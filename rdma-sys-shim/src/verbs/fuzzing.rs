//! The verbs provider's parsers, for `crate::fuzzing`.

use super::connect::{Address, fuzzing};

pub(crate) fn message(bytes: &[u8]) {
    // Fuzzers find no checksum: what stands behind it is tried too.
    for bytes in [bytes.to_vec(), fuzzing::sealed(bytes)] {
        fuzzing::message(&bytes);
        if let Ok(address) = Address::decode(&bytes) {
            let again = address.encode();
            let back = Address::decode(&again).expect("its own encoding");
            assert_eq!(back.encode(), again);
        }
    }
}

/// Valid messages and addresses, without their seals.
#[cfg(test)]
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    fuzzing::seeds()
}
