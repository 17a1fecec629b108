//! The messages' parser, for `crate::fuzzing`.

use super::message::Message;
use super::wire::seal;

pub(crate) fn message(bytes: &[u8]) {
    if let Some(message) = Message::decode(bytes) {
        let again = message.encode();
        let back = Message::decode(&again).expect("its own encoding");
        assert_eq!(back.encode(), again);
    }
}

pub(crate) fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    seal(&mut bytes);
    bytes
}

/// Valid messages and addresses, without their seals.
#[cfg(test)]
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    use super::message::Body;
    use super::{Address, Numbers, PeerId};
    use crate::rdma::Gid;
    use crate::verbs::port::{PortAddress, Transport};
    let ipv4 = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1];
    let port = PortAddress::new([ipv4, [0xfe; 16]].map(Gid::from), 7);
    let from = Address::fresh(port, Transport::RoceV2, "rxe0").expect("random numbers");
    let numbers = Numbers {
        qpn: 17,
        psn: 99,
        responder_resources: 16,
        mtu: 3,
        max_message: 1 << 31,
    };
    let heard = Some(18);
    let bodies = [
        Body::Request { numbers, heard },
        Body::Reply { numbers, heard: 18 },
        Body::refusal("out of memory"),
        Body::Goodbye,
        Body::Farewell { leaving: true },
        Body::Busy,
    ];
    let unsealed = |mut bytes: Vec<u8>| {
        bytes.truncate(bytes.len() - 4);
        bytes
    };
    let messages = bodies.map(|body| Message {
        to: (PeerId(1), from.secret),
        from: from.clone(),
        body,
    });
    let mut seeds: Vec<_> = messages.iter().map(|m| unsealed(m.encode())).collect();
    seeds.push(unsealed(from.encode()));
    seeds
}
