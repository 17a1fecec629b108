//! The datagrams by which queue pairs find each other.

use super::address::{Address, PeerId, Secret};
use super::wire::{cut, put_text, seal, unseal};
use crate::fields::Fields;

const MAGIC: [u8; 3] = *b"tVM";
const VERSION: u8 = 1;

/// No message is longer; a port's MTU has to be at least this.
pub(crate) const MESSAGE_BYTES: usize = 512;

const WORDS_BYTES: u8 = 200;

/// What one side of a connection needs to know about the other's queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) qpn: u32,
    /// The first packet sequence number that it sends.
    pub(crate) psn: u32,
    /// Reads and atomics that it serves at the same time: the other side's limit for those in
    /// flight (`max_dest_rd_atomic`).
    pub(crate) responder_resources: u8,
    /// The port's active MTU, as `enum ibv_mtu` counts.
    pub(crate) mtu: u8,
    /// The port's longest message.
    pub(crate) max_message: u32,
}

/// A datagram's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) to: (PeerId, Secret),
    pub(crate) from: Address,
    pub(crate) body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// The sender wants to know the receiver's queue pair.
    Request {
        numbers: Numbers,
        /// The receiver's queue pair, if the sender's already listens to it.
        heard: Option<u32>,
    },
    /// The sender's queue pair listens to the receiver's.
    Reply {
        numbers: Numbers,
        /// The receiver's queue pair.
        heard: u32,
    },
    /// The sender has others to connect to first, and will answer then.
    Busy,
    /// There will be no connection.
    Refusal { words: String },
    /// The sender leaves in good order; to be answered by a farewell.
    Goodbye,
    Farewell {
        /// Whether the sender leaves as well.
        leaving: bool,
    },
}

impl Message {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MESSAGE_BYTES);
        bytes.extend(MAGIC);
        bytes.push(VERSION);
        bytes.extend(self.to.0.0.to_le_bytes());
        bytes.extend(self.to.1.0);
        self.from.put(&mut bytes);
        match &self.body {
            Body::Request { numbers, heard } => {
                bytes.push(1);
                numbers.put(&mut bytes);
                bytes.push(u8::from(heard.is_some()));
                bytes.extend(heard.unwrap_or(0).to_le_bytes());
            }
            Body::Reply { numbers, heard } => {
                bytes.push(2);
                numbers.put(&mut bytes);
                bytes.extend(heard.to_le_bytes());
            }
            Body::Refusal { words } => {
                bytes.push(3);
                put_text(&mut bytes, words, WORDS_BYTES);
            }
            Body::Goodbye => bytes.push(4),
            Body::Farewell { leaving } => bytes.extend([5, u8::from(*leaving)]),
            Body::Busy => bytes.push(6),
        }
        seal(&mut bytes);
        debug_assert!(bytes.len() <= MESSAGE_BYTES);
        bytes
    }

    /// `None` for whatever is not a whole message of this version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(unseal(bytes)?);
        if fields.array()? != MAGIC || fields.u8()? != VERSION {
            return None;
        }
        let to = (PeerId(fields.u64()?), Secret(fields.array()?));
        let from = Address::take(&mut fields)?;
        let body = match fields.u8()? {
            1 => {
                let numbers = Numbers::take(&mut fields)?;
                let heard = fields.u8()? != 0;
                let qpn = fields.u32()?;
                Body::Request {
                    numbers,
                    heard: heard.then_some(qpn),
                }
            }
            2 => Body::Reply {
                numbers: Numbers::take(&mut fields)?,
                heard: fields.u32()?,
            },
            3 => Body::Refusal {
                words: fields.text()?.to_owned(),
            },
            4 => Body::Goodbye,
            5 => Body::Farewell {
                leaving: fields.u8()? != 0,
            },
            6 => Body::Busy,
            _ => return None,
        };
        fields.0.is_empty().then_some(Self { to, from, body })
    }
}

impl Body {
    /// A refusal with as many of the words as fit.
    pub(crate) fn refusal(words: &str) -> Self {
        Self::Refusal {
            words: cut(words, usize::from(WORDS_BYTES)).to_owned(),
        }
    }
}

impl Numbers {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.qpn.to_le_bytes());
        bytes.extend(self.psn.to_le_bytes());
        bytes.push(self.responder_resources);
        bytes.push(self.mtu);
        bytes.extend(self.max_message.to_le_bytes());
    }

    fn take(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self {
            qpn: fields.u32()?,
            psn: fields.u32()?,
            responder_resources: fields.u8()?,
            mtu: fields.u8()?,
            max_message: fields.u32()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdma::Gid;
    use crate::verbs::port::{PortAddress, Transport};

    fn bodies() -> Vec<Body> {
        let numbers = Numbers {
            qpn: 0x12_3456,
            psn: 0xab_cdef,
            responder_resources: 128,
            mtu: 3,
            max_message: 1 << 31,
        };
        vec![
            Body::Request {
                numbers,
                heard: None,
            },
            Body::Request {
                numbers,
                heard: Some(9),
            },
            Body::Reply { numbers, heard: 9 },
            Body::refusal(&"ü".repeat(300)),
            Body::Goodbye,
            Body::Farewell { leaving: true },
            Body::Busy,
        ]
    }

    #[test]
    fn messages_survive_the_journey_within_the_limit() {
        let ipv4 = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1];
        let port = PortAddress::new([ipv4, [7; 16]].map(Gid::from), 3);
        let mut from = Address::fresh(port, Transport::InfiniBand, &"d".repeat(63)).unwrap();
        from.host = "h".repeat(63);
        for body in bodies() {
            let message = Message {
                to: (from.instance, from.secret),
                from: from.clone(),
                body,
            };
            let bytes = message.encode();
            assert!(bytes.len() <= MESSAGE_BYTES, "{} bytes", bytes.len());
            assert_eq!(Message::decode(&bytes).as_ref(), Some(&message));
            for cut in 0..bytes.len() {
                assert_eq!(Message::decode(&bytes[..cut]), None);
            }
            assert_eq!(Message::decode(&[bytes, vec![0]].concat()), None);
        }
    }
}
