//! Datagrams between ranks: an authentication tag, who sends it in which round, and what it says.
//!
//! A set of ranks is one bit for each member of the round. Numbers are little-endian.

use rdma_sys_shim::proof::{Secret, TAG};

use super::agreement::{AgreementMessage, Ballot, Ranks, What};

/// The last byte is the version of the format.
const PURPOSE: &str = "survivors\x01";

/// What a datagram says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Part of the agreement.
    Agreement(AgreementMessage),
    /// Asks where the ranks of the agreed group meet.
    WhereToMeet,
    /// They meet at this port of the sender; 0: the meeting has failed.
    MeetAt(u16),
}

/// A datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Datagram {
    /// How many agreements came before.
    pub(super) round: u32,
    /// The sender's rank when the job started.
    pub(super) from: u32,
    pub(super) said: Said,
}

/// `members`: how many ranks take part in the round.
pub(super) fn encode(datagram: &Datagram, members: u32, key: &Secret) -> Vec<u8> {
    let mut bytes = vec![0; TAG];
    bytes.extend(datagram.round.to_le_bytes());
    bytes.extend(datagram.from.to_le_bytes());
    match &datagram.said {
        Said::WhereToMeet => bytes.push(1),
        Said::MeetAt(port) => {
            bytes.push(2);
            bytes.extend(port.to_le_bytes());
        }
        Said::Agreement(AgreementMessage { dead, what }) => {
            let mut written = Writer { bytes, members };
            match what {
                What::Prepare(ballot) => written.kind(3, *ballot),
                What::Promise { ballot, .. } => written.kind(4, *ballot),
                What::Outdated { promised } => written.kind(5, *promised),
                What::Propose(ballot, _) => written.kind(6, *ballot),
                What::Accepted(ballot) => written.kind(7, *ballot),
                What::Decided(ballot, _) => written.kind(8, *ballot),
                What::GaveUp(ballot, _) => written.kind(9, *ballot),
            }
            written.ranks(dead);
            match what {
                What::Prepare(_) | What::Outdated { .. } | What::Accepted(_) => {}
                What::Propose(_, ranks) | What::Decided(_, ranks) | What::GaveUp(_, ranks) => {
                    written.ranks(ranks);
                }
                What::Promise {
                    suspects, accepted, ..
                } => {
                    written.ranks(suspects);
                    if let Some((ballot, group)) = accepted {
                        written.ballot(*ballot);
                        written.ranks(group);
                    }
                }
            }
            bytes = written.bytes;
        }
    }
    let tag = key.tag(PURPOSE, &[&bytes[TAG..]]);
    bytes[..TAG].copy_from_slice(&tag);
    bytes
}

/// `members`: how many ranks take part in a round, if this process knows of the round. `None` if this is no datagram of
/// the job, or of a round that is unknown here.
pub(super) fn decode(
    bytes: &[u8],
    key: &Secret,
    members: impl FnOnce(u32) -> Option<u32>,
) -> Option<Datagram> {
    let (tag, rest) = bytes.split_at_checked(TAG)?;
    if !key.is_tag(tag, PURPOSE, &[rest]) {
        return None;
    }
    let mut reader = Reader {
        bytes: rest,
        members: 0,
    };
    let round = u32::from_le_bytes(reader.array()?);
    let from = u32::from_le_bytes(reader.array()?);
    reader.members = members(round)?;
    let [kind] = reader.array()?;
    let said = match kind {
        1 => Said::WhereToMeet,
        2 => Said::MeetAt(u16::from_le_bytes(reader.array()?)),
        _ => {
            let ballot = reader.ballot()?;
            let dead = reader.ranks()?;
            let what = match kind {
                3 => What::Prepare(ballot),
                4 => What::Promise {
                    ballot,
                    suspects: reader.ranks()?,
                    accepted: match reader.bytes.is_empty() {
                        true => None,
                        false => Some((reader.ballot()?, reader.ranks()?)),
                    },
                },
                5 => What::Outdated { promised: ballot },
                6 => What::Propose(ballot, reader.ranks()?),
                7 => What::Accepted(ballot),
                8 => What::Decided(ballot, reader.ranks()?),
                9 => What::GaveUp(ballot, reader.ranks()?),
                _ => return None,
            };
            Said::Agreement(AgreementMessage { dead, what })
        }
    };
    (reader.bytes.is_empty()).then_some(Datagram { round, from, said })
}

struct Writer {
    bytes: Vec<u8>,
    members: u32,
}

impl Writer {
    fn kind(&mut self, kind: u8, ballot: Ballot) {
        self.bytes.push(kind);
        self.ballot(ballot);
    }

