//! How two ranks prove to each other that they know the job's secret, without saying it.
//!
//! The guest says who it is and something new (a nonce), the host something new; the guest proves that
//! it knows the secret, by a tag over all of this, and only then the host does. So whoever connects to the
//! host learns nothing by which to try secrets.
//!
//! ```text
//! guest: MAGIC rank size nonce
//! host:  MAGIC nonce
//! guest: tag
//! host:  1 tag, or 0 and zeros: another secret
//! ```
//!
//! All is of fixed length, so that neither side ever keeps more of the other than that. Here is no
//! socket: bytes come in, and what to send comes out.

use super::channel::Channel;
use super::secret::{Secret, TAG};

/// The last byte counts versions of the protocol, of which no two speak to each other.
pub(super) const MAGIC: [u8; 16] = *b"transom meeting\x01";
const UNVERSIONED: usize = MAGIC.len() - 1;

pub(super) const VERSION: u8 = MAGIC[UNVERSIONED];

pub(super) type Nonce = [u8; 32];

const HELLO: usize = 56;
const CHALLENGE: usize = 48;
const ANSWER: usize = 1 + TAG;

const WELCOME: u8 = 1;
const OTHER_SECRET: u8 = 0;

/// Who a process says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) rank: u32,
    pub(super) size: u32,
}

/// What both have said before one proves anything.
struct Transcript {
    hello: [u8; HELLO],
    challenge: [u8; CHALLENGE],
}

impl Transcript {
    fn tag(&self, secret: &Secret, purpose: &str) -> [u8; TAG] {
        secret.tag(purpose, &[&self.hello, &self.challenge])
    }

    fn is_tag(&self, secret: &Secret, tag: &[u8], purpose: &str) -> bool {
        secret.is_tag(tag, purpose, &[&self.hello, &self.challenge])
    }

    fn of_guest(&self, secret: &Secret) -> Channel {
        let (up, down) = self.keys(secret);
        Channel::new(up, down)
    }

    fn of_host(&self, secret: &Secret) -> Channel {
        let (up, down) = self.keys(secret);
        Channel::new(down, up)
    }

    fn keys(&self, secret: &Secret) -> (Secret, Secret) {
        let key = |purpose| Secret::new(self.tag(secret, purpose));
        (key("to rank 0"), key("from rank 0"))
    }
}

const GUEST: &str = "guest";
const HOST: &str = "host";

/// What the other end turns out not to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It speaks something else, which begins so.
    Stranger(Vec<u8>),
    /// It speaks this protocol in another version.
    Version(u8),
    /// It has another secret. Of a guest: who it says it is.
    Secret(Option<Claim>),
}

/// Fails as soon as what has come cannot be the beginning of what is expected.
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

/// A rank other than 0.
pub(super) struct Guest {
    secret: Secret,
    hello: [u8; HELLO],
    received: Vec<u8>,
    /// Once the challenge is there.
    transcript: Option<Transcript>,
}

/// What the guest does next.
pub(super) enum GuestStep {
    /// Receives more.
    Receive,
    /// Sends this, and receives more.
    Send([u8; TAG]),
    /// The host is who it is expected to be.
    Done(Channel),
}

impl Guest {
    /// And what it says first.
    pub(super) fn new(claim: Claim, secret: Secret, nonce: &Nonce) -> (Self, [u8; HELLO]) {
        let mut hello = [0; HELLO];
        hello[..16].copy_from_slice(&MAGIC);
        hello[16..20].copy_from_slice(&claim.rank.to_le_bytes());
        hello[20..24].copy_from_slice(&claim.size.to_le_bytes());
        hello[24..].copy_from_slice(nonce);
        let guest = Self {
            secret,
            hello,
            received: Vec::new(),
            transcript: None,
        };
        (guest, hello)
    }

    /// How many bytes may be received at most.
    pub(super) fn wants(&self) -> usize {
        let expected = match self.transcript {
            None => CHALLENGE,
            Some(_) => ANSWER,
        };
        expected - self.received.len()
    }

