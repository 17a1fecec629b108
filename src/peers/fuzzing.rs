//! The parser of what other ranks send, for `crate::fuzzing`.

use super::peer::Card;

pub(crate) fn card(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Some(card) = Card::decode(text) {
        let again = card.encode();
        let back = Card::decode(&again).expect("its own encoding");
        assert_eq!((&back.address, back.control), (&card.address, card.control));
        assert_eq!(back.encode(), again);
    }
}

#[cfg(all(test, not(loom)))]
pub(crate) fn a_card() -> Vec<u8> {
    let control = rdma_sys_shim::RemoteRegion {
        address: 4096,
        len: 1 << 24,
        rkey: 17,
    };
    let card = Card {
        device: "rxe0".to_owned(),
        address: vec![0, 255, 7],
        control,
    };
    card.encode().into_bytes()
}
