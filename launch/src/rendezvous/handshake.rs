//! How two ranks prove to each other that they know the job's secret, without sending it.
//!
//! The guest is any rank but 0, and the host is rank 0. The guest sends its rank and a nonce, and the host sends
//! another nonce. Then the guest proves by a tag over both messages that it knows the secret, and after it the host
//! does the same. So a stranger who connects to the host gets nothing with which to test guesses of the secret.
//!
//! ```text
//! guest: MAGIC rank size nonce
//! host:  MAGIC nonce
//! guest: tag
//! host:  1 tag, or 0 and zeros: another secret
//! ```
//!
//! All messages have fixed lengths, and neither side stores more than them of the other. This file uses no sockets: the
//! guest reads and writes any stream, and the host is given bytes as they arrive.

use std::io::{self, Read, Write};

use super::channel::Channel;
use super::secret::{Secret, TAG};

/// The last byte is the version of the protocol. Sides with different versions refuse each other.
pub(super) const MAGIC: [u8; 16] = *b"transom meeting\x02";
const UNVERSIONED: usize = MAGIC.len() - 1;

pub(super) const VERSION: u8 = MAGIC[UNVERSIONED];

pub(super) type Nonce = [u8; 32];

const HELLO: usize = 56;
const CHALLENGE: usize = 48;
const ANSWER: usize = 1 + TAG;

const WELCOME: u8 = 1;
const OTHER_SECRET: u8 = 0;

const GUEST: &str = "guest";
const HOST: &str = "host";

/// A process's claim of who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) rank: u32,
    pub(super) size: u32,
}

/// The key for messages to rank 0 and the key for messages from it, made from all that both sides sent before any
/// proof.
fn keys(secret: &Secret, said: &[u8]) -> [Secret; 2] {
    ["to rank 0", "from rank 0"].map(|purpose| Secret::new(secret.tag(purpose, &[said])))
}

