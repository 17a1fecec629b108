//! What travels over a connection: requests of an origin to a target, and the target's answers. Bytes in, values out.

use crate::device::combine::{Combination, Operands};
use crate::fields::Fields;
use crate::{Access, Error, RemoteAddress, Width};

/// The requests to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Store the `len` bytes that follow.
    Write,
    /// Answer with `len` bytes.
    Read,
    /// Add the first operand to a word, and answer with its previous value.
    FetchAdd,
    /// Replace a word by the second operand if it equals the first, and answer with its previous value.
    CompareSwap,
    /// Store the first operand in a word.
    Store,
    /// Add each of the words that follow to the corresponding word.
    AddEach,
    /// Store each of the words that follow.
    StoreEach,
    /// An accumulate. `what` tells whether operands follow, and whether the answer has the previous elements. `len` is
    /// that of the elements in memory. The operands are the address and the key of the lock.
    Combine,
    /// Acknowledge this request, and thereby all before it, at once: the origin waits.
    Acknowledge,
    /// Expect no further request: the origin no longer needs the connection.
    Disconnect,
    /// As `Disconnect`; also, the origin's process leaves the job in good order.
    Leave,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::Write,
        Self::Read,
        Self::FetchAdd,
        Self::CompareSwap,
        Self::Store,
        Self::AddEach,
        Self::StoreEach,
        Self::Combine,
        Self::Acknowledge,
        Self::Disconnect,
        Self::Leave,
    ];

    fn need(self) -> Access {
        match self {
            Self::Write => Access::WRITE,
            Self::Read => Access::READ,
            _ => Access::ATOMIC,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::FetchAdd => "fetch_add",
            Self::CompareSwap => "compare_swap",
            Self::Store => "store",
            Self::AddEach => "update_each (add)",
            Self::StoreEach => "update_each (store)",
            Self::Combine => "accumulate",
            Self::Acknowledge => "acknowledge",
            Self::Disconnect => "disconnect",
            Self::Leave => "leave",
        }
    }

    /// Whether `len` bytes follow the request.
    pub(super) fn has_payload(self) -> bool {
        matches!(self, Self::Write | Self::AddEach | Self::StoreEach)
    }
}

/// A request, without the bytes that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) kind: Kind,
    /// The width of the words, for atomics; other requests do not use it.
    pub(super) width: Width,
    /// What `Combine` does; other requests do not use it.
    pub(super) what: Combination,
    pub(super) at: RemoteAddress,
    pub(super) len: u64,
    pub(super) operands: [u64; 2],
}

pub(super) const REQUEST: usize = 48;

impl Request {
    /// A request without operands.
    pub(super) fn of(kind: Kind) -> Self {
        Self {
            kind,
            width: Width::W8,
            what: Combination::default(),
            at: RemoteAddress::default(),
            len: 0,
            operands: [0; 2],
        }
    }

    pub(super) fn encode(&self) -> [u8; REQUEST] {
        let mut bytes = [0; REQUEST];
        bytes[0] = self.kind as u8;
        bytes[1] = self.width.bytes() as u8;
        bytes[2..6].copy_from_slice(&self.what.encode());
        let [first, second] = self.operands;
        let fields = [self.at.address, self.at.rkey, self.len, first, second];
        for (place, field) in bytes[8..].chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    /// `None` if no origin sends these bytes.
    pub(super) fn decode(bytes: &[u8; REQUEST]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let [kind, width, a, b, c, d, ..] = fields.array::<8>()?;
        let what = Combination::decode([a, b, c, d])?;
        let kind = *Kind::ALL.get(usize::from(kind))?;
        let width = match width {
            1 => Width::W1,
            2 => Width::W2,
            4 => Width::W4,
            8 => Width::W8,
            _ => return None,
        };
        let at = RemoteAddress {
            address: fields.u64()?,
            rkey: fields.u64()?,
        };
        let request = Self {
            kind,
            width,
            what,
            at,
            len: fields.u64()?,
            operands: [fields.u64()?, fields.u64()?],
        };
        request.is_sound().then_some(request)
    }

    /// The right that the region has to grant.
    pub(super) fn need(&self) -> Access {
        match (self.kind, self.what.operands) {
            (Kind::Combine, Operands::None) => Access::READ,
            _ => self.kind.need(),
        }
    }

    /// The lock of an accumulate.
    pub(super) fn lock(&self) -> RemoteAddress {
        let [address, rkey] = self.operands;
        RemoteAddress { address, rkey }
    }

    fn is_sound(&self) -> bool {
        let word = self.width.bytes() as u64;
        match self.kind {
            Kind::Write | Kind::Read => true,
            Kind::Combine => self.what.fetches || self.what.operands != Operands::None,
            Kind::AddEach | Kind::StoreEach => self.len.is_multiple_of(word),
            Kind::FetchAdd | Kind::CompareSwap | Kind::Store => self.len == word,
            Kind::Acknowledge | Kind::Disconnect | Kind::Leave => self.len == 0,
        }
    }
}

/// Why a target refuses a request. It does nothing more for this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NoRegion,
    NoRight,
    Outside,
    Misaligned,
    NotMapped,
    NoCombination,
    NoLock,
}

