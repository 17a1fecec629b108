//! Elements of every type.

use transom::BasicType;
use transom_testing::model as elements;
use transom_testing::random::Random;

use crate::access::Layout;

/// A small whole number in each member, so that sums of floats are exact in any order.
pub(crate) fn element(random: &mut Random, ty: BasicType) -> Vec<u8> {
    let mut bytes = vec![0; ty.extent()];
    // Few enough to meet again: then swaps succeed and values tie.
    let number = if random.one_in(2) {
        random.below(3)
    } else {
        random.below(100)
    };
    let value = elements::number(ty, number);
    bytes[..value.len()].copy_from_slice(&value);
    let index = (random.below(5) as i32).to_ne_bytes();
    match ty {
        BasicType::FloatInt | BasicType::TwoInt | BasicType::ShortInt => {
            bytes[4..8].copy_from_slice(&index);
        }
        BasicType::DoubleInt | BasicType::LongInt => bytes[8..12].copy_from_slice(&index),
        BasicType::LongDoubleInt => bytes[16..20].copy_from_slice(&index),
        BasicType::TwoFloat | BasicType::TwoDouble => {
            // A float, as the value is.
            let index = elements::number(half(ty), random.below(5));
            bytes[index.len()..].copy_from_slice(&index);
        }
        BasicType::Opaque16 | BasicType::Opaque32 => bytes = random.bytes(ty.extent()),
        _ => {}
    }
    bytes
}

fn half(ty: BasicType) -> BasicType {
    match ty {
        BasicType::TwoFloat => BasicType::F32,
        _ => BasicType::F64,
    }
}

/// A buffer for the elements of a layout, of random bytes or with numbers in it, and random bytes in
/// its gaps.
pub(crate) fn buffer(random: &mut Random, layout: &Layout, numbers: bool) -> Vec<u8> {
    let mut bytes = random.bytes(layout.len());
    if numbers {
        for (index, (_, ty)) in layout.places.iter().enumerate() {
            let place = layout.element(index);
            let value = element(random, *ty);
            bytes[place.clone()].copy_from_slice(&value[..place.len()]);
        }
    }
    bytes
}
