//! How two processes prove to each other that they know a secret, without sending it.
//!
//! The guest is the process that connects. It sends who it is and a nonce, and the host sends another nonce. Then the
//! guest proves by a tag over both messages that it knows the secret, and after it the host does the same. So a stranger
//! that connects to the host gets nothing with which to test guesses of the secret.
//!
//! ```text
//! guest: MAGIC who nonce
//! host:  MAGIC nonce
//! guest: tag
//! host:  1 tag, or 0 and zeros: another secret
//! ```
//!
//! All messages have fixed lengths, and neither side stores more than them of the other. This file uses no sockets: the
//! guest reads and writes any stream, and the host is given bytes as they arrive.

use std::fmt;
use std::io::{self, Read, Write};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::fields::Fields;

/// Bytes of a tag.
pub const TAG: usize = 32;

/// Names the protocol that follows. The last byte is its version: sides with different versions refuse each other.
pub type Magic = [u8; 16];

/// Whom a guest says that it is, as the protocol defines it.
pub type Who = [u64; 2];

const HELLO: usize = 64;
/// The most bytes that a host wants at a time.
pub const LONGEST: usize = HELLO;
/// Bytes of the host's first message.
pub const CHALLENGE: usize = 48;
const ANSWER: usize = 1 + TAG;

const UNVERSIONED: usize = size_of::<Magic>() - 1;

const WELCOME: u8 = 1;
const OTHER_SECRET: u8 = 0;

const GUEST: &str = "guest";
const HOST: &str = "host";

/// What only the processes of a job know. It cannot be computed from anything that leaves the process, but a short
/// secret could be guessed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub(crate) Vec<u8>);

impl Secret {
    /// These bytes; no bytes are a secret that everybody knows.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The zero byte after the purpose separates two purposes if one is a prefix of the other.
    fn mac(&self, purpose: &str, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mac = Hmac::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        let parts = [purpose.as_bytes(), &[0]]
            .into_iter()
            .chain(parts.iter().copied());
        parts.fold(mac, |mac: Hmac<Sha256>, part| mac.chain_update(part))
    }

    /// A tag over `parts` that cannot be computed without the secret. A tag for one purpose is useless for another.
    #[must_use]
    pub fn tag(&self, purpose: &str, parts: &[&[u8]]) -> [u8; TAG] {
        self.mac(purpose, parts).finalize().into_bytes().into()
    }

