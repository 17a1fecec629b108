//! Why no job came of it, as rank 0 tells all that have proven to belong to it.

use crate::bootstrap::Ranks;
use crate::sys::beginning;

/// Why ranks that met at a rendezvous do not become a job, and which of them is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Two processes say that they are this rank.
    #[error(
        "two processes say that they are rank {rank}: {places}; give each its own TRANSOM_RANK"
    )]
    RankTwice {
        /// The rank.
        rank: u32,
        /// Where they are.
        places: String,
    },
    /// A process says that it is a rank that there is not.
    #[error("a process at {place} says that it is rank {rank}, of {size} ranks (the first is 0)")]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// How many ranks there are, as all say.
        size: u32,
        /// Where it is.
        place: String,
    },
    /// Ranks differ in how many they are.
    #[error("rank {rank} says that there are {theirs} ranks, rank 0 that there are {ours}")]
    SizeDiffers {
        /// The rank that differs from rank 0.
        rank: u32,
        /// What it says.
        theirs: u32,
        /// What rank 0 says.
        ours: u32,
    },
    /// Ranks never came.
    #[error(
        "{} did not come to {address} within {limit} s (TRANSOM_START_TIMEOUT){seen}",
        Ranks(ranks)
    )]
    Missing {
        /// Which.
        ranks: Vec<u32>,
        /// Where they were waited for.
        address: String,
        /// How long, in seconds.
        limit: u32,
        /// What came instead, if anything.
        seen: String,
    },
    /// A rank closed its connection.
    #[error("rank {rank} ended while the job started, or gave up")]
    Left {
        /// The rank.
        rank: u32,
    },
    /// Ranks that had come say nothing more.
    #[error(
        "{} came to the rendezvous, and then said nothing for {limit} s (TRANSOM_START_TIMEOUT)",
        Ranks(ranks)
    )]
    Silent {
        /// Which.
        ranks: Vec<u32>,
        /// How long they were waited for, in seconds.
        limit: u32,
    },
    /// What came in a rank's name is not what it sent, or makes no sense.
    #[error(
        "what came from rank {rank} was changed on the way, or is of another version of transom"
    )]
    Garbled {
        /// The rank.
        rank: u32,
    },
    /// Ranks differ in how many bytes they exchange.
    #[error("rank {rank} passed {theirs} bytes, rank 0 {ours}")]
    LengthDiffers {
        /// The rank that differs from rank 0.
        rank: u32,
        /// What it passed.
        theirs: u32,
        /// What rank 0 passed.
        ours: u32,
    },
    /// Rank 0 itself cannot go on.
    #[error("rank 0 cannot go on: {why}")]
    Host {
        /// Its own error.
        why: String,
    },
}

/// More than any fault of a job of as many ranks as there may be.
pub(super) const LONGEST: usize = 1 << 19;

/// Of texts, which name addresses.
const LONGEST_TEXT: usize = 4096;

