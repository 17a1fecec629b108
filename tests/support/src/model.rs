//! The serial model of accumulates: the result of each operation for each type, byte by byte in C's layout. It was
//! written without reference to the library.

use transom::{BasicType, Op};

use crate::extended::Extended;
use crate::random::Random;

/// A member of an element: its type, and its offset.
#[derive(Clone, Copy, PartialEq)]
enum Member {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
    /// C's `long double` on x86_64: ten bytes, and six bytes of padding.
    F80,
    /// Can only be moved.
    Opaque(usize),
}

use Member as M;

impl Member {
    fn size(self) -> usize {
        match self {
            M::I8 | M::U8 => 1,
            M::I16 | M::U16 => 2,
            M::I32 | M::U32 | M::F32 => 4,
            M::I64 | M::U64 | M::F64 => 8,
            M::F80 => 16,
            M::Opaque(size) => size,
        }
    }

    /// The number of bytes that are its value.
    fn value(self) -> usize {
        match self {
            M::F80 => 10,
            _ => self.size(),
        }
    }

    fn is_float(self) -> bool {
        matches!(self, M::F32 | M::F64 | M::F80)
    }
}

/// Whether this machine's long doubles are in the format that the model calculates.
const EXTENDED: bool = cfg!(target_arch = "x86_64");

fn members(ty: BasicType) -> &'static [(usize, Member)] {
    match ty {
        BasicType::I8 => &[(0, M::I8)],
        BasicType::U8 | BasicType::Bool | BasicType::Byte => &[(0, M::U8)],
        BasicType::I16 => &[(0, M::I16)],
        BasicType::U16 | BasicType::Logical2 => &[(0, M::U16)],
        BasicType::I32 => &[(0, M::I32)],
        BasicType::U32 | BasicType::Logical4 => &[(0, M::U32)],
        BasicType::I64 => &[(0, M::I64)],
        BasicType::U64 | BasicType::Logical8 => &[(0, M::U64)],
        BasicType::F32 => &[(0, M::F32)],
        BasicType::F64 => &[(0, M::F64)],
        BasicType::LongDouble if EXTENDED => &[(0, M::F80)],
        BasicType::ComplexLongDouble if EXTENDED => &[(0, M::F80), (16, M::F80)],
        BasicType::LongDoubleInt if EXTENDED => &[(0, M::F80), (16, M::I32)],
        BasicType::LongDouble | BasicType::Opaque16 => &[(0, M::Opaque(16))],
        BasicType::ComplexLongDouble | BasicType::Opaque32 => &[(0, M::Opaque(32))],
        BasicType::ComplexF32 | BasicType::TwoFloat => &[(0, M::F32), (4, M::F32)],
        BasicType::ComplexF64 | BasicType::TwoDouble => &[(0, M::F64), (8, M::F64)],
        BasicType::FloatInt => &[(0, M::F32), (4, M::I32)],
        BasicType::DoubleInt => &[(0, M::F64), (8, M::I32)],
        BasicType::LongInt => &[(0, M::I64), (8, M::I32)],
        BasicType::TwoInt => &[(0, M::I32), (4, M::I32)],
        BasicType::ShortInt => &[(0, M::I16), (4, M::I32)],
        BasicType::LongDoubleInt => &[(0, M::Opaque(16)), (16, M::I32)],
        other => panic!("the model does not know {other:?}"),
    }
}

fn is_complex(ty: BasicType) -> bool {
    match ty {
        BasicType::ComplexF32 | BasicType::ComplexF64 => true,
        BasicType::ComplexLongDouble => EXTENDED,
        _ => false,
    }
}

