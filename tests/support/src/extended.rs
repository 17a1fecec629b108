//! The x87 numbers that are `long double` on x86_64, calculated with integers. They are written from their definition,
//! to check the processor's results.

use std::cmp::Ordering;

/// Ten bytes: 64 bits of mantissa, the first of which is before the binary point, an exponent and a sign. They compare
/// as numbers.
#[derive(Clone, Copy, Debug)]
pub struct Extended(pub [u8; 10]);

/// The stored exponent of a mantissa between 1 and 2.
const BIAS: i32 = 16383;
/// The stored exponent of infinities and NaNs.
const SPECIAL: i32 = 0x7fff;
const POINT: u64 = 1 << 63;

#[derive(Clone, Copy)]
enum Number {
    None,
    Infinite {
        negative: bool,
    },
    /// The mantissa, which may be 0, times two to the power of the exponent.
    Finite {
        negative: bool,
        mantissa: u64,
        exponent: i32,
    },
}

impl Extended {
    /// Positive zero.
    pub const ZERO: Self = Self::of_parts(false, 0, 0);
    /// Positive infinity.
    pub const INFINITY: Self = Self::of_parts(false, SPECIAL, POINT);
    /// The result of undefined operations.
    pub const NAN: Self = Self::of_parts(true, SPECIAL, POINT | 1 << 62);
    /// One.
    pub const ONE: Self = Self::of_parts(false, BIAS, POINT);
    /// The largest finite number.
    pub const MAX: Self = Self::of_parts(false, SPECIAL - 1, u64::MAX);
    /// The smallest number above 0.
    pub const TINY: Self = Self::of_parts(false, 0, 1);

    /// The number with these stored parts, valid or not.
    pub const fn of_parts(negative: bool, exponent: i32, mantissa: u64) -> Self {
        let [a, b] = ((exponent as u16) | (negative as u16) << 15).to_le_bytes();
        let [c, d, e, f, g, h, i, j] = mantissa.to_le_bytes();
        Self([c, d, e, f, g, h, i, j, a, b])
    }

    /// Exactly this number.
    pub fn whole(number: u64) -> Self {
        round(false, number.into(), 0)
    }

    /// The first ten of these bytes.
    pub fn load(bytes: &[u8]) -> Self {
        Self(bytes[..10].try_into().expect("ten bytes"))
    }

    /// The number with the opposite sign.
    #[must_use]
    pub fn negated(mut self) -> Self {
        self.0[9] ^= 0x80;
        self
    }

    /// Whether the processor treats it as a NaN. Obsolete formats of numbers are among these.
    pub fn is_nan(self) -> bool {
        matches!(self.number(), Number::None)
    }

    fn number(self) -> Number {
        let mantissa = u64::from_le_bytes(self.0[..8].try_into().expect("eight bytes"));
        let high = u16::from_le_bytes([self.0[8], self.0[9]]);
        let (negative, exponent) = (high >> 15 == 1, i32::from(high & 0x7fff));
        match exponent {
            SPECIAL if mantissa == POINT => Number::Infinite { negative },
            SPECIAL => Number::None,
            // The first bit of these numbers may be 0.
            0 => Number::Finite {
                negative,
                mantissa,
                exponent: 1 - BIAS - 63,
            },
            _ if mantissa & POINT == 0 => Number::None,
            _ => Number::Finite {
                negative,
                mantissa,
                exponent: exponent - BIAS - 63,
            },
        }
    }

