//! Messages of ranks that have met: whoever does not know their keys can neither change one, nor add,
//! leave out, repeat or reorder any.
//!
//! A message is a kind, the length of its body, the body, and a tag over its number and all of that.
//! Here is no socket either.

use std::time::Duration;

use super::fault::{self, Fault};
use super::secret::{Secret, TAG};

const HEADER: usize = 5;

/// What ranks say once they have met.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// Rank 0 knows this one, and waits for others for so long. `None`: for ever.
    Welcome(Option<Duration>),
    /// All have come.
    Begin,
    /// What a rank passes to an allgather; from rank 0, what all have passed.
    Block(Vec<u8>),
    /// No job comes of it.
    Fault(Fault),
}

/// Longer than any message but blocks.
pub(super) const SHORT: usize = fault::LONGEST;

impl Message {
    fn encode(&self) -> (u8, Vec<u8>) {
        match self {
            Self::Welcome(left) => {
                let millis = |left: Duration| u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
                let left = left.map_or(u64::MAX, millis);
                (1, left.to_le_bytes().to_vec())
            }
            Self::Begin => (2, Vec::new()),
            Self::Block(bytes) => (3, bytes.clone()),
            Self::Fault(fault) => (4, fault.encode()),
        }
    }

    fn decode(kind: u8, body: &[u8]) -> Option<Self> {
        match kind {
            1 => {
                let left = u64::from_le_bytes(body.try_into().ok()?);
                let left = (left != u64::MAX).then(|| Duration::from_millis(left));
                Some(Self::Welcome(left))
            }
            2 if body.is_empty() => Some(Self::Begin),
            3 => Some(Self::Block(body.to_vec())),
            4 => Fault::decode(body).map(Self::Fault),
            _ => None,
        }
    }
}

/// What came is not what the other end sent, or is nothing that it should send.
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
    /// How many messages went before.
    count: u64,
}

impl Direction {
    fn parts<'a>(number: &'a [u8; 8], header: &'a [u8], body: &'a [u8]) -> [&'a [u8]; 3] {
        [number, header, body]
    }

    fn tag(&mut self, header: &[u8], body: &[u8]) -> [u8; TAG] {
        let number = self.number();
        self.key.tag(PURPOSE, &Self::parts(&number, header, body))
    }

    fn is_tag(&mut self, tag: &[u8], header: &[u8], body: &[u8]) -> bool {
        let number = self.number();
        (self.key).is_tag(tag, PURPOSE, &Self::parts(&number, header, body))
    }

    fn number(&mut self) -> [u8; 8] {
        let number = self.count;
        self.count += 1;
        number.to_le_bytes()
    }
}

const PURPOSE: &str = "message";

impl Channel {
    /// `ours`: the key of what this end sends.
    pub(super) fn new(ours: Secret, theirs: Secret) -> Self {
        let direction = |key| Direction { key, count: 0 };
        Self {
            ours: direction(ours),
            theirs: direction(theirs),
            received: Vec::new(),
        }
    }

    /// What to send for a message, whose body is shorter than 4 GiB.
    pub(super) fn seal(&mut self, message: &Message) -> Vec<u8> {
        let (kind, body) = message.encode();
        let len = u32::try_from(body.len()).expect("the caller checks lengths");
        let mut bytes = vec![kind];
        bytes.extend(len.to_le_bytes());
        let tag = self.ours.tag(&bytes, &body);
        bytes.extend(body);
        bytes.extend(tag);
        bytes
    }

    /// Takes what has been received.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// The next message, once all of it was received. One with a body longer than `longest` is refused
    /// before it is there.
    pub(super) fn next(&mut self, longest: usize) -> Result<Option<Message>, Broken> {
        let Some((header, rest)) = self.received.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let [kind, len @ ..] = *header;
        let len = u32::from_le_bytes(len) as usize;
        if len > longest {
            return Err(Broken);
        }
        let Some((body, rest)) = rest.split_at_checked(len) else {
            return Ok(None);
        };
        let Some(tag) = rest.get(..TAG) else {
            return Ok(None);
        };
        if !self.theirs.is_tag(tag, header, body) {
            return Err(Broken);
        }
        let message = Message::decode(kind, body).ok_or(Broken)?;
        self.received.drain(..HEADER + len + TAG);
        Ok(Some(message))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::rendezvous::fault;

    pub(in crate::rendezvous) fn pair() -> (Channel, Channel) {
        let key = |name: &str| Secret::new(name);
        (
            Channel::new(key("up"), key("down")),
            Channel::new(key("down"), key("up")),
        )
    }

    fn messages() -> Vec<Message> {
        let mut all = vec![
            Message::Welcome(None),
            Message::Welcome(Some(Duration::from_millis(1500))),
            Message::Begin,
            Message::Block(Vec::new()),
            Message::Block(vec![7; 1000]),
        ];
        all.extend(fault::tests::all().into_iter().map(Message::Fault));
        all
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
            // A longer one is not there yet.
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
        theirs.push(&[3, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(theirs.next(SHORT), Err(Broken));
    }
}