/// The table of MPI-4.1, section 6.9.2.
pub fn is_defined(op: Op, ty: BasicType) -> bool {
    let members = members(ty);
    let logical = matches!(
        ty,
        BasicType::Bool | BasicType::Logical2 | BasicType::Logical4 | BasicType::Logical8
    );
    let opaque = matches!(members[0].1, M::Opaque(_));
    let float = members.len() == 1 && members[0].1.is_float();
    let integer = members.len() == 1 && !float && !opaque && !logical && ty != BasicType::Byte;
    let pair = members.len() == 2 && !is_complex(ty) && !opaque;
    match op {
        Op::Replace | Op::NoOp => true,
        Op::Sum | Op::Prod => integer || float || is_complex(ty),
        Op::Min | Op::Max => integer || float,
        Op::Band | Op::Bor | Op::Bxor => integer || ty == BasicType::Byte,
        Op::Land | Op::Lor | Op::Lxor => integer || logical,
        Op::Minloc | Op::Maxloc => pair,
        other => panic!("the model does not know {other:?}"),
    }
}

/// Whether compare_and_swap accepts the type.
pub fn swaps(ty: BasicType) -> bool {
    is_defined(Op::Band, ty) || is_defined(Op::Land, ty)
}

/// A number of any type, without loss of precision.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Value {
    Integer(i128),
    Float(f64),
    Extended(Extended),
}

fn load(member: Member, bytes: &[u8]) -> Value {
    macro_rules! integer {
        ($t:ty) => {
            Value::Integer(<$t>::from_ne_bytes(bytes.try_into().unwrap()).into())
        };
    }
    match member {
        M::I8 => integer!(i8),
        M::U8 => integer!(u8),
        M::I16 => integer!(i16),
        M::U16 => integer!(u16),
        M::I32 => integer!(i32),
        M::U32 => integer!(u32),
        M::I64 => integer!(i64),
        M::U64 => integer!(u64),
        M::F32 => Value::Float(f32::from_ne_bytes(bytes.try_into().unwrap()).into()),
        M::F64 => Value::Float(f64::from_ne_bytes(bytes.try_into().unwrap())),
        M::F80 => Value::Extended(Extended::load(bytes)),
        M::Opaque(_) => unreachable!("moved only"),
    }
}

fn store(member: Member, bytes: &mut [u8], value: Value) {
    match (member, value) {
        (M::F32, Value::Float(value)) => bytes.copy_from_slice(&(value as f32).to_ne_bytes()),
        (M::F64, Value::Float(value)) => bytes.copy_from_slice(&value.to_ne_bytes()),
        (M::F80, Value::Extended(Extended(value))) => bytes[..10].copy_from_slice(&value),
        // Take the low bytes, because integers wrap.
        (_, Value::Integer(value)) => {
            let low = bytes.iter_mut().zip(value.to_ne_bytes());
            low.for_each(|(byte, value)| *byte = value);
        }
        _ => unreachable!("floats stay floats"),
    }
}

fn calculate(op: Op, a: Value, b: Value) -> Value {
    let truth = |value: bool| Value::Integer(value.into());
    match (a, b) {
        (Value::Integer(a), Value::Integer(b)) => match op {
            Op::Sum => Value::Integer(a.wrapping_add(b)),
            Op::Prod => Value::Integer(a.wrapping_mul(b)),
            Op::Min => Value::Integer(if b < a { b } else { a }),
            Op::Max => Value::Integer(if b > a { b } else { a }),
            Op::Band => Value::Integer(a & b),
            Op::Bor => Value::Integer(a | b),
            Op::Bxor => Value::Integer(a ^ b),
            Op::Land => truth(a != 0 && b != 0),
            Op::Lor => truth(a != 0 || b != 0),
            Op::Lxor => truth((a != 0) != (b != 0)),
            _ => unreachable!("not for numbers"),
        },
        (Value::Float(a), Value::Float(b)) => Value::Float(match op {
            Op::Sum => a + b,
            Op::Prod => a * b,
            Op::Min if a.is_nan() || b < a => b,
            Op::Max if a.is_nan() || b > a => b,
            _ => a,
        }),
        (Value::Extended(a), Value::Extended(b)) => Value::Extended(match op {
            Op::Sum => a.plus(b),
            Op::Prod => a.times(b),
            Op::Min if a.is_nan() || b < a => b,
            Op::Max if a.is_nan() || b > a => b,
            _ => a,
        }),
        _ => unreachable!("one type"),
    }
}

