//! The rendezvous' parsers, for `crate::fuzzing`.

use super::address::Address;
use super::channel::{Channel, SHORT};
use super::fault::Fault;
use super::handshake::{Claim, Guest, GuestStep, Host, HostStep};
use super::secret::Secret;

/// What a process sends to rank 0 before it is known, however it comes in.
pub fn rendezvous_guest(bytes: &[u8]) {
    let mut host = Host::new(Secret::new("secret"), [1; 32]);
    let mut rest = bytes;
    while !rest.is_empty() {
        let wants = host.wants();
        assert!((1..=64).contains(&wants));
        let (now, later) = rest.split_at(wants.min(rest.len()));
        rest = later;
        match host.receive(now) {
            HostStep::Receive => assert!(rest.is_empty(), "wants more, and has all"),
            HostStep::Send(answer) => assert!(answer.len() <= 64),
            HostStep::Admit(..) => panic!("admitted without the secret"),
            HostStep::Refuse(..) => return,
        }
    }
}

/// What somebody sends to a rank that looks for rank 0.
pub fn rendezvous_host(bytes: &[u8]) {
    let claim = Claim { rank: 1, size: 2 };
    let (mut guest, _) = Guest::new(claim, Secret::new("secret"), &[1; 32]);
    let mut rest = bytes;
    while !rest.is_empty() {
        let wants = guest.wants();
        assert!((1..=64).contains(&wants));
        let (now, later) = rest.split_at(wants.min(rest.len()));
        rest = later;
        match guest.receive(now) {
            Ok(GuestStep::Receive) => assert!(rest.is_empty(), "wants more, and has all"),
            Ok(GuestStep::Send(_)) => {}
            Ok(GuestStep::Done(_)) => panic!("believed without the secret"),
            Err(_) => return,
        }
    }
}

/// Messages of nobody who has the keys, and what one says of a fault.
pub fn rendezvous_messages(bytes: &[u8]) {
    let key = |name: &str| Secret::new(name);
    let mut channel = Channel::new(key("ours"), key("theirs"));
    for piece in bytes.chunks(11) {
        channel.push(piece);
        match channel.next(SHORT) {
            Ok(None) => {}
            Ok(Some(_)) => panic!("a message that nobody sealed"),
            Err(_) => break,
        }
    }
    if let Some(fault) = Fault::decode(bytes) {
        assert!(!fault.to_string().is_empty());
        assert_eq!(Fault::decode(&fault.encode()).as_ref(), Some(&fault));
    }
}

/// `TRANSOM_RENDEZVOUS`.
pub fn rendezvous_address(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(address) = Address::parse(text) {
        assert_ne!(address.port(), 0);
        let again = Address::parse(&address.to_string());
        assert_eq!(again.as_ref(), Ok(&address), "{text:?}");
    }
}
