use proptest::prelude::*;
use transom_testing::extended::Extended;

use super::*;

/// As [`combine`] should, one element after the other, on the members of its bytes.
fn naive(ty: BasicType, op: Op, held: &mut [u8], operands: &[u8]) {
    macro_rules! each {
        ($t:ty, |$a:ident, $b:ident| $new:expr) => {{
            let size = size_of::<$t>();
            for (held, operand) in held.chunks_mut(size).zip(operands.chunks(size)) {
                let $a = <$t>::from_ne_bytes((&*held).try_into().unwrap());
                let $b = <$t>::from_ne_bytes(operand.try_into().unwrap());
                held.copy_from_slice(&$new.to_ne_bytes());
            }
        }};
    }
    macro_rules! integer {
        ($t:ty) => {
            each!($t, |a, b| match op {
                Op::Sum => (a as i128 + b as i128) as $t,
                Op::Prod => (a as i128).wrapping_mul(b as i128) as $t,
                Op::Min if b < a => b,
                Op::Max if b > a => b,
                Op::Band => a & b,
                Op::Bor => a | b,
                Op::Bxor => a ^ b,
                Op::Land => <$t>::from(a != 0 && b != 0),
                Op::Lor => <$t>::from(a != 0 || b != 0),
                Op::Lxor => <$t>::from((a != 0) != (b != 0)),
                _ => a,
            })
        };
    }
    macro_rules! float {
        ($t:ty) => {
            each!($t, |a, b| match op {
                Op::Sum => a + b,
                Op::Prod => a * b,
                Op::Min if a.is_nan() || b < a => b,
                Op::Max if a.is_nan() || b > a => b,
                _ => a,
            })
        };
    }
    macro_rules! complex {
        ($t:ty) => {{
            let size = size_of::<$t>();
            let read = |bytes: &[u8]| <$t>::from_ne_bytes(bytes.try_into().unwrap());
            let pairs = held.chunks_mut(2 * size).zip(operands.chunks(2 * size));
            for (held, operand) in pairs {
                let (a, b) = (read(&held[..size]), read(&held[size..]));
                let (c, d) = (read(&operand[..size]), read(&operand[size..]));
                let (re, im) = match op {
                    Op::Sum => (a + c, b + d),
                    Op::Prod => (a * c - b * d, a * d + b * c),
                    _ => (a, b),
                };
                held[..size].copy_from_slice(&re.to_ne_bytes());
                held[size..].copy_from_slice(&im.to_ne_bytes());
            }
        }};
    }
    macro_rules! pair {
        ($t:ty, $nan:expr) => {
            pair!($t, i32, $nan)
        };
        ($t:ty, $index:ty, $nan:expr) => {{
            let extent = ty.extent();
            let len = size_of::<$index>();
            let at = extent
                .min(8)
                .max(size_of::<$t>())
                .min(ty.true_extent() - len);
            let value = |e: &[u8]| <$t>::from_ne_bytes(e[..size_of::<$t>()].try_into().unwrap());
            let index = |e: &[u8]| <$index>::from_ne_bytes(e[at..at + len].try_into().unwrap());
            for (held, operand) in held.chunks_mut(extent).zip(operands.chunks(extent)) {
                let (a, b) = (value(held), value(operand));
                let is_nan: fn($t) -> bool = $nan;
                let take = match op {
                    Op::Minloc | Op::Maxloc if is_nan(a) => !is_nan(b),
                    Op::Minloc | Op::Maxloc if a == b => index(operand) < index(held),
                    Op::Minloc => b < a,
                    Op::Maxloc => b > a,
                    _ => false,
                };
                if take {
                    held[..size_of::<$t>()].copy_from_slice(&operand[..size_of::<$t>()]);
                    held[at..at + len].copy_from_slice(&operand[at..at + len]);
                }
            }
        }};
    }
    match ty {
        BasicType::I8 => integer!(i8),
        BasicType::U8 | BasicType::Bool | BasicType::Byte => integer!(u8),
        BasicType::I16 => integer!(i16),
        BasicType::U16 | BasicType::Logical2 => integer!(u16),
        BasicType::I32 => integer!(i32),
        BasicType::U32 | BasicType::Logical4 => integer!(u32),
        BasicType::I64 => integer!(i64),
        BasicType::U64 | BasicType::Logical8 => integer!(u64),
        BasicType::F32 => float!(f32),
        BasicType::F64 => float!(f64),
        BasicType::ComplexF32 => complex!(f32),
        BasicType::ComplexF64 => complex!(f64),
        BasicType::FloatInt => pair!(f32, f32::is_nan),
        BasicType::DoubleInt => pair!(f64, f64::is_nan),
        BasicType::LongInt => pair!(i64, |_| false),
        BasicType::TwoInt => pair!(i32, |_| false),
        BasicType::ShortInt => pair!(i16, |_| false),
        BasicType::TwoFloat => pair!(f32, f32, f32::is_nan),
        BasicType::TwoDouble => pair!(f64, f64, f64::is_nan),
        BasicType::LongDouble | BasicType::ComplexLongDouble | BasicType::LongDoubleInt => {
            extended(ty, op, held, operands);
        }
        BasicType::Opaque16 | BasicType::Opaque32 => {}
    }
}

