//! Type signatures: the sequence of predefined types in a layout, without displacements.

use super::super::BasicType;
use super::tree::{Contents, Datatype};

/// A prime, so that the integers modulo it are a field.
const MODULUS: u64 = (1 << 61) - 1;
/// The ratio of the weights of a place in the sequence and the next one.
const WEIGHT: u64 = 0x0b5a_d4ec_eda1_ce2a;

/// A sequence, represented by its length and a polynomial of its members over a prime field: concatenation and
/// repetition take a few multiplications for any length. Equal sequences have equal signatures. Of different sequences,
/// fewer than one pair in 2^40 has equal signatures, and none does by design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    /// The number of members; at most the number of bytes.
    pub(crate) len: u64,
    polynomial: u64,
    /// `WEIGHT` to the power of `len`.
    power: u64,
}

impl Signature {
    pub(super) const EMPTY: Self = Self {
        len: 0,
        polynomial: 0,
        power: 1,
    };

    /// Pairs count as two members, so that they match a struct of the two.
    pub(super) fn of(ty: BasicType) -> Self {
        match ty.members() {
            None => Self::single(ty),
            Some((value, index)) => Self::single(value).then(Self::single(index)),
        }
    }

    /// The signature of the first `len` members of `count` elements of a type; `None` if there are fewer. Walks down
    /// the tree once, and skips parts that are included as a whole.
    pub(super) fn of_first(len: u64, ty: &Datatype, count: u64) -> Option<Self> {
        let mut prefix = Prefix {
            all: Self::EMPTY,
            left: len,
        };
        let mut cut = prefix.take(count, ty);
        while let Some(element) = cut {
            cut = match &element.0.contents {
                Contents::Basic(pair) => {
                    let value = pair.members().map_or(*pair, |(value, _)| value);
                    prefix.take_one(Self::single(value));
                    None
                }
                Contents::Same(of) => prefix.take(1, of),
                Contents::Strided {
                    count,
                    block_len,
                    of,
                    ..
                } => prefix.take(count.saturating_mul(*block_len), of),
                Contents::Blocks { blocks, of } => {
                    let lens = blocks.iter().map(|block| block.len);
                    prefix.take(lens.fold(0, u64::saturating_add), of)
                }
                Contents::Members(members) => members
                    .iter()
                    .find_map(|(block, of)| prefix.take(block.len, of)),
            };
        }
        (prefix.left == 0).then_some(prefix.all)
    }

    fn single(ty: BasicType) -> Self {
        Self {
            len: 1,
            polynomial: times(ty as u64 + 1, 0x19c3_9a5b_3c6e_f372),
            power: WEIGHT,
        }
    }

    pub(super) fn then(self, next: Self) -> Self {
        Self {
            len: self.len + next.len,
            polynomial: plus(times(self.polynomial, next.power), next.polynomial),
            power: times(self.power, next.power),
        }
    }

    pub(crate) fn repeated(self, mut count: u64) -> Self {
        if self.len == 0 {
            return self;
        }
        let (mut all, mut doubled) = (Self::EMPTY, self);
        while count > 0 {
            if count & 1 == 1 {
                all = all.then(doubled);
            }
            count >>= 1;
            if count > 0 {
                doubled = doubled.then(doubled);
            }
        }
        all
    }
}

/// The beginning of a sequence.
struct Prefix {
    all: Signature,
    /// Members that are still to come.
    left: u64,
}

impl Prefix {
    fn take_one(&mut self, next: Signature) {
        self.all = self.all.then(next);
        self.left -= next.len;
    }

    /// Takes elements of a type as long as whole ones are included. If a part of the next element is included, returns
    /// its type.
    fn take<'t>(&mut self, count: u64, ty: &'t Datatype) -> Option<&'t Datatype> {
        let one = ty.0.outline.signature;
        let whole = self.left.checked_div(one.len)?.min(count);
        self.take_one(one.repeated(whole));
        (self.left > 0 && whole < count).then_some(ty)
    }
}

fn plus(a: u64, b: u64) -> u64 {
    (a + b) % MODULUS
}

/// Multiplies modulo the modulus. Since 2^61 is congruent to 1, the bits above the low 61 are simply added.
fn times(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    plus(product as u64 & MODULUS, (product >> 61) as u64)
}
