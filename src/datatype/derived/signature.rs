//! Type signatures: the sequence of predefined types in a layout, without displacements.

use super::super::BasicType;

/// A prime, so that the numbers below it are a field.
const MODULUS: u64 = (1 << 61) - 1;
/// What a place in the sequence weighs more than the next.
const WEIGHT: u64 = 0x0b5a_d4ec_eda1_ce2a;

/// The sequence as its length and a polynomial of its members over a prime field: concatenation
/// and repetition take a few multiplications however long it is. Equal sequences have equal
/// signatures; of different ones, less than one pair in 2^40 has, none of them by design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    /// How many members; a layout has no more than bytes.
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

    /// Pairs are two members, so that they match a struct of the two.
    pub(super) fn of(ty: BasicType) -> Self {
        use BasicType::{
            DoubleInt, F32, F64, FloatInt, I16, I32, I64, LongDouble, LongDoubleInt, LongInt,
            ShortInt, TwoInt,
        };
        let value = match ty {
            FloatInt => F32,
            DoubleInt => F64,
            LongInt => I64,
            TwoInt => I32,
            ShortInt => I16,
            LongDoubleInt => LongDouble,
            other => return Self::single(other),
        };
        Self::single(value).then(Self::single(I32))
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

fn plus(a: u64, b: u64) -> u64 {
    (a + b) % MODULUS
}

fn times(a: u64, b: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(MODULUS)) as u64
}
