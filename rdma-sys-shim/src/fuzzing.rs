//! What parses outside input, for fuzzers: each function takes any bytes, and panics if the parser
//! breaks a promise. `fuzz/` calls them under cargo-fuzz; the test below does on every run.

use crate::rdma::Selector;
use crate::{soft, tcp};

/// A device name, as for `--device`.
pub fn device_name(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let _ = crate::is_automatic(text);
    soft::fuzzing::options(text);
    if let Ok(selector) = text.parse::<Selector>() {
        let name = selector.name.unwrap_or_default();
        assert!(
            text.starts_with(&name) && !name.contains(['/', ':']),
            "{text:?}"
        );
        assert_ne!(selector.port, Some(0), "{text:?}");
    }
}

/// The address of a peer's soft device.
pub fn soft_address(bytes: &[u8]) {
    soft::fuzzing::address(bytes);
}

/// The address of a peer's tcp device, and input from connections: of strangers, of origins, of targets.
pub fn tcp(bytes: &[u8]) {
    tcp::fuzzing::record(bytes);
    tcp::fuzzing::greeting(bytes);
    tcp::fuzzing::requests(bytes);
    tcp::fuzzing::answers(bytes);
}

/// The address of a peer's verbs device, and the messages by which queue pairs find each other.
#[cfg(feature = "verbs")]
pub fn connect_message(bytes: &[u8]) {
    crate::verbs::fuzzing::message(bytes);
}

#[cfg(test)]
mod tests {
    use proptest::proptest;
    use transom_testing::fuzzing::{any_bytes, damaged};

    use super::*;

    fn all(bytes: &[u8]) {
        device_name(bytes);
        soft_address(bytes);
        self::tcp(bytes);
        #[cfg(feature = "verbs")]
        connect_message(bytes);
    }

    /// Valid input, to be damaged.
    fn seeds() -> Vec<Vec<u8>> {
        let mut seeds = vec![
            b"soft:cma=off,map=on".to_vec(),
            b"map=off,cma=off".to_vec(),
            b"mlx5_0:1:3".to_vec(),
            b"verbs::2".to_vec(),
            soft::fuzzing::an_address(),
        ];
        seeds.extend(tcp::fuzzing::seeds());
        #[cfg(feature = "verbs")]
        seeds.extend(crate::verbs::fuzzing::seeds());
        // A length of its own, or none.
        seeds.push(Vec::new());
        seeds
    }

    #[test]
    fn valid_input_passes() {
        seeds().iter().for_each(|seed| all(seed));
    }

    proptest! {
        #[test]
        fn any_bytes_pass(bytes in any_bytes(300)) {
            all(&bytes);
        }

        #[test]
        fn damaged_input_passes(bytes in damaged(seeds())) {
            all(&bytes);
        }
    }
}
