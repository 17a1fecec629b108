use proptest::prelude::*;

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
        ($t:ty, $nan:expr) => {{
            let extent = ty.extent();
            let at = extent.min(8).max(size_of::<$t>()).min(ty.true_extent() - 4);
            let value = |e: &[u8]| <$t>::from_ne_bytes(e[..size_of::<$t>()].try_into().unwrap());
            let index = |e: &[u8]| i32::from_ne_bytes(e[at..at + 4].try_into().unwrap());
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
                    held[at..at + 4].copy_from_slice(&operand[at..at + 4]);
                }
            }
        }};
    }
    match ty {
        BasicType::I8 => integer!(i8),
        BasicType::U8 | BasicType::Bool | BasicType::Byte => integer!(u8),
        BasicType::I16 => integer!(i16),
        BasicType::U16 => integer!(u16),
        BasicType::I32 => integer!(i32),
        BasicType::U32 => integer!(u32),
        BasicType::I64 => integer!(i64),
        BasicType::U64 => integer!(u64),
        BasicType::F32 => float!(f32),
        BasicType::F64 => float!(f64),
        BasicType::ComplexF32 => complex!(f32),
        BasicType::ComplexF64 => complex!(f64),
        BasicType::FloatInt => pair!(f32, f32::is_nan),
        BasicType::DoubleInt => pair!(f64, f64::is_nan),
        BasicType::LongInt => pair!(i64, |_| false),
        BasicType::TwoInt => pair!(i32, |_| false),
        BasicType::ShortInt => pair!(i16, |_| false),
        BasicType::LongDouble | BasicType::ComplexLongDouble => {}
        BasicType::LongDoubleInt => {}
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
        for ty in BasicType::ALL.into_iter().take(8).chain([BasicType::Bool, BasicType::Byte]) {
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
