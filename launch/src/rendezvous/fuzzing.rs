//! The rendezvous' parsers, for `crate::fuzzing`.

use std::io::{self, Read, Write};

use rdma_sys_shim::proof::{Host, HostStep, Secret};

use super::address::Address;
use super::channel::{Channel, SHORT};
use super::fault::Fault;
use super::handshake::{Claim, MAGIC, greet};

/// What an unknown process sends to rank 0, in whatever pieces it arrives.
pub fn rendezvous_guest(bytes: &[u8]) {
    let (mut host, secret) = (Host::new(&MAGIC, &[1; 32]), Secret::new("secret"));
    let mut rest = bytes;
    while !rest.is_empty() {
        let wants = host.wants();
        assert!((1..=64).contains(&wants));
        let (now, later) = rest.split_at(wants.min(rest.len()));
        rest = later;
        match host.receive(&secret, now) {
            HostStep::Receive => assert!(rest.is_empty(), "wants more, and has all"),
            HostStep::Send(..) => {}
            HostStep::Admit(..) => panic!("admitted without the secret"),
            HostStep::Refuse(answer, ..) => {
                assert!(answer.len() <= 64);
                return;
            }
        }
    }
}

/// Sends these bytes, a few at a time, and reads nothing.
struct Stranger<'a> {
    says: &'a [u8],
    said: usize,
}

impl Read for Stranger<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let most = room.len().min(5);
        let len = self.says.read(&mut room[..most])?;
        self.said += len;
        Ok(len)
    }
}

impl Write for Stranger<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a process sends to a rank that looks for rank 0.
pub fn rendezvous_host(bytes: &[u8]) {
    let claim = Claim { rank: 1, size: 2 };
    let mut stranger = Stranger {
        says: bytes,
        said: 0,
    };
    let greeted = greet(&mut stranger, claim, &Secret::new("secret"), &[1; 32]);
    assert!(greeted.is_err(), "believed without the secret");
    assert!(stranger.said <= 48 + 33, "read {} bytes", stranger.said);
}

/// Messages from a sender without the keys, and the text of a fault.
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
        assert_eq!(Fault::decode(fault.encode()).as_ref(), Some(&fault));
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