/// `held = held op operands`, without padding. The padding of the last element may be missing.
pub fn apply(op: Op, ty: BasicType, held: &mut [u8], operands: &[u8]) {
    let members = members(ty);
    for (held, operand) in held
        .chunks_mut(ty.extent())
        .zip(operands.chunks(ty.extent()))
    {
        let at = |index: usize| members[index].0..members[index].0 + members[index].1.size();
        // If the operation compares values, only the value is moved. If it does not, the padding is moved too.
        let take = |held: &mut [u8], len: fn(Member) -> usize| {
            for &(at, member) in members {
                let at = at..at + len(member);
                held[at.clone()].copy_from_slice(&operand[at]);
            }
        };
        let value = |bytes: &[u8], index: usize| load(members[index].1, &bytes[at(index)]);
        match op {
            Op::NoOp => {}
            Op::Replace => take(held, Member::size),
            Op::Minloc | Op::Maxloc => {
                let (ours, theirs) = (value(held, 0), value(operand, 0));
                let better = match op {
                    Op::Minloc => theirs < ours,
                    _ => theirs > ours,
                };
                let lower = theirs == ours && value(operand, 1) < value(held, 1);
                if better || lower || is_nan(ours) && !is_nan(theirs) {
                    take(held, Member::value);
                }
            }
            Op::Prod if is_complex(ty) => complex_product(ty, held, operand),
            _ => {
                for (index, &(_, member)) in members.iter().enumerate() {
                    let new = calculate(op, value(held, index), value(operand, index));
                    store(member, &mut held[at(index)], new);
                }
            }
        }
    }
}

fn complex_product(ty: BasicType, held: &mut [u8], operand: &[u8]) {
    macro_rules! product {
        ($t:ty, $size:literal) => {{
            let part = |bytes: &[u8], index: usize| {
                <$t>::from_ne_bytes(bytes[index * $size..][..$size].try_into().unwrap())
            };
            let (a, b) = (part(held, 0), part(held, 1));
            let (c, d) = (part(operand, 0), part(operand, 1));
            held[..$size].copy_from_slice(&(a * c - b * d).to_ne_bytes());
            held[$size..].copy_from_slice(&(a * d + b * c).to_ne_bytes());
        }};
    }
    match ty {
        BasicType::ComplexF32 => product!(f32, 4),
        BasicType::ComplexF64 => product!(f64, 8),
        _ => {
            let part = |bytes: &[u8], index: usize| Extended::load(&bytes[16 * index..]);
            let (a, b) = (part(held, 0), part(held, 1));
            let (c, d) = (part(operand, 0), part(operand, 1));
            let re = a.times(c).plus(b.times(d).negated());
            let im = a.times(d).plus(b.times(c));
            held[..10].copy_from_slice(&re.0);
            held[16..26].copy_from_slice(&im.0);
        }
    }
}

fn is_nan(value: Value) -> bool {
    value.partial_cmp(&value).is_none()
}

/// Whether a number of the element is a NaN. Its payload depends on how it was calculated.
pub fn has_nan(ty: BasicType, element: &[u8]) -> bool {
    members(ty).iter().any(|&(at, member)| {
        member.is_float() && is_nan(load(member, &element[at..][..member.size()]))
    })
}

/// Whether all bytes are equal, except for the payloads of calculated NaNs. The first element is at `start`.
pub fn same(ty: BasicType, start: usize, a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let float = members(ty)
        .iter()
        .map(|&(_, member)| member)
        .find(|member| member.is_float());
    let Some(float) = float else {
        return a == b;
    };
    let (size, value) = (float.size(), float.value());
    let nan = |bytes: &[u8]| bytes.len() == size && is_nan(load(float, bytes));
    let both_nan = |a: &[u8], b: &[u8]| nan(a) && nan(b) && a[value..] == b[value..];
    let first = start % size;
    a[..first] == b[..first]
        && a[first..]
            .chunks(size)
            .zip(b[first..].chunks(size))
            .all(|(a, b)| a == b || both_nan(a, b))
}