    /// At most as many bytes as it [wants](Self::wants).
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<GuestStep, Refused> {
        self.received.extend_from_slice(bytes);
        match &self.transcript {
            None => {
                check_magic(&self.received)?;
                let Ok(challenge) = self.received[..].try_into() else {
                    return Ok(GuestStep::Receive);
                };
                self.received.clear();
                let hello = self.hello;
                let transcript = Transcript { hello, challenge };
                let proof = transcript.tag(&self.secret, GUEST);
                self.transcript = Some(transcript);
                Ok(GuestStep::Send(proof))
            }
            Some(_) if self.received.len() < ANSWER => Ok(GuestStep::Receive),
            Some(transcript) => match self.received[0] {
                WELCOME if transcript.is_tag(&self.secret, &self.received[1..], HOST) => {
                    Ok(GuestStep::Done(transcript.of_guest(&self.secret)))
                }
                _ => Err(Refused::Secret(None)),
            },
        }
    }
}

/// Rank 0's side of one connection.
pub(super) struct Host {
    secret: Secret,
    nonce: Nonce,
    received: Vec<u8>,
    /// Once the guest has said who it is.
    transcript: Option<Transcript>,
}

/// What the host does next.
pub(super) enum HostStep {
    /// Receives more.
    Receive,
    /// Sends this, and receives more.
    Send(Vec<u8>),
    /// Sends this; the guest knows the secret, and says that it is this rank.
    Admit(Vec<u8>, Claim, Channel),
    /// Sends this, and hangs up.
    Refuse(Vec<u8>, Refused),
}

impl Host {
    pub(super) fn new(secret: Secret, nonce: Nonce) -> Self {
        Self {
            secret,
            nonce,
            received: Vec::new(),
            transcript: None,
        }
    }

    /// How many bytes may be received at most.
    pub(super) fn wants(&self) -> usize {
        let expected = match self.transcript {
            None => HELLO,
            Some(_) => TAG,
        };
        expected - self.received.len()
    }

    fn challenge(&self) -> [u8; CHALLENGE] {
        let mut challenge = [0; CHALLENGE];
        challenge[..16].copy_from_slice(&MAGIC);
        challenge[16..].copy_from_slice(&self.nonce);
        challenge
    }