/// Why a side refuses the other.
#[derive(Debug)]
pub(super) enum Refused {
    /// It speaks another protocol. These are its first bytes.
    Stranger(Vec<u8>),
    /// It speaks another version of this protocol.
    Version(u8),
    /// It has another secret.
    Secret,
    /// The connection fails.
    Io(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Fails as soon as the received bytes cannot be the beginning of a message.
fn check_magic(received: &[u8]) -> Result<(), Refused> {
    let common = received.len().min(UNVERSIONED);
    if received[..common] != MAGIC[..common] {
        return Err(Refused::Stranger(
            received[..received.len().min(16)].to_vec(),
        ));
    }
    match received.get(UNVERSIONED) {
        Some(&version) if version != VERSION => Err(Refused::Version(version)),
        _ => Ok(()),
    }
}

/// The guest's side.
pub(super) fn greet(
    stream: &mut (impl Read + Write),
    claim: Claim,
    secret: &Secret,
    nonce: &Nonce,
) -> Result<Channel, Refused> {
    let mut hello = [0; HELLO];
    hello[..16].copy_from_slice(&MAGIC);
    hello[16..20].copy_from_slice(&claim.rank.to_le_bytes());
    hello[20..24].copy_from_slice(&claim.size.to_le_bytes());
    hello[24..].copy_from_slice(nonce);
    stream.write_all(&hello)?;

    let (mut challenge, mut len) = ([0; CHALLENGE], 0);
    while len < CHALLENGE {
        match stream.read(&mut challenge[len..]) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(more) => len += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        check_magic(&challenge[..len])?;
    }
    let said = [&hello[..], &challenge].concat();
    stream.write_all(&secret.tag(GUEST, &[&said]))?;

    let mut answer = [0; ANSWER];
    stream.read_exact(&mut answer)?;
    if answer[0] != WELCOME || !secret.is_tag(&answer[1..], HOST, &[&said]) {
        return Err(Refused::Secret);
    }
    let [up, down] = keys(secret, &said);
    Ok(Channel::new(up, down))
}

/// The host's side of one connection.
pub(super) struct Host {
    secret: Secret,
    challenge: [u8; CHALLENGE],
    received: Vec<u8>,
    /// The guest's first message, once it has arrived.
    hello: Option<[u8; HELLO]>,
}

/// What the host does next.
pub(super) enum HostStep {
    /// Receive more.
    Receive,
    /// Send this, and receive more.
    Send([u8; CHALLENGE]),
    /// Send this: the guest knows the secret, and makes this claim.
    Admit(Vec<u8>, Claim, Channel),
    /// Send this, and close the connection. A guest with another secret has made this claim.
    Refuse(Vec<u8>, Refused, Option<Claim>),
}

impl Host {
    pub(super) fn new(secret: Secret, nonce: &Nonce) -> Self {
        let mut challenge = [0; CHALLENGE];
        challenge[..16].copy_from_slice(&MAGIC);
        challenge[16..].copy_from_slice(nonce);
        Self {
            secret,
            challenge,
            received: Vec::new(),
            hello: None,
        }
    }

    /// The most bytes that may be received next.
    pub(super) fn wants(&self) -> usize {
        let expected = if self.hello.is_none() { HELLO } else { TAG };
        expected - self.received.len()
    }

    /// Takes at most as many bytes as it [wants](Self::wants).
    pub(super) fn receive(&mut self, bytes: &[u8]) -> HostStep {
        self.received.extend_from_slice(bytes);
        let Some(hello) = &self.hello else {
            if let Err(refused) = check_magic(&self.received) {
                let answer = match refused {
                    // This shows the guest that the versions differ.
                    Refused::Version(_) => self.challenge.to_vec(),
                    _ => Vec::new(),
                };
                return HostStep::Refuse(answer, refused, None);
            }
            self.hello = self.received[..].try_into().ok();
            if self.hello.is_none() {
                return HostStep::Receive;
            }
            self.received.clear();
            return HostStep::Send(self.challenge);
        };
        if self.received.len() < TAG {
            return HostStep::Receive;
        }
        let word = |at: usize| {
            let bytes = hello[at..at + 4].try_into();
            u32::from_le_bytes(bytes.expect("four bytes"))
        };
        let claim = Claim {
            rank: word(16),
            size: word(20),
        };
        let said = [&hello[..], &self.challenge].concat();
        if !self.secret.is_tag(&self.received, GUEST, &[&said]) {
            let mut answer = vec![OTHER_SECRET];
            answer.resize(ANSWER, 0);
            return HostStep::Refuse(answer, Refused::Secret, Some(claim));
        }
        let mut answer = vec![WELCOME];
        answer.extend(self.secret.tag(HOST, &[&said]));
        let [up, down] = keys(&self.secret, &said);
        HostStep::Admit(answer, claim, Channel::new(down, up))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rendezvous::channel::Message;

    const CLAIM: Claim = Claim { rank: 3, size: 7 };

    /// Connects the two sides: after the guest has written enough, it can read the host's answer, byte by byte.
    struct Between {
        host: Host,
        to_guest: Vec<u8>,
        /// How the host's part ended.
        ended: Option<HostStep>,
        /// Changes the bytes that the host receives.
        tamper: fn(&mut [u8]),
    }

    impl Between {
        fn new(secret: &str) -> Self {
            Self {
                host: Host::new(Secret::new(secret), &[2; 32]),
                to_guest: Vec::new(),
                ended: None,
                tamper: |_| {},
            }
        }
    }

    impl Read for Between {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            if self.to_guest.is_empty() {
                return Ok(0);
            }
            room[0] = self.to_guest.remove(0);
            Ok(1)
        }
    }

    impl Write for Between {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            assert_eq!(self.host.wants(), bytes.len());
            let mut bytes = bytes.to_vec();
            (self.tamper)(&mut bytes);
            match self.host.receive(&bytes) {
                HostStep::Receive => panic!("all is there"),
                HostStep::Send(challenge) => self.to_guest.extend(challenge),
                step => {
                    if let HostStep::Admit(answer, ..) | HostStep::Refuse(answer, ..) = &step {
                        self.to_guest.extend(answer);
                    }
                    self.ended = Some(step);
                }
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn greets(between: &mut (impl Read + Write), secret: &str) -> Result<Channel, Refused> {
        greet(between, CLAIM, &Secret::new(secret), &[1; 32])
    }

    #[test]
    fn those_who_know_the_secret_meet() {
        let mut between = Between::new("secret");
        let mut theirs = greets(&mut between, "secret").ok().unwrap();
        let Some(HostStep::Admit(_, CLAIM, mut ours)) = between.ended else {
            panic!("not admitted")
        };
        for (from, to) in [(0, 1), (1, 0)] {
            let ends = [&mut ours, &mut theirs];
            let sealed = ends[from].seal(&Message::Block(b"word".to_vec()));
            ends[to].push(&sealed);
            assert_eq!(
                ends[to].next(100).unwrap(),
                Some(Message::Block(b"word".to_vec()))
            );
        }
    }

    #[test]
    fn both_are_told_that_the_secrets_differ() {
        let mut between = Between::new("secret");
        let told = greets(&mut between, "another").err();
        assert!(matches!(told, Some(Refused::Secret)), "{told:?}");
        let Some(HostStep::Refuse(_, Refused::Secret, Some(CLAIM))) = between.ended else {
            panic!("not refused")
        };
    }

    /// Sends given bytes, whatever it receives.
    struct Listener<'a>(&'a [u8]);

    impl Read for Listener<'_> {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            self.0.read(room)
        }
    }

    impl Write for Listener<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A listener that has the port but not the secret.
    #[test]
    fn a_guest_believes_no_host_without_the_secret() {
        let says = [&MAGIC[..], &[9; 32], &[WELCOME], &[7; TAG]].concat();
        let told = greets(&mut Listener(&says), "secret").err();
        assert!(matches!(told, Some(Refused::Secret)), "{told:?}");
    }

    /// A guest's proof is worth nothing for another name, or at another time.
    #[test]
    fn a_proof_is_of_one_rank_and_one_meeting() {
        let tampers: [fn(&mut [u8]); 3] = [
            |bytes| {
                if bytes.len() == HELLO {
                    bytes[16] = 4;
                }
            },
            |bytes| {
                if bytes.len() == HELLO {
                    bytes[20] = 8;
                }
            },
            |bytes| {
                if bytes.len() == HELLO {
                    bytes[24] += 1;
                }
            },
        ];
        for tamper in tampers {
            let mut between = Between::new("secret");
            between.tamper = tamper;
            assert!(greets(&mut between, "secret").is_err());
            let Some(HostStep::Refuse(_, Refused::Secret, Some(_))) = between.ended else {
                panic!("not refused")
            };
        }
        // From an earlier meeting, in which the host's nonce was another.
        let mut between = Between::new("secret");
        let (mut hello, mut proof) = (Vec::new(), Vec::new());
        let mut guest = Recorder(&mut between, &mut hello, &mut proof);
        assert!(greets(&mut guest, "secret").is_ok());
        let mut host = Host::new(Secret::new("secret"), &[3; 32]);
        host.receive(&hello);
        assert!(matches!(
            host.receive(&proof),
            HostStep::Refuse(_, Refused::Secret, Some(CLAIM))
        ));
    }

    /// Records what a guest sends.
    struct Recorder<'a>(&'a mut Between, &'a mut Vec<u8>, &'a mut Vec<u8>);