    fn ballot(&mut self, (number, rank): Ballot) {
        self.bytes.extend(number.to_le_bytes());
        self.bytes.extend(rank.to_le_bytes());
    }

    fn ranks(&mut self, ranks: &Ranks) {
        let at = self.bytes.len();
        self.bytes.resize(at + self.members.div_ceil(8) as usize, 0);
        for rank in ranks {
            self.bytes[at + *rank as usize / 8] |= 1 << (rank % 8);
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    members: u32,
}

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*field)
    }

    fn ballot(&mut self) -> Option<Ballot> {
        let number = u64::from_le_bytes(self.array()?);
        let rank = u32::from_le_bytes(self.array()?);
        Some((number, rank))
    }

    fn ranks(&mut self) -> Option<Ranks> {
        let len = self.members.div_ceil(8) as usize;
        let (bits, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        let has = |rank: &u32| bits[*rank as usize / 8] >> (rank % 8) & 1 == 1;
        let all = len as u32 * 8;
        let beyond = (self.members..all).any(|rank| has(&rank));
        (!beyond).then(|| (0..self.members).filter(has).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBERS: u32 = 11;

    fn key() -> Secret {
        Secret::new("key")
    }

    fn all() -> Vec<Datagram> {
        let ranks = |ranks: &[u32]| ranks.iter().copied().collect::<Ranks>();
        let ballot = (7, 3);
        let whats = [
            What::Prepare(ballot),
            What::Promise {
                ballot,
                suspects: ranks(&[0, 10]),
                accepted: None,
            },
            What::Promise {
                ballot,
                suspects: ranks(&[]),
                accepted: Some(((6, 1), ranks(&[1, 2, 8]))),
            },
            What::Outdated { promised: ballot },
            What::Propose(ballot, ranks(&[1, 9])),
            What::Accepted(ballot),
            What::Decided(ballot, ranks(&[0])),
            What::GaveUp(ballot, ranks(&[4])),
        ];
        let agreement = whats.map(|what| {
            let dead = ranks(&[5, 7]);
            Said::Agreement(AgreementMessage { dead, what })
        });
        let said = [Said::WhereToMeet, Said::MeetAt(4711)];
        let each = said.into_iter().chain(agreement);
        let datagram = |said| Datagram {
            round: 2,
            from: 40,
            said,
        };
        each.map(datagram).collect()
    }

    #[test]
    fn datagrams_survive_the_journey() {
        for datagram in all() {
            let bytes = encode(&datagram, MEMBERS, &key());
            let members = |round| (round == 2).then_some(MEMBERS);
            assert_eq!(decode(&bytes, &key(), members), Some(datagram));
            assert_eq!(decode(&bytes, &key(), |_| None), None, "an unknown round");
        }
    }

    #[test]
    fn nothing_else_is_one() {
        let decoded = |bytes: &[u8], key: Secret| decode(bytes, &key, |_| Some(MEMBERS));
        for datagram in all() {
            let bytes = encode(&datagram, MEMBERS, &key());
            assert_eq!(decoded(&bytes, Secret::new("another")), None);
            for bit in 0..bytes.len() * 8 {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(decoded(&changed, key()), None, "bit {bit}");
            }
        }
    }

    /// A rank of another version could send it.
    #[test]
    fn what_is_authentic_and_malformed_is_refused() {
        let signed = |rest: &[u8]| {
            let tag = key().tag(PURPOSE, &[rest]);
            [&tag[..], rest].concat()
        };
        let decoded = |rest: &[u8]| decode(&signed(rest), &key(), |_| Some(MEMBERS));
        for datagram in all() {
            let bytes = encode(&datagram, MEMBERS, &key());
            let rest = &bytes[TAG..];
            assert!(decoded(rest).is_some());
            // A promise without its last part says that nothing was accepted.
            let complete = |cut: usize| {
                let what = decoded(&rest[..cut]).map(|datagram| datagram.said);
                let Some(Said::Agreement(AgreementMessage { what, .. })) = what else {
                    return what.is_some();
                };
                !matches!(what, What::Promise { accepted: None, .. })
            };
            assert!(!(0..rest.len()).any(complete), "{datagram:?}");
            assert_eq!(decoded(&[rest, &[0]].concat()), None);
        }
        let prepare = encode(&all()[2], MEMBERS, &key());
        let mut rest = prepare[TAG..].to_vec();
        *rest.last_mut().unwrap() |= 0x80;
        assert_eq!(decoded(&rest), None, "a rank beyond the last");
        rest[8] = 10;
        assert_eq!(decoded(&rest), None, "an unknown kind");
    }
}
