//! The verbs provider's parsers, for `crate::fuzzing`.

use super::connect::{Address, Message};

pub(crate) fn message(bytes: &[u8]) {
    if let Ok(address) = Address::decode(bytes) {
        let back = Address::decode(&address.encode()).expect("its own encoding");
        assert_eq!(back.encode(), address.encode());
    }
    let mut held = bytes.to_vec();
    while let Ok(Some(message)) = Message::take(&mut held) {
        let back = Message::take(&mut message.encode()).expect("its own encoding");
        assert_eq!(back.map(|back| back.encode()), Some(message.encode()));
    }
}

/// Valid messages and addresses.
#[cfg(test)]
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let all = super::connect::messages();
    all.iter().map(Message::encode).collect()
}