    /// At most as many bytes as it [wants](Self::wants).
    pub(super) fn receive(&mut self, bytes: &[u8]) -> HostStep {
        self.received.extend_from_slice(bytes);
        match &self.transcript {
            None => {
                let challenge = self.challenge();
                match check_magic(&self.received) {
                    Ok(()) => {}
                    // From which it sees that the versions differ.
                    Err(refused @ Refused::Version(_)) => {
                        return HostStep::Refuse(challenge.to_vec(), refused);
                    }
                    Err(refused) => return HostStep::Refuse(Vec::new(), refused),
                }
                let Ok(hello) = self.received[..].try_into() else {
                    return HostStep::Receive;
                };
                self.received.clear();
                self.transcript = Some(Transcript { hello, challenge });
                HostStep::Send(challenge.to_vec())
            }
            Some(_) if self.received.len() < TAG => HostStep::Receive,
            Some(transcript) => {
                let word = |at: usize| {
                    let bytes = transcript.hello[at..at + 4].try_into();
                    u32::from_le_bytes(bytes.expect("four bytes"))
                };
                let claim = Claim {
                    rank: word(16),
                    size: word(20),
                };
                if !transcript.is_tag(&self.secret, &self.received, GUEST) {
                    let mut answer = vec![OTHER_SECRET];
                    answer.resize(ANSWER, 0);
                    return HostStep::Refuse(answer, Refused::Secret(Some(claim)));
                }
                let mut answer = vec![WELCOME];
                answer.extend(transcript.tag(&self.secret, HOST));
                HostStep::Admit(answer, claim, transcript.of_host(&self.secret))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rendezvous::channel::Message;

    const CLAIM: Claim = Claim { rank: 3, size: 7 };

    /// Both ends, to the guest's proof.
    fn proven(of_host: &str, of_guest: &str) -> (Host, Guest, HostStep) {
        let (mut guest, hello) = Guest::new(CLAIM, Secret::new(of_guest), &[1; 32]);
        let mut host = Host::new(Secret::new(of_host), [2; 32]);
        assert_eq!(host.wants(), hello.len());
        let HostStep::Send(challenge) = host.receive(&hello) else {
            panic!("no challenge")
        };
        assert_eq!(guest.wants(), challenge.len());
        let Ok(GuestStep::Send(proof)) = guest.receive(&challenge) else {
            panic!("no proof")
        };
        assert_eq!(host.wants(), proof.len());
        let step = host.receive(&proof);
        (host, guest, step)
    }

    #[test]
    fn those_who_know_the_secret_meet() {
        let (_, mut guest, step) = proven("secret", "secret");
        let HostStep::Admit(answer, CLAIM, mut ours) = step else {
            panic!("not admitted")
        };
        let Ok(GuestStep::Done(mut theirs)) = guest.receive(&answer) else {
            panic!("not done")
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
        let (_, mut guest, step) = proven("secret", "another");
        let HostStep::Refuse(answer, Refused::Secret(Some(CLAIM))) = step else {
            panic!("not refused")
        };
        let told = guest.receive(&answer).err();
        assert_eq!(told, Some(Refused::Secret(None)));
    }

    /// A listener that has the port, and not the secret.
    #[test]
    fn a_guest_believes_no_host_without_the_secret() {
        let (_, mut guest, _) = proven("secret", "secret");
        let mut answer = vec![WELCOME];
        answer.extend([7; TAG]);
        assert_eq!(guest.receive(&answer).err(), Some(Refused::Secret(None)));
    }

    /// What a guest proved of itself is worth nothing under another name, or another time.
    #[test]
    fn a_proof_is_of_one_rank_and_one_meeting() {
        let (mut guest, hello) = Guest::new(CLAIM, Secret::new("secret"), &[1; 32]);
        let mut first = Host::new(Secret::new("secret"), [2; 32]);
        let HostStep::Send(challenge) = first.receive(&hello) else {
            panic!("no challenge")
        };
        let Ok(GuestStep::Send(proof)) = guest.receive(&challenge) else {
            panic!("no proof")
        };
        let mut as_another = hello;
        as_another[16] = 4;
        let mut of_other_size = hello;
        of_other_size[20] = 8;
        for (hello, nonce) in [
            (as_another, [2; 32]),
            (of_other_size, [2; 32]),
            (hello, [3; 32]),
        ] {
            let mut host = Host::new(Secret::new("secret"), nonce);
            host.receive(&hello);
            let step = host.receive(&proof);
            assert!(matches!(
                step,
                HostStep::Refuse(_, Refused::Secret(Some(_)))
            ));
        }
    }

    #[test]
    fn strangers_are_known_by_their_first_bytes() {
        let mut host = Host::new(Secret::none(), [0; 32]);
        assert!(matches!(
            host.receive(b"GET / HTTP/1.1\r\n"),
            HostStep::Refuse(answer, Refused::Stranger(_)) if answer.is_empty()
        ));
        let (mut guest, _) = Guest::new(CLAIM, Secret::none(), &[0; 32]);
        assert!(guest.receive(b"tran").is_ok());
        let refused = guest.receive(b"quil").err();
        assert_eq!(refused, Some(Refused::Stranger(b"tranquil".to_vec())));
    }

    #[test]
    fn both_are_told_that_the_versions_differ() {
        let mut later = MAGIC;
        later[UNVERSIONED] += 1;
        let mut host = Host::new(Secret::none(), [0; 32]);
        let HostStep::Refuse(answer, Refused::Version(2)) = host.receive(&later) else {
            panic!("not refused")
        };
        let (mut guest, _) = Guest::new(CLAIM, Secret::none(), &[0; 32]);
        assert!(matches!(guest.receive(&answer), Ok(GuestStep::Send(_))));
        let (mut guest, _) = Guest::new(CLAIM, Secret::none(), &[0; 32]);
        assert_eq!(guest.receive(&later).err(), Some(Refused::Version(2)));
    }
}
