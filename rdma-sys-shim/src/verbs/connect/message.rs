//! What processes tell each other of their queue pairs.

use std::io::{self, ErrorKind, Read};

use super::address::Address;
use crate::RemoteAddress;
use crate::fields::{Fields, beginning};

/// The longest message, without the two bytes of its length.
const LONGEST: usize = 512;
const LONGEST_WORDS: usize = 400;

/// What one side of a connection needs to know about the other's queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) qpn: u32,
    /// The first packet sequence number that this side sends.
    pub(crate) psn: u32,
    /// Reads and atomics that this side serves at the same time: the other side's limit for those in flight
    /// (`max_dest_rd_atomic`).
    pub(crate) responder_resources: u8,
    /// The port's active MTU, as an `enum ibv_mtu`.
    pub(crate) mtu: u8,
    /// The port's longest message.
    pub(crate) max_message: u32,
    /// Eight bytes for trailing reads, if this side's host has several adapters.
    pub(crate) trailing: Option<RemoteAddress>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The sender asks for the receiver's queue pair, and gives its own.
    Ask { ours: Numbers, from: Box<Address> },
    /// The sender answers other peers first.
    Wait,
    /// The answer: the sender's queue pair is ready to receive from the receiver's.
    Answer(Numbers),
    /// The queue pair of the asking side is ready to receive, too.
    Connected,
    /// There will be no connection, for this reason.
    Refusal(String),
    /// The sender leaves in good order.
    Leave,
}

impl Message {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; 2];
        match self {
            Self::Ask { ours, from } => {
                bytes.push(1);
                ours.put(&mut bytes);
                bytes.extend(from.encode());
            }
            Self::Wait => bytes.push(2),
            Self::Answer(numbers) => {
                bytes.push(3);
                numbers.put(&mut bytes);
            }
            Self::Connected => bytes.push(4),
            Self::Refusal(words) => {
                bytes.push(5);
                bytes.extend(beginning(words, LONGEST_WORDS).as_bytes());
            }
            Self::Leave => bytes.push(6),
        }
        let len = bytes.len() - 2;
        bytes[..2].copy_from_slice(&(len as u16).to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let [kind] = fields.array()?;
        Some(match kind {
            1 => Self::Ask {
                ours: Numbers::take(&mut fields)?,
                from: Box::new(Address::decode(std::mem::take(&mut fields.0)).ok()?),
            },
            2 => Self::Wait,
            3 => Self::Answer(Numbers::take(&mut fields)?),
            4 => Self::Connected,
            5 => Self::Refusal(
                str::from_utf8(std::mem::take(&mut fields.0))
                    .ok()?
                    .to_owned(),
            ),
            6 => Self::Leave,
            _ => return None,
        })
        .filter(|_| fields.0.is_empty())
    }

    /// Removes the next message from the bytes; `None` if it is incomplete.
    ///
    /// # Errors
    /// The bytes are not a message.
    pub(crate) fn take(bytes: &mut Vec<u8>) -> io::Result<Option<Self>> {
        let Some((len, rest)) = bytes.split_first_chunk() else {
            return Ok(None);
        };
        let len = length(*len)?;
        let Some(content) = rest.get(..len) else {
            return Ok(None);
        };
        let message = Self::decode(content).ok_or(ErrorKind::InvalidData)?;
        bytes.drain(..2 + len);
        Ok(Some(message))
    }

    /// Waits for the next message, and reads no further.
    pub(crate) fn read(mut from: impl Read) -> io::Result<Self> {
        let mut len = [0; 2];
        from.read_exact(&mut len)?;
        let mut content = vec![0; length(len)?];
        from.read_exact(&mut content)?;
        Self::decode(&content).ok_or(ErrorKind::InvalidData.into())
    }
}

fn length(bytes: [u8; 2]) -> io::Result<usize> {
    match usize::from(u16::from_le_bytes(bytes)) {
        len if len <= LONGEST => Ok(len),
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

impl Numbers {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.qpn.to_le_bytes());
        bytes.extend(self.psn.to_le_bytes());
        bytes.extend([self.responder_resources, self.mtu]);
        bytes.extend(self.max_message.to_le_bytes());
        bytes.push(self.trailing.is_some().into());
        if let Some(RemoteAddress { address, rkey }) = self.trailing {
            bytes.extend([address, rkey].map(u64::to_le_bytes).as_flattened());
        }
    }

    fn take(fields: &mut Fields<'_>) -> Option<Self> {
        let (qpn, psn) = (fields.u32()?, fields.u32()?);
        let [responder_resources, mtu] = fields.array()?;
        Some(Self {
            qpn,
            psn,
            responder_resources,
            mtu,
            max_message: fields.u32()?,
            trailing: match fields.array()? {
                [0] => None,
                [1] => Some(RemoteAddress {
                    address: u64::from_le_bytes(fields.array()?),
                    rkey: u64::from_le_bytes(fields.array()?),
                }),
                _ => return None,
            },
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::address::tests::address;
    use super::*;

    /// Of each kind at least one.
    pub(crate) fn messages() -> Vec<Message> {
        let numbers = Numbers {
            qpn: 0x12_3456,
            psn: 0xab_cdef,
            responder_resources: 128,
            mtu: 3,
            max_message: 1 << 31,
            trailing: None,
        };
        let one_of_several = Numbers {
            trailing: Some(RemoteAddress {
                address: 0x7fff_1234_5678,
                rkey: 0x89ab_cdef,
            }),
            ..numbers
        };
        vec![
            Message::Ask {
                ours: numbers,
                from: Box::new(address()),
            },
            Message::Wait,
            Message::Answer(numbers),
            Message::Answer(one_of_several),
            Message::Connected,
            Message::Refusal("out of queue pairs".to_owned()),
            Message::Leave,
        ]
    }

    #[test]
    fn messages_survive_the_journey_one_behind_the_other() {
        let all = messages();
        let bytes: Vec<u8> = all.iter().flat_map(Message::encode).collect();
        let mut held = Vec::new();
        let mut found = Vec::new();
        for byte in &bytes {
            held.push(*byte);
            found.extend(Message::take(&mut held).unwrap());
        }
        assert!(held.is_empty());
        assert_eq!(found, all);
        let mut rest = &bytes[..];
        for message in &all {
            assert_eq!(&Message::read(&mut rest).unwrap(), message);
        }
        assert!(Message::read(&mut rest).is_err());
    }

    #[test]
    fn what_is_no_message_is_an_error_at_once() {
        for bad in [
            &[0, 0][..],
            &[1, 0, 9],
            &[2, 0, 6, 0],
            &[0xff, 0xff],
            &[3, 0, 1, 0, 0],
        ] {
            assert!(Message::take(&mut bad.to_vec()).is_err(), "{bad:?}");
            assert!(Message::read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn words_are_cut_between_characters() {
        let words = "ü".repeat(300);
        let mut bytes = Message::Refusal(format!("a{words}")).encode();
        let Some(Message::Refusal(kept)) = Message::take(&mut bytes).unwrap() else {
            panic!("it was a refusal");
        };
        assert_eq!(kept, format!("a{}", &words[..LONGEST_WORDS - 2]));
    }
}