/// `number` as an element. For a complex type, this is a real number.
pub fn number(ty: BasicType, number: usize) -> Vec<u8> {
    let mut bytes = vec![0; ty.extent()];
    let (at, member) = members(ty)[0];
    let value = match member {
        M::F32 | M::F64 => Value::Float(number as f64),
        M::F80 => Value::Extended(Extended::whole(number as u64)),
        _ => Value::Integer(number as i128),
    };
    store(member, &mut bytes[at..at + member.size()], value);
    bytes
}

/// One, in the same form as [`number`].
pub fn one(ty: BasicType) -> Vec<u8> {
    number(ty, 1)
}

/// Random elements. They include the limits of ranges, zeros of both signs, NaNs and equal values.
pub struct Numbers {
    random: Random,
    /// The last of the distinct elements.
    last: u8,
}

impl Numbers {
    /// The same elements for the same seed.
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            last: 0,
        }
    }

    fn member(&mut self, member: Member, to: &mut [u8]) {
        let random = self.random.bits();
        let choice = self.random.bits() % 8;
        let floats = [0.0, -0.0, 1.5, -2.25, f64::INFINITY, f64::NAN];
        let float = floats[(random % 6) as usize];
        match member {
            M::F32 if choice < 4 => to.copy_from_slice(&(float as f32).to_ne_bytes()),
            M::F64 if choice < 4 => to.copy_from_slice(&float.to_ne_bytes()),
            M::F80 if choice < 4 => to[..10].copy_from_slice(&self.extended(random).0),
            M::F80 | M::Opaque(_) => {
                for chunk in to.chunks_mut(8) {
                    chunk.copy_from_slice(&self.random.bits().to_ne_bytes()[..chunk.len()]);
                }
            }
            _ => {
                let size = to.len();
                let bits = match choice {
                    4 => 0,
                    5 => u64::MAX,
                    6 => u64::MAX >> (65 - 8 * size as u32),
                    7 => random % 3,
                    _ => random,
                };
                to.copy_from_slice(&bits.to_ne_bytes()[..size]);
            }
        }
    }

    /// Numbers at the limits of the range, at those of 64 bits, and close to each other.
    fn extended(&mut self, random: u64) -> Extended {
        let one = Extended::ONE;
        let number = match random % 16 {
            0 | 1 => Extended::ZERO,
            2 => Extended::INFINITY,
            3 => Extended::NAN,
            4 => Extended::MAX,
            5 => Extended::TINY,
            6 => Extended::whole((1 << 63) + 1),
            7 => Extended::of_parts(false, 16383, (1 << 63) + 1),
            8 => Extended::whole(u64::MAX),
            9 | 10 => one,
            11 => Extended::of_parts(false, 0, self.random.bits()),
            _ => {
                let exponent = 16383 + (random / 16 % 140) as i32 - 70;
                Extended::of_parts(false, exponent, 1 << 63 | self.random.bits())
            }
        };
        match self.random.bits() & 1 {
            0 => number,
            _ => number.negated(),
        }
    }

    /// The padding is random too.
    pub fn elements(&mut self, ty: BasicType, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count * ty.extent()];
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.random.bits().to_ne_bytes()[..chunk.len()]);
        }
        for element in bytes.chunks_mut(ty.extent()) {
            for &(at, member) in members(ty) {
                self.member(member, &mut element[at..at + member.size()]);
            }
        }
        bytes
    }

    /// One element that differs from those that this returned shortly before.
    pub fn distinct(&mut self, ty: BasicType) -> Vec<u8> {
        let mut bytes = vec![0; ty.extent()];
        self.last = self.last.wrapping_add(1);
        bytes[0] = self.last;
        bytes
    }
}