    /// Takes the same time whether the tag is right or not.
    #[must_use]
    pub fn is_tag(&self, tag: &[u8], purpose: &str, parts: &[&[u8]]) -> bool {
        self.mac(purpose, parts).verify_slice(tag).is_ok()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Why a side refuses the other.
#[derive(Debug)]
pub enum Refused {
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
fn check_magic(magic: &[u8], received: &[u8]) -> Result<(), Refused> {
    let common = received.len().min(UNVERSIONED);
    if received[..common] != magic[..common] {
        let shown = received.len().min(size_of::<Magic>());
        return Err(Refused::Stranger(received[..shown].to_vec()));
    }
    match received.get(UNVERSIONED) {
        Some(&version) if version != magic[UNVERSIONED] => Err(Refused::Version(version)),
        _ => Ok(()),
    }
}

/// The guest's side.
pub struct Guest([u8; HELLO]);

impl Guest {
    /// `nonce` is random.
    #[must_use]
    pub fn new(magic: &Magic, [first, second]: Who, nonce: &[u8; 32]) -> Self {
        let mut hello = [0; HELLO];
        hello[..16].copy_from_slice(magic);
        hello[16..24].copy_from_slice(&first.to_le_bytes());
        hello[24..32].copy_from_slice(&second.to_le_bytes());
        hello[32..].copy_from_slice(nonce);
        Self(hello)
    }

    /// The first message.
    #[must_use]
    pub fn hello(&self) -> &[u8] {
        &self.0
    }

    /// All else, once the first message is sent. Returns what both sides have sent before any proof.
    ///
    /// # Errors
    /// The host is refused, or the stream fails.
    pub fn prove(
        &self,
        secret: &Secret,
        stream: &mut (impl Read + Write),
    ) -> Result<Vec<u8>, Refused> {
        let (mut challenge, mut len) = ([0; CHALLENGE], 0);
        while len < CHALLENGE {
            match stream.read(&mut challenge[len..]) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(more) => len += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
            check_magic(&self.0, &challenge[..len])?;
        }
        let said = [&self.0[..], &challenge].concat();
        stream.write_all(&secret.tag(GUEST, &[&said]))?;
        let mut answer = [0; ANSWER];
        stream.read_exact(&mut answer)?;
        match answer[0] == WELCOME && secret.is_tag(&answer[1..], HOST, &[&said]) {
            true => Ok(said),
            false => Err(Refused::Secret),
        }
    }
}

/// The host's side of one connection.
pub struct Host {
    challenge: [u8; CHALLENGE],
    received: Vec<u8>,
    /// The guest's first message, once it has arrived.
    hello: Option<[u8; HELLO]>,
}

/// What the host does next.
pub enum HostStep {
    /// Receive more.
    Receive,
    /// Send this to the guest that says that it is this one, and receive more.
    Send([u8; CHALLENGE], Who),
    /// Send this: the guest knows the secret. At the end is what both sides have sent before any proof.
    Admit(Vec<u8>, Who, Vec<u8>),
    /// Send this, and close the connection. A guest with another secret has said who it is.
    Refuse(Vec<u8>, Refused, Option<Who>),
}

impl Host {
    /// `nonce` is random.
    #[must_use]
    pub fn new(magic: &Magic, nonce: &[u8; 32]) -> Self {
        let mut challenge = [0; CHALLENGE];
        challenge[..16].copy_from_slice(magic);
        challenge[16..].copy_from_slice(nonce);
        Self {
            challenge,
            received: Vec::new(),
            hello: None,
        }
    }

    /// The most bytes that may be received next.
    #[must_use]
    pub fn wants(&self) -> usize {
        let expected = if self.hello.is_none() { HELLO } else { TAG };
        expected - self.received.len()
    }

    /// Takes at most as many bytes as it [wants](Self::wants).
    pub fn receive(&mut self, secret: &Secret, bytes: &[u8]) -> HostStep {
        self.received.extend_from_slice(bytes);
        let Some(hello) = &self.hello else {
            if let Err(refused) = check_magic(&self.challenge, &self.received) {
                let answer = match refused {
                    // This shows the guest that the versions differ.
                    Refused::Version(_) => self.challenge.to_vec(),
                    _ => Vec::new(),
                };
                return HostStep::Refuse(answer, refused, None);
            }
            let Ok(hello) = <[u8; HELLO]>::try_from(&self.received[..]) else {
                return HostStep::Receive;
            };
            self.hello = Some(hello);
            self.received.clear();
            return HostStep::Send(self.challenge, who(&hello));
        };
        if self.received.len() < TAG {
            return HostStep::Receive;
        }
        let (who, said) = (who(hello), [&hello[..], &self.challenge].concat());
        if !secret.is_tag(&self.received, GUEST, &[&said]) {
            let mut answer = vec![OTHER_SECRET];
            answer.resize(ANSWER, 0);
            return HostStep::Refuse(answer, Refused::Secret, Some(who));
        }
        let mut answer = vec![WELCOME];
        answer.extend(secret.tag(HOST, &[&said]));
        HostStep::Admit(answer, who, said)
    }
}

fn who(hello: &[u8; HELLO]) -> Who {
    let mut fields = Fields(&hello[size_of::<Magic>()..]);
    [(); 2].map(|()| fields.u64().expect("the message has both"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAGIC: Magic = *b"transom trials \x02";
    const VERSION: u8 = MAGIC[UNVERSIONED];
    const WHO: Who = [3, 7];

    /// Connects the two sides: after the guest has written enough, it can read the host's answer, byte by byte.
    struct Between {
        host: Host,
        secret: Secret,
        to_guest: Vec<u8>,
        /// How the host's part ended.
        ended: Option<HostStep>,
        /// Changes the bytes that the host receives.
        tamper: fn(&mut [u8]),
    }

    impl Between {
        fn new(secret: &str) -> Self {
            Self {
                host: Host::new(&MAGIC, &[2; 32]),
                secret: Secret::new(secret),
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
            match self.host.receive(&self.secret, &bytes) {
                HostStep::Receive => panic!("all is there"),
                HostStep::Send(challenge, _) => self.to_guest.extend(challenge),
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

    fn greets(between: &mut (impl Read + Write), secret: &str) -> Result<Vec<u8>, Refused> {
        let guest = Guest::new(&MAGIC, WHO, &[1; 32]);
        between.write_all(guest.hello())?;
        guest.prove(&Secret::new(secret), between)
    }

    #[test]
    fn those_who_know_the_secret_meet() {
        let mut between = Between::new("secret");
        let theirs = greets(&mut between, "secret").ok().unwrap();
        let Some(HostStep::Admit(_, WHO, ours)) = between.ended else {
            panic!("not admitted")
        };
        assert_eq!(ours, theirs);
    }

    #[test]
    fn both_are_told_that_the_secrets_differ() {
        let mut between = Between::new("secret");
        let told = greets(&mut between, "another").err();
        assert!(matches!(told, Some(Refused::Secret)), "{told:?}");
        let Some(HostStep::Refuse(_, Refused::Secret, Some(WHO))) = between.ended else {
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
    fn a_proof_is_of_one_process_and_one_meeting() {
        let tampers: [fn(&mut [u8]); 3] = [
            |bytes| {
                if bytes.len() == HELLO {
                    bytes[16] = 4;
                }
            },
            |bytes| {
                if bytes.len() == HELLO {
                    bytes[24] = 8;
                }
            },
            |bytes| {
                if bytes.len() == HELLO {
                    bytes[32] += 1;
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
        let (mut host, secret) = (Host::new(&MAGIC, &[3; 32]), Secret::new("secret"));
        host.receive(&secret, &hello);
        assert!(matches!(
            host.receive(&secret, &proof),
            HostStep::Refuse(_, Refused::Secret, Some(WHO))
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
        let mut host = Host::new(&MAGIC, &[0; 32]);
        assert!(matches!(
            host.receive(&Secret::new(""), b"GET / HTTP/1.1\r\n"),
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
        let mut host = Host::new(&MAGIC, &[0; 32]);
        let HostStep::Refuse(answer, Refused::Version(version), None) =
            host.receive(&Secret::new(""), &later)
        else {
            panic!("not refused")
        };
        assert_eq!(version, VERSION + 1);
        // The guest sees this host's version.
        assert_eq!(answer[..16], MAGIC);
        let refused = greets(&mut Listener(&later), "").err();
        assert!(matches!(refused, Some(Refused::Version(version)) if version == VERSION + 1));
    }

    #[test]
    fn tags_differ_by_secret_purpose_and_what_is_said() {
        let ours = Secret::new("correct horse");
        let tag = ours.tag("greeting", &[b"hello"]);
        assert!(ours.is_tag(&tag, "greeting", &[b"hel", b"lo"]));
        assert!(!ours.is_tag(&tag, "greetings", &[b"hello"]));
        assert!(!ours.is_tag(&tag, "greeting", &[b"hallo"]));
        assert!(!ours.is_tag(&tag[..31], "greeting", &[b"hello"]));
        assert!(!Secret::new("").is_tag(&tag, "greeting", &[b"hello"]));
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", Secret::new("correct horse")), "Secret");
    }
}