    impl Read for Recorder<'_> {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            self.0.read(room)
        }
    }

    impl Write for Recorder<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let said = if self.1.is_empty() {
                &mut self.1
            } else {
                &mut self.2
            };
            said.extend(bytes);
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn strangers_are_known_by_their_first_bytes() {
        let mut host = Host::new(Secret::none(), &[0; 32]);
        assert!(matches!(
            host.receive(b"GET / HTTP/1.1\r\n"),
            HostStep::Refuse(answer, Refused::Stranger(_), None) if answer.is_empty()
        ));
        let refused = greets(&mut Listener(b"tranquil"), "").err();
        assert!(
            matches!(&refused, Some(Refused::Stranger(begins)) if begins == b"tranquil"),
            "{refused:?}"
        );
        let cut = greets(&mut Listener(b"tran"), "").err();
        assert!(matches!(cut, Some(Refused::Io(_))), "{cut:?}");
    }

    #[test]
    fn both_are_told_that_the_versions_differ() {
        let mut later = MAGIC;
        later[UNVERSIONED] += 1;
        let mut host = Host::new(Secret::none(), &[0; 32]);
        let HostStep::Refuse(answer, Refused::Version(version), None) = host.receive(&later) else {
            panic!("not refused")
        };
        assert_eq!(version, VERSION + 1);
        // The guest sees this host's version.
        assert_eq!(answer[..16], MAGIC);
        let refused = greets(&mut Listener(&later), "").err();
        assert!(matches!(refused, Some(Refused::Version(version)) if version == VERSION + 1));
    }
}