/// As [`naive`], by integers.
fn extended(ty: BasicType, op: Op, held: &mut [u8], operands: &[u8]) {
    let load = |bytes: &[u8], at: usize| Extended::load(&bytes[16 * at..]);
    let store = |bytes: &mut [u8], at: usize, value: Extended| {
        bytes[16 * at..][..10].copy_from_slice(&value.0)
    };
    let elements = held.chunks_mut(ty.extent());
    for (held, operand) in elements.zip(operands.chunks(ty.extent())) {
        let (a, b) = (load(held, 0), load(operand, 0));
        let index = |e: &[u8]| i32::from_ne_bytes(e[16..20].try_into().unwrap());
        let wanted = match op {
            Op::Min | Op::Minloc => b < a,
            _ => b > a,
        };
        match (ty, op) {
            (BasicType::LongDouble, Op::Sum) => store(held, 0, a.plus(b)),
            (BasicType::LongDouble, Op::Prod) => store(held, 0, a.times(b)),
            (BasicType::LongDouble, _) if a.is_nan() || wanted => store(held, 0, b),
            (BasicType::ComplexLongDouble, Op::Sum) => {
                store(held, 0, a.plus(b));
                store(held, 1, load(held, 1).plus(load(operand, 1)));
            }
            (BasicType::ComplexLongDouble, _) => {
                let (c, d) = (load(held, 1), load(operand, 1));
                store(held, 0, a.times(b).plus(c.times(d).negated()));
                store(held, 1, a.times(d).plus(c.times(b)));
            }
            (BasicType::LongDoubleInt, _) => {
                let is_lower = a == b && index(operand) < index(held);
                if wanted || is_lower || a.is_nan() && !b.is_nan() {
                    store(held, 0, b);
                    held[16..20].copy_from_slice(&operand[16..20]);
                }
            }
            _ => {}
        }
    }
}

/// Whether two results are the same bits, but for the payload of a NaN.
fn same(ty: BasicType, a: &[u8], b: &[u8]) -> bool {
    macro_rules! floats {
        ($t:ty) => {
            a.chunks(size_of::<$t>())
                .zip(b.chunks(size_of::<$t>()))
                .all(|(a, b)| {
                    let is_nan =
                        |bytes: &[u8]| <$t>::from_ne_bytes(bytes.try_into().unwrap()).is_nan();
                    a == b || is_nan(a) && is_nan(b)
                })
        };
    }
    match ty {
        BasicType::F32 | BasicType::ComplexF32 => floats!(f32),
        BasicType::F64 | BasicType::ComplexF64 => floats!(f64),
        BasicType::LongDouble | BasicType::ComplexLongDouble => {
            let is_nan = |bytes: &[u8]| Extended::load(bytes).is_nan();
            a.chunks(16)
                .zip(b.chunks(16))
                .all(|(a, b)| a == b || is_nan(a) && is_nan(b) && a[10..] == b[10..])
        }
        _ => a == b,
    }
}

