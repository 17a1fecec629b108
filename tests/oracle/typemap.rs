//! Type maps, written out member by member as MPI-4.1, section 5.1 defines them: what the library's
//! flattening is compared with. Nothing is merged or calculated ahead here.

use transom::BasicType;
use transom::raw::Order;

use crate::access::span;
use crate::shapes::Shape;

/// The predefined types of a datatype in their order, each at its displacement in bytes.
pub(crate) type Places = Vec<(i64, BasicType)>;

#[derive(Clone, Default)]
pub(crate) struct TypeMap {
    pub(crate) places: Places,
    /// Lower and upper bounds that were set explicitly; they count instead of the data's.
    marks: Vec<(i64, i64)>,
}

impl TypeMap {
    pub(crate) fn of(shape: &Shape) -> Self {
        match shape {
            Shape::Basic(ty) => Self {
                places: vec![(0, *ty)],
                marks: Vec::new(),
            },
            Shape::Contiguous(count, of) => Self::of(of).block(0, *count),
            Shape::Vector {
                count,
                len,
                stride,
                bytes,
                of,
            } => {
                let old = Self::of(of);
                let unit = if *bytes { 1 } else { old.extent() };
                Self::join((0..*count).map(|block| old.block(block * stride * unit, *len)))
            }
            Shape::Indexed { blocks, bytes, of } => {
                let old = Self::of(of);
                let unit = if *bytes { 1 } else { old.extent() };
                Self::join(blocks.iter().map(|(len, at)| old.block(at * unit, *len)))
            }
            Shape::IndexedBlock { len, at, bytes, of } => {
                let old = Self::of(of);
                let unit = if *bytes { 1 } else { old.extent() };
                Self::join(at.iter().map(|at| old.block(at * unit, *len)))
            }
            Shape::Struct(members) => Self::join(
                members
                    .iter()
                    .map(|(len, at, of)| Self::of(of).block(*at, *len)),
            ),
            Shape::Subarray {
                dimensions,
                order,
                of,
            } => Self::of(of).part(dimensions, *order),
            Shape::Resized { lb, extent, of } => Self {
                marks: vec![(*lb, lb + extent)],
                ..Self::of(of)
            },
            Shape::Dup(of) => Self::of(of),
        }
    }

    /// `len` copies, one extent apart, from displacement `at` on.
    pub(crate) fn block(&self, at: i64, len: i64) -> Self {
        let extent = self.extent();
        let by = |copy: i64| at + copy * extent;
        let places = (0..len).flat_map(|copy| {
            let places = self.places.iter();
            places.map(move |&(place, ty)| (place + by(copy), ty))
        });
        let marks = (0..len).flat_map(|copy| {
            let marks = self.marks.iter();
            marks.map(move |&(lb, ub)| (lb + by(copy), ub + by(copy)))
        });
        Self {
            places: places.collect(),
            marks: marks.collect(),
        }
    }

    fn join(parts: impl Iterator<Item = Self>) -> Self {
        parts.fold(Self::default(), |mut all, part| {
            all.places.extend(part.places);
            all.marks.extend(part.marks);
            all
        })
    }

    /// The elements of an array of these that are in the part, in the order of memory.
    fn part(&self, dimensions: &[[i64; 3]], order: Order) -> Self {
        // From the dimension whose elements are furthest apart.
        let mut outwards = dimensions.to_vec();
        if order == Order::Fortran {
            outwards.reverse();
        }
        let mut indexes = vec![0];
        for [size, part, start] in &outwards {
            let inside = |index: &i64| {
                let first = index * size + start;
                first..first + part
            };
            indexes = indexes.iter().flat_map(inside).collect();
        }
        let array: i64 = dimensions.iter().map(|[size, ..]| size).product();
        let extent = self.extent();
        let elements = indexes.iter().map(|index| self.block(index * extent, 1));
        Self {
            marks: vec![(0, array * extent)],
            ..Self::join(elements)
        }
    }

    /// From the first byte of data to the end of the last.
    pub(crate) fn data(&self) -> (i64, i64) {
        let ends = |&(at, ty): &(i64, BasicType)| at + span(ty, 1) as i64;
        let lo = self.places.iter().map(|(at, _)| *at).min();
        let hi = self.places.iter().map(ends).max();
        (lo.unwrap_or(0), hi.unwrap_or(0))
    }

    pub(crate) fn extent(&self) -> i64 {
        let lb = self.marks.iter().map(|(lb, _)| *lb).min();
        let ub = self.marks.iter().map(|(_, ub)| *ub).max();
        match (lb, ub) {
            (Some(lb), Some(ub)) => ub - lb,
            _ => {
                let (lo, hi) = self.data();
                let aligns = self.places.iter().map(|(_, ty)| align(*ty));
                let align = aligns.max().unwrap_or(1);
                (hi - lo + align - 1) / align * align
            }
        }
    }

    /// Pairs as their two members: put and get move them like a struct of the two.
    pub(crate) fn split_pairs(self) -> Places {
        let members = |&(at, ty): &(i64, BasicType)| match pair(ty) {
            Some((first, (second, place))) => vec![(at, first), (at + place, second)],
            None => vec![(at, ty)],
        };
        self.places.iter().flat_map(members).collect()
    }
}

/// The type of a pair's value; the type of its index, and its offset.
pub(crate) fn pair(ty: BasicType) -> Option<(BasicType, (BasicType, i64))> {
    let int = |at: i64| (BasicType::I32, at);
    Some(match ty {
        BasicType::FloatInt => (BasicType::F32, int(4)),
        BasicType::DoubleInt => (BasicType::F64, int(8)),
        BasicType::LongInt => (BasicType::I64, int(8)),
        BasicType::TwoInt => (BasicType::I32, int(4)),
        BasicType::ShortInt => (BasicType::I16, int(4)),
        BasicType::LongDoubleInt => (BasicType::LongDouble, int(16)),
        BasicType::TwoFloat => (BasicType::F32, (BasicType::F32, 4)),
        BasicType::TwoDouble => (BasicType::F64, (BasicType::F64, 8)),
        _ => return None,
    })
}

/// As C aligns it on this machine.
fn align(ty: BasicType) -> i64 {
    match (ty, pair(ty)) {
        (_, Some((value, _))) => align(value).max(4),
        (BasicType::ComplexF32 | BasicType::ComplexF64 | BasicType::ComplexLongDouble, _) => {
            ty.extent() as i64 / 2
        }
        (BasicType::Opaque32, _) => 16,
        _ => ty.extent() as i64,
    }
}