impl Fault {
    /// A kind, a count of numbers, the numbers, and a text.
    pub(super) fn encode(&self) -> Vec<u8> {
        let with = |numbers: &[u32], ranks: &[u32]| [numbers, ranks].concat();
        let text;
        let (kind, numbers, text) = match self {
            Self::RankTwice { rank, places } => (1_u8, vec![*rank], places.as_str()),
            Self::NoSuchRank { rank, size, place } => (2, vec![*rank, *size], place.as_str()),
            Self::SizeDiffers { rank, theirs, ours } => (3, vec![*rank, *theirs, *ours], ""),
            Self::Missing {
                ranks,
                address,
                limit,
                seen,
            } => {
                text = format!("{address} {seen}");
                (4, with(&[*limit], ranks), text.as_str())
            }
            Self::Left { rank } => (5, vec![*rank], ""),
            Self::Silent { ranks, limit } => (6, with(&[*limit], ranks), ""),
            Self::Garbled { rank } => (7, vec![*rank], ""),
            Self::LengthDiffers { rank, theirs, ours } => (8, vec![*rank, *theirs, *ours], ""),
            Self::Host { why } => (9, Vec::new(), why.as_str()),
        };
        let mut bytes = vec![kind];
        bytes.extend((numbers.len() as u32).to_le_bytes());
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        bytes.extend(beginning(text, LONGEST_TEXT).as_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&kind, rest) = bytes.split_first()?;
        let (count, rest) = rest.split_first_chunk()?;
        let len = usize::try_from(u32::from_le_bytes(*count)).ok()?;
        let (numbers, text) = rest.split_at_checked(len.checked_mul(4)?)?;
        let numbers = numbers.chunks_exact(4);
        let numbers: Vec<u32> = numbers
            .map(|number| u32::from_le_bytes(number.try_into().expect("four bytes")))
            .collect();
        let text = std::str::from_utf8(text).ok();
        let text = text.filter(|text| text.len() <= LONGEST_TEXT)?.to_owned();
        Some(match (kind, &numbers[..]) {
            (1, &[rank]) => Self::RankTwice { rank, places: text },
            (2, &[rank, size]) => Self::NoSuchRank {
                rank,
                size,
                place: text,
            },
            (3, &[rank, theirs, ours]) => Self::SizeDiffers { rank, theirs, ours },
            (4, &[limit, ref ranks @ ..]) => {
                let (address, seen) = text.split_once(' ')?;
                Self::Missing {
                    ranks: ranks.to_vec(),
                    address: address.to_owned(),
                    limit,
                    seen: seen.to_owned(),
                }
            }
            (5, &[rank]) => Self::Left { rank },
            (6, &[limit, ref ranks @ ..]) => Self::Silent {
                ranks: ranks.to_vec(),
                limit,
            },
            (7, &[rank]) => Self::Garbled { rank },
            (8, &[rank, theirs, ours]) => Self::LengthDiffers { rank, theirs, ours },
            (9, &[]) => Self::Host { why: text },
            _ => return None,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::rendezvous) fn all() -> Vec<Fault> {
        let text = || "10.0.0.1:80 and [::1]:80".to_owned();
        let ranks = || vec![1, 3, 4, 5, 63];
        vec![
            Fault::RankTwice {
                rank: 2,
                places: text(),
            },
            Fault::NoSuchRank {
                rank: 9,
                size: 8,
                place: text(),
            },
            Fault::SizeDiffers {
                rank: 1,
                theirs: 4,
                ours: 8,
            },
            Fault::Missing {
                ranks: ranks(),
                address: "host:80".to_owned(),
                limit: 600,
                seen: text(),
            },
            Fault::Left { rank: 7 },
            Fault::Silent {
                ranks: ranks(),
                limit: 1,
            },
            Fault::Garbled { rank: 0 },
            Fault::LengthDiffers {
                rank: 3,
                theirs: 88,
                ours: 8,
            },
            Fault::Host { why: text() },
        ]
    }

    #[test]
    fn faults_are_the_same_at_the_other_end() {
        for fault in all() {
            assert_eq!(Fault::decode(&fault.encode()), Some(fault));
        }
    }

    #[test]
    fn the_longest_fits() {
        let fault = Fault::Missing {
            ranks: (1..crate::rendezvous::MAX_RANKS).collect(),
            address: "host:80".to_owned(),
            limit: 1,
            seen: "x".repeat(LONGEST_TEXT),
        };
        assert!(fault.encode().len() <= LONGEST);
    }

    #[test]
    fn a_count_that_is_not_there_takes_no_memory() {
        assert_eq!(Fault::decode(&[4, 0xff, 0xff, 0xff, 0xff, 1, 2, 3]), None);
        assert_eq!(Fault::decode(&[]), None);
        assert_eq!(Fault::decode(&[5, 0, 0, 0, 0]), None);
    }
}