    /// The sum, rounded to the nearest number, ties to even.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let (a, b) = match (self.number(), other.number()) {
            (Number::None, _) | (_, Number::None) => return Self::NAN,
            (Number::Infinite { negative: a }, Number::Infinite { negative: b }) if a != b => {
                return Self::NAN;
            }
            (Number::Infinite { .. }, _) => return self,
            (_, Number::Infinite { .. }) => return other,
            finite => finite,
        };
        let (
            Number::Finite {
                negative: negative_a,
                mantissa: a,
                exponent: exponent_a,
            },
            Number::Finite {
                negative: negative_b,
                mantissa: b,
                exponent: exponent_b,
            },
        ) = (a, b)
        else {
            unreachable!("the others are done")
        };
        // Append 62 bits, and set the last of them if a bit is lost. So rounding never lacks more than one of the bits
        // that it needs.
        let exponent = match (a, b) {
            (0, _) => exponent_b,
            (_, 0) => exponent_a,
            _ => exponent_a.max(exponent_b),
        };
        let at = |mantissa: u64, own: i32, negative: bool| {
            let wide = u128::from(mantissa) << 62;
            let shifted = match mantissa {
                0 => 0,
                _ => shifted_right(wide, (exponent - own) as u32) as i128,
            };
            if negative { -shifted } else { shifted }
        };
        let sum = at(a, exponent_a, negative_a) + at(b, exponent_b, negative_b);
        match sum {
            0 => round(negative_a && negative_b, 0, 0),
            _ => round(sum < 0, sum.unsigned_abs(), exponent - 62),
        }
    }

    /// The product, rounded in the same way.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        let sign = (self.0[9] ^ other.0[9]) >> 7 == 1;
        match (self.number(), other.number()) {
            (Number::None, _) | (_, Number::None) => Self::NAN,
            (Number::Infinite { .. }, Number::Finite { mantissa: 0, .. })
            | (Number::Finite { mantissa: 0, .. }, Number::Infinite { .. }) => Self::NAN,
            (Number::Infinite { .. }, _) | (_, Number::Infinite { .. }) => match sign {
                true => Self::INFINITY.negated(),
                false => Self::INFINITY,
            },
            (
                Number::Finite {
                    mantissa: a,
                    exponent: exponent_a,
                    ..
                },
                Number::Finite {
                    mantissa: b,
                    exponent: exponent_b,
                    ..
                },
            ) => round(sign, u128::from(a) * u128::from(b), exponent_a + exponent_b),
        }
    }
}

impl PartialEq for Extended {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Extended {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let minus = other.negated();
        match (self.number(), other.number()) {
            (Number::None, _) | (_, Number::None) => None,
            (Number::Infinite { negative: a }, Number::Infinite { negative: b }) if a == b => {
                Some(Ordering::Equal)
            }
            // A difference is 0 only for equal numbers, and otherwise has the sign of the greater one.
            _ => Some(match self.plus(minus).number() {
                Number::Finite { mantissa: 0, .. } => Ordering::Equal,
                Number::Finite { negative, .. } | Number::Infinite { negative } => match negative {
                    true => Ordering::Less,
                    false => Ordering::Greater,
                },
                Number::None => unreachable!("the others are done"),
            }),
        }
    }
}

/// Divided by a power of two. The last bit is set if a bit is lost.
fn shifted_right(wide: u128, by: u32) -> u128 {
    if by >= u128::BITS {
        return u128::from(wide != 0);
    }
    let kept = wide >> by;
    kept | u128::from(kept << by != wide)
}