impl Refusal {
    const ALL: [Self; 7] = [
        Self::NoRegion,
        Self::NoRight,
        Self::Outside,
        Self::Misaligned,
        Self::NotMapped,
        Self::NoCombination,
        Self::NoLock,
    ];

    fn reason(self) -> &'static str {
        match self {
            Self::NoRegion => "no region has this rkey",
            Self::NoRight => "the region does not grant this right",
            Self::Outside => "it is not inside the region",
            Self::Misaligned => "the word is not aligned",
            Self::NotMapped => "its process has unmapped it, or taken away the right to it",
            Self::NoCombination => "the process there does not know this operation on this type",
            Self::NoLock => "the word that it names as the lock is none",
        }
    }

    /// The origin's error for the request.
    pub(super) fn error(self, request: &Request, pid: u32, host: &std::sync::Arc<str>) -> Error {
        Error::RemoteAccess {
            need: request.kind.name(),
            address: request.at.address,
            len: request.len,
            pid,
            host: Some(host.clone()),
            rkey: request.at.rkey,
            reason: self.reason(),
        }
    }
}

/// The answers of a target, in the order of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// This many requests of the connection are done, counted from the first.
    Done(u64),
    /// The next bytes of the earliest incomplete read follow, this many.
    Data(u64),
    /// The previous value of the word, for the earliest unanswered atomic.
    Old(u64),
    /// The request that follows was refused.
    Refused(Refusal),
    /// The target's process leaves the job in good order.
    Left,
}

pub(super) const ANSWER: usize = 16;

impl Answer {
    pub(super) fn encode(self) -> [u8; ANSWER] {
        let (kind, value) = match self {
            Self::Done(count) => (0, count),
            Self::Data(len) => (1, len),
            Self::Old(value) => (2, value),
            Self::Refused(refusal) => (3, refusal as u64),
            Self::Left => (4, 0),
        };
        let mut bytes = [0; ANSWER];
        bytes[0] = kind;
        bytes[8..].copy_from_slice(&u64::to_le_bytes(value));
        bytes
    }

    /// `None` if no target sends these bytes.
    pub(super) fn decode(bytes: &[u8; ANSWER]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let [kind, ..] = fields.array::<8>()?;
        let value = fields.u64()?;
        Some(match kind {
            0 => Self::Done(value),
            1 => Self::Data(value),
            2 => Self::Old(value),
            3 => Self::Refused(*Refusal::ALL.get(usize::try_from(value).ok()?)?),
            4 => Self::Left,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(kind: Kind) -> Request {
        Request {
            kind,
            width: Width::W4,
            what: Combination {
                operation: 1,
                ty: 2,
                atomics: 3,
                operands: Operands::Compared,
                fetches: true,
            },
            at: RemoteAddress {
                address: 1 << 40,
                rkey: 7,
            },
            len: match kind {
                Kind::Acknowledge | Kind::Disconnect | Kind::Leave => 0,
                _ => 4,
            },
            operands: [8, 1],
        }
    }

    #[test]
    fn requests_and_answers_survive_the_journey() {
        for (code, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, code);
            let request = request(kind);
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        let refusals = Refusal::ALL.map(Answer::Refused);
        let others = [
            Answer::Done(3),
            Answer::Data(u64::MAX),
            Answer::Old(9),
            Answer::Left,
        ];
        for answer in refusals.into_iter().chain(others) {
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
    }

    #[test]
    fn what_nobody_sends_is_none() {
        let wrong = |place: usize, byte| {
            let mut bytes = request(Kind::AddEach).encode();
            bytes[place] = byte;
            Request::decode(&bytes)
        };
        assert_eq!(wrong(0, Kind::ALL.len() as u8), None);
        assert_eq!(wrong(1, 3), None);
        assert_eq!(wrong(5, 3), None, "operands of no form");
        assert_eq!(wrong(24, 5), None, "a word and a part of one");
        assert_eq!(
            wrong(0, Kind::FetchAdd as u8),
            Some(request(Kind::FetchAdd))
        );
        assert_eq!(wrong(0, Kind::Leave as u8), None);
        let mut bytes = Answer::Left.encode();
        bytes[0] = 5;
        assert_eq!(Answer::decode(&bytes), None);
        let mut bytes = Answer::Refused(Refusal::NoRegion).encode();
        bytes[8] = Refusal::ALL.len() as u8;
        assert_eq!(Answer::decode(&bytes), None);
    }
}