/// Bytes among which numbers meet that are equal, zero of either sign, infinite or none.
fn elements() -> impl Strategy<Value = Vec<u8>> {
    let special = prop_oneof![
        Just(0.0_f64.to_ne_bytes()),
        Just((-0.0_f64).to_ne_bytes()),
        Just(f64::NAN.to_ne_bytes()),
        Just(f64::INFINITY.to_ne_bytes()),
        Just(1.5_f64.to_ne_bytes()),
        Just(
            [f32::NAN.to_ne_bytes(), (-0.0_f32).to_ne_bytes()]
                .concat()
                .try_into()
                .unwrap()
        ),
        Just(
            [0.0_f32.to_ne_bytes(), 3_i32.to_ne_bytes()]
                .concat()
                .try_into()
                .unwrap()
        ),
        Just(
            [0.0_f32.to_ne_bytes(), 2_i32.to_ne_bytes()]
                .concat()
                .try_into()
                .unwrap()
        ),
        any::<[u8; 8]>(),
        Just([0xff; 8]),
        // Halves of long doubles: mantissas, and exponents with what is behind them.
        Just((1_u64 << 63).to_le_bytes()),
        Just((1_u64 << 63 | 1).to_le_bytes()),
        any::<u64>().prop_map(|mantissa| (mantissa | 1 << 63).to_le_bytes()),
        (16310..16450_u64).prop_map(|exponent| (exponent | 0x5a << 16).to_le_bytes()),
        prop::sample::select(vec![0_u64, 1, 0x3fff, 0x7ffe, 0x7fff, 0xbfff, 0x8000])
            .prop_map(|exponent| (exponent | 0xa5 << 40).to_le_bytes()),
    ];
    prop::collection::vec(special, 0..160).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn loops_do_what_single_elements_do(
        held in elements(),
        operands in elements(),
        shift in 0..8_usize,
    ) {
        for ty in BasicType::ALL {
            let count = held.len().min(operands.len()) / ty.extent();
            let len = count * ty.extent();
            for op in Op::ALL {
                let mut wanted = held[..len].to_vec();
                if !matches!(op, Op::Replace | Op::NoOp) && op.is_defined_for(ty) {
                    naive(ty, op, &mut wanted, &operands[..len]);
                }
                // At an odd place, with a byte behind.
                let mut found = [&vec![0x5a; shift][..], &held[..len], &[0xa5]].concat();
                let undefined = !op.is_defined_for(ty);
                if !undefined {
                    // SAFETY: both hold `count` elements, and nothing else refers to them.
                    unsafe {
                        combine(ty, op, found.as_mut_ptr().add(shift), operands.as_ptr(), count);
                        let mut plain = held[..len].to_vec();
                        combine_by(ty, op, plain.as_mut_ptr(), operands.as_ptr(), count);
                        prop_assert!(same(ty, &plain, &wanted), "{op:?} {ty:?}");
                    }
                }
                prop_assert!(
                    same(ty, &found[shift..shift + len], &wanted),
                    "{op:?} {ty:?}: {:x?} and {:x?}", &held[..len], &operands[..len]
                );
                prop_assert_eq!(found[shift + len], 0xa5);
            }
        }
    }

    #[test]
    fn words_do_what_loops_do(held in any::<u64>(), operand in any::<u64>(), equal in any::<bool>()) {
        let operand = if equal { held } else { operand };
        for ty in BasicType::ALL.into_iter().filter(|ty| ty.is_swapped()) {
            let mask = u64::MAX >> (64 - 8 * ty.size());
            for op in Op::ALL.into_iter().filter(|op| op.is_defined_for(ty)) {
                let mut wanted = (held & mask).to_ne_bytes();
                match op {
                    Op::Replace => wanted = (operand & mask).to_ne_bytes(),
                    Op::NoOp => {}
                    _ => naive(ty, op, &mut wanted[..ty.size()], &operand.to_ne_bytes()[..ty.size()]),
                }
                let found = combine_word(ty, op, held & mask, operand & mask);
                prop_assert_eq!(found, u64::from_ne_bytes(wanted), "{:?} {:?}", op, ty);
            }
        }
    }
}

