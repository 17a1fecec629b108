//! Messages between ranks that have met. Without their keys, nobody can change, add, drop, repeat or reorder a message
//! unnoticed.
//!
//! A message is a kind, the length of its body, the body, and a tag over all of these and the message's number. This
//! file uses no sockets.

use rdma_sys_shim::proof::{Secret, TAG};

use super::fault::{self, Fault};

const HEADER: usize = 5;
const PURPOSE: &str = "message";

/// A message between ranks that have met.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// All ranks have come.
    Begin,
    /// What a rank passes to an allgather; from rank 0, what all ranks have passed.
    Block(Vec<u8>),
    /// The start has failed.
    Fault(Fault),
}

/// The most bytes of a message that is not a block.
pub(super) const SHORT: usize = fault::LONGEST;

impl Message {
    fn encode(&self) -> (u8, &[u8]) {
        match self {
            Self::Begin => (1, &[]),
            Self::Block(bytes) => (2, bytes),
            Self::Fault(fault) => (3, fault.encode()),
        }
    }

    fn decode(kind: u8, body: &[u8]) -> Option<Self> {
        match kind {
            1 if body.is_empty() => Some(Self::Begin),
            2 => Some(Self::Block(body.to_vec())),
            3 => Fault::decode(body).map(Self::Fault),
            _ => None,
        }
    }
}

/// The received bytes are not what the other end sent, or not a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken;

/// One end of a connection.
pub(super) struct Channel {
    ours: Direction,
    theirs: Direction,
    received: Vec<u8>,
}

struct Direction {
    key: Secret,
    /// The number of messages so far.
    count: u64,
}

impl Channel {
    /// `ours` is the key for messages that this end sends.
    pub(super) fn new(ours: Secret, theirs: Secret) -> Self {
        let direction = |key| Direction { key, count: 0 };
        Self {
            ours: direction(ours),
            theirs: direction(theirs),
            received: Vec::new(),
        }
    }

    /// The bytes to send for a message. Its body is shorter than 4 GiB.
    pub(super) fn seal(&mut self, message: &Message) -> Vec<u8> {
        let (kind, body) = message.encode();
        let len = u32::try_from(body.len()).expect("the caller checks lengths");
        let mut bytes = vec![kind];
        bytes.extend(len.to_le_bytes());
        bytes.extend(body);
        let Direction { key, count } = &mut self.ours;
        let tag = key.tag(PURPOSE, &[&count.to_le_bytes(), &bytes]);
        *count += 1;
        bytes.extend(tag);
        bytes
    }

    /// How many received bytes are not yet a complete message, or a message that nobody has asked for.
    pub(super) fn held(&self) -> usize {
        self.received.len()
    }

    /// Adds received bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// The next message, if all of it was received. A body longer than `longest` is refused as soon as its header has
    /// arrived.
    pub(super) fn next(&mut self, longest: usize) -> Result<Option<Message>, Broken> {
        let Some(&[kind, ref len @ ..]) = self.received.first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let len = u32::from_le_bytes(*len) as usize;
        if len > longest {
            return Err(Broken);
        }
        let sealed = HEADER + len;
        let Some(tag) = self.received.get(sealed..sealed + TAG) else {
            return Ok(None);
        };
        let bytes = &self.received[..sealed];
        let Direction { key, count } = &mut self.theirs;
        if !key.is_tag(tag, PURPOSE, &[&count.to_le_bytes(), bytes]) {
            return Err(Broken);
        }
        *count += 1;
        let message = Message::decode(kind, &bytes[HEADER..]).ok_or(Broken)?;
        self.received.drain(..sealed + TAG);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Channel, Channel) {
        let key = |name: &str| Secret::new(name);
        (
            Channel::new(key("up"), key("down")),
            Channel::new(key("down"), key("up")),
        )
    }

    fn messages() -> Vec<Message> {
        vec![
            Message::Begin,
            Message::Block(Vec::new()),
            Message::Block(vec![7; 1000]),
            Message::Fault(Fault::new("rank 0 ünd others")),
        ]
    }

    #[test]
    fn messages_arrive_however_their_bytes_do() {
        let (mut ours, mut theirs) = pair();
        let bytes: Vec<u8> = messages().iter().flat_map(|one| ours.seal(one)).collect();
        let mut found = Vec::new();
        for piece in bytes.chunks(7) {
            theirs.push(piece);
            while let Some(message) = theirs.next(SHORT).unwrap() {
                found.push(message);
            }
        }
        assert_eq!(found, messages());
    }

    #[test]
    fn no_bit_can_be_changed() {
        let sealed = pair().0.seal(&Message::Block(b"word".to_vec()));
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let mut theirs = pair().1;
            theirs.push(&changed);
            // A longer message is incomplete.
            assert!(!matches!(theirs.next(SHORT), Ok(Some(_))), "bit {bit}");
        }
    }

    #[test]
    fn no_message_can_be_repeated_left_out_or_sent_back() {
        let (mut ours, mut theirs) = pair();
        let first = ours.seal(&Message::Begin);
        let second = ours.seal(&Message::Begin);
        theirs.push(&second);
        assert_eq!(theirs.next(SHORT), Err(Broken));
        let (_, mut theirs) = pair();
        theirs.push(&first);
        theirs.push(&first);
        assert_eq!(theirs.next(SHORT), Ok(Some(Message::Begin)));
        assert_eq!(theirs.next(SHORT), Err(Broken));
        let mut ours = pair().0;
        ours.push(&first);
        assert_eq!(ours.next(SHORT), Err(Broken));
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_by_its_header() {
        let (mut ours, mut theirs) = pair();
        let sealed = ours.seal(&Message::Block(vec![0; 101]));
        theirs.push(&sealed[..HEADER]);
        assert_eq!(theirs.next(100), Err(Broken));
        let (_, mut theirs) = pair();
        theirs.push(&[2, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(theirs.next(SHORT), Err(Broken));
    }
}