/// The number nearest to `wide` times two to the power of `exponent`.
fn round(negative: bool, wide: u128, exponent: i32) -> Extended {
    if wide == 0 {
        return Extended::of_parts(negative, 0, 0);
    }
    // Shift the leading 1 to the first bit.
    let lead = wide.leading_zeros();
    let wide = wide << lead;
    let mut stored = exponent - lead as i32 + 127 + BIAS;
    let wide = match stored {
        1.. => wide,
        // Too small for that: the mantissa begins with zeros.
        _ => shifted_right(wide, (1 - stored) as u32),
    };
    stored = stored.max(1);
    let (mut mantissa, rest) = ((wide >> 64) as u64, wide as u64);
    let up = rest > POINT || rest == POINT && mantissa & 1 == 1;
    if up {
        mantissa = mantissa.wrapping_add(1);
        if mantissa == 0 {
            mantissa = POINT;
            stored += 1;
        }
    }
    if mantissa & POINT == 0 {
        stored = 0;
    }
    match stored {
        SPECIAL.. => Extended::of_parts(negative, SPECIAL, POINT),
        _ => Extended::of_parts(negative, stored, mantissa),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares bit by bit, because zeros have signs.
    macro_rules! assert_same {
        ($found:expr, $wanted:expr $(,)?) => {
            assert_eq!($found.0, $wanted.0)
        };
    }

    fn power(exponent: i32) -> Extended {
        Extended::of_parts(false, exponent + BIAS, POINT)
    }

    /// Calculated by hand from the definition.
    #[test]
    fn it_calculates_as_on_paper() {
        let next = |number: Extended| {
            let mut bits =
                u128::from_le_bytes([&number.0[..], &[0; 6]].concat().try_into().unwrap());
            bits += 1;
            Extended::load(&bits.to_le_bytes())
        };
        assert_same!(Extended::whole(1), Extended::ONE);
        assert_same!(
            Extended::whole(3),
            Extended::of_parts(false, BIAS + 1, 3 << 62)
        );
        // 2^63 + 1 is representable, 2^64 + 1 is not, and 2^64 + 3 is rounded to 2^64 + 4, which is even.
        assert_same!(
            power(63).plus(Extended::ONE),
            Extended::whole((1 << 63) + 1)
        );
        assert_same!(power(64).plus(Extended::ONE), power(64));
        assert_same!(
            power(64).plus(Extended::whole(3)),
            Extended::of_parts(false, BIAS + 64, POINT + 2)
        );
        assert_same!(Extended::ONE.plus(power(-63)), next(Extended::ONE));
        assert_same!(Extended::ONE.plus(power(-64)), Extended::ONE);
        // (1 + 2^-63)^2 is slightly more than 1 + 2^-62.
        assert_same!(
            next(Extended::ONE).times(next(Extended::ONE)),
            next(next(Extended::ONE))
        );
        assert_same!(
            Extended::whole(u64::MAX).times(Extended::whole(u64::MAX)),
            Extended::of_parts(false, BIAS + 127, u64::MAX - 1)
        );
        // Bits that are lost also count in a difference.
        assert_same!(
            Extended::ONE.plus(power(-65).plus(power(-120)).negated()),
            Extended::of_parts(false, BIAS - 1, u64::MAX)
        );
        assert_same!(Extended::ONE.plus(power(-65).negated()), Extended::ONE);
    }

    #[test]
    fn it_knows_the_ends_of_the_range() {
        let (zero, minus) = (Extended::ZERO, Extended::ZERO.negated());
        assert_same!(zero.plus(minus), zero);
        assert_same!(minus.plus(minus), minus);
        assert_same!(minus.times(Extended::ONE), minus);
        assert_eq!(zero.partial_cmp(&minus), Some(Ordering::Equal));
        assert_same!(Extended::MAX.plus(Extended::MAX), Extended::INFINITY);
        assert_same!(
            Extended::TINY.plus(Extended::TINY),
            Extended::of_parts(false, 0, 2)
        );
        assert_same!(Extended::TINY.times(Extended::TINY), zero);
        let half = Extended::of_parts(false, BIAS - 1, POINT);
        assert_same!(Extended::TINY.times(half), zero);
        let three_halves = Extended::of_parts(false, BIAS, POINT | 1 << 62);
        assert_same!(
            Extended::TINY.times(three_halves),
            Extended::of_parts(false, 0, 2)
        );
        // The greatest number that begins with zeros, and the next one.
        let below = Extended::of_parts(false, 0, POINT - 1);
        assert_same!(
            below.plus(Extended::TINY),
            Extended::of_parts(false, 1, POINT)
        );
        let infinity = Extended::INFINITY;
        assert!(infinity.plus(infinity.negated()).is_nan());
        assert!(infinity.times(zero).is_nan());
        assert_same!(infinity.times(Extended::ONE.negated()), infinity.negated());
        assert_eq!(infinity.partial_cmp(&infinity), Some(Ordering::Equal));
        assert!(Extended::MAX < infinity && infinity.negated() < Extended::MAX.negated());
        assert_eq!(Extended::NAN.partial_cmp(&Extended::NAN), None);
        assert!(Extended::of_parts(false, BIAS, 1).is_nan());
    }
}