#[test]
fn of_equal_values_the_lower_index_counts() {
    let pair = |value: f64, index: i32| {
        let mut bytes = [0x77; 16];
        bytes[..8].copy_from_slice(&value.to_ne_bytes());
        bytes[8..12].copy_from_slice(&index.to_ne_bytes());
        bytes
    };
    for (op, a, b, wanted) in [
        (Op::Minloc, (1.0, 5), (1.0, 3), (1.0, 3)),
        (Op::Minloc, (1.0, 3), (1.0, 5), (1.0, 3)),
        (Op::Maxloc, (1.0, 5), (1.0, 3), (1.0, 3)),
        (Op::Maxloc, (1.0, 5), (2.0, 9), (2.0, 9)),
        (Op::Minloc, (1.0, 5), (2.0, 1), (1.0, 5)),
    ] {
        let mut held = pair(a.0, a.1);
        let operand = pair(b.0, b.1);
        // SAFETY: one element each.
        unsafe {
            combine(
                BasicType::DoubleInt,
                op,
                held.as_mut_ptr(),
                operand.as_ptr(),
                1,
            )
        };
        assert_eq!(held, pair(wanted.0, wanted.1), "{op:?} {a:?} {b:?}");
    }
}

/// Numbers that a double has not, at odd addresses: what becomes of them, and of the padding.
#[cfg(target_arch = "x86_64")]
mod long_doubles {
    use super::*;

    /// Bit by bit: zeros have signs.
    macro_rules! assert_same {
        ($found:expr, $wanted:expr) => {
            assert_eq!($found.0, $wanted.0)
        };
    }

    const PADDING: [u8; 6] = [0x11, 0x22, 0x33, 0x44, 0x55, 0x66];

    fn padded(Extended(value): Extended, padding: [u8; 6]) -> Vec<u8> {
        [&value[..], &padding].concat()
    }

    /// What is held becomes, in one of several elements that do not stand aligned.
    fn becomes(op: Op, held: Extended, operand: Extended) -> Extended {
        let elements = [(); 3].map(|()| padded(held, PADDING)).concat();
        let mut found = [&[0x77], &elements[..], &[0x88]].concat();
        let operands = padded(operand, [0xee; 6]).repeat(3);
        // SAFETY: three elements each, at one address more in what is changed.
        unsafe {
            let to = found.as_mut_ptr().add(1);
            combine(BasicType::LongDouble, op, to, operands.as_ptr(), 3);
        }
        assert_eq!((found[0], found[49]), (0x77, 0x88));
        let new = Extended::load(&found[1..]);
        for element in found[1..49].chunks(16) {
            assert_eq!(element, padded(new, PADDING), "{op:?}");
        }
        new
    }

    #[test]
    fn all_64_bits_of_the_mantissa_count() {
        let whole = Extended::whole;
        let power = |exponent: i32| Extended::of_parts(false, 16383 + exponent, 1 << 63);
        let odd = whole((1 << 63) + 1);
        assert_same!(becomes(Op::Sum, whole(1 << 63), whole(1)), odd);
        assert_same!(becomes(Op::Prod, odd, whole(1)), odd);
        let near = Extended::of_parts(false, 16383, (1 << 63) + 1);
        assert_same!(becomes(Op::Sum, Extended::ONE, power(-63)), near);
        assert_same!(becomes(Op::Max, Extended::ONE, near), near);
        assert_same!(becomes(Op::Min, near, Extended::ONE), Extended::ONE);
        // (2^32 + 1)(2^32 - 1) is 2^64 - 1: all bits.
        let product = becomes(Op::Prod, whole((1 << 32) + 1), whole((1 << 32) - 1));
        assert_same!(product, whole(u64::MAX));
        // Past what a double's exponent holds.
        assert_same!(becomes(Op::Prod, power(1023), power(1023)), power(2046));
    }

    #[test]
    fn ends_of_the_range_are_as_ieee_says() {
        let (zero, one, infinity) = (Extended::ZERO, Extended::ONE, Extended::INFINITY);
        let nan = Extended::NAN;
        assert!(becomes(Op::Sum, infinity, infinity.negated()).is_nan());
        assert!(becomes(Op::Prod, infinity, zero).is_nan());
        assert_same!(becomes(Op::Sum, Extended::MAX, Extended::MAX), infinity);
        assert_same!(becomes(Op::Prod, Extended::TINY, Extended::TINY), zero);
        assert_same!(becomes(Op::Prod, zero, one.negated()), zero.negated());
        assert_same!(
            becomes(Op::Sum, zero.negated(), zero.negated()),
            zero.negated()
        );
        assert_same!(becomes(Op::Sum, zero, zero.negated()), zero);
        // Neither zero is the smaller: what is held stays.
        for op in [Op::Min, Op::Max] {
            assert_same!(becomes(op, zero, zero.negated()), zero);
            assert_same!(becomes(op, zero.negated(), zero), zero.negated());
            assert_same!(becomes(op, nan, one), one);
            assert_same!(becomes(op, one, nan), one);
            // Whatever comes where there was no number, bit by bit.
            let other = Extended::of_parts(false, 0x3b07, 0x634d_c8ae_5458_5321);
            assert_same!(becomes(op, nan, other), other);
        }
        assert_same!(
            becomes(Op::Min, infinity.negated(), one),
            infinity.negated()
        );
        assert_same!(becomes(Op::Max, Extended::MAX, infinity), infinity);
    }

    #[test]
    fn indexes_follow_their_values() {
        let element = |value: Extended, index: i32, fill: u8| {
            let mut bytes = vec![fill; 32];
            bytes[..10].copy_from_slice(&value.0);
            bytes[16..20].copy_from_slice(&index.to_ne_bytes());
            bytes
        };
        let (zero, one, near) = (
            Extended::ZERO,
            Extended::ONE,
            Extended::of_parts(false, 16383, (1 << 63) + 1),
        );
        for (op, (a, i), (b, j), (c, k)) in [
            (Op::Maxloc, (one, 1), (near, 9), (near, 9)),
            (Op::Minloc, (one, 1), (near, 0), (one, 1)),
            (Op::Minloc, (near, 3), (one, 9), (one, 9)),
            (Op::Maxloc, (near, 7), (near, 2), (near, 2)),
            (Op::Minloc, (near, 2), (near, 7), (near, 2)),
            // Zeros are equal.
            (
                Op::Minloc,
                (zero, 7),
                (zero.negated(), 2),
                (zero.negated(), 2),
            ),
            (Op::Minloc, (Extended::NAN, 1), (one, 5), (one, 5)),
            (Op::Maxloc, (one, 5), (Extended::NAN, 1), (one, 5)),
        ] {
            let mut held = element(a, i, 0x33);
            let operand = element(b, j, 0x99);
            // SAFETY: one element each.
            unsafe {
                let (to, from) = (held.as_mut_ptr(), operand.as_ptr());
                combine(BasicType::LongDoubleInt, op, to, from, 1);
            }
            // The padding stays.
            assert_eq!(held, element(c, k, 0x33), "{op:?}");
        }
    }
}
