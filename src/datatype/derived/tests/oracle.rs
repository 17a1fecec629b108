//! Type maps, expanded literally, as MPI-4.1, section 5.1 defines them.

use proptest::prelude::*;

use super::super::{Datatype, Order};
use crate::Result;
use crate::datatype::BasicType;

/// The data and the markers of a type.
#[derive(Clone, Debug, Default)]
pub(super) struct Expanded {
    map: Vec<(BasicType, i64)>,
    lb_markers: Vec<i64>,
    ub_markers: Vec<i64>,
}

/// Predefined members, at displacements; a pair has two.
fn members(ty: BasicType) -> Vec<(BasicType, i64)> {
    use BasicType as T;
    match ty {
        T::FloatInt => vec![(T::F32, 0), (T::I32, 4)],
        T::DoubleInt => vec![(T::F64, 0), (T::I32, 8)],
        T::LongInt => vec![(T::I64, 0), (T::I32, 8)],
        T::TwoInt => vec![(T::I32, 0), (T::I32, 4)],
        T::ShortInt => vec![(T::I16, 0), (T::I32, 4)],
        T::LongDoubleInt => vec![(T::LongDouble, 0), (T::I32, 16)],
        T::TwoFloat => vec![(T::F32, 0), (T::F32, 4)],
        T::TwoDouble => vec![(T::F64, 0), (T::F64, 8)],
        other => vec![(other, 0)],
    }
}

fn align(ty: BasicType) -> i64 {
    match ty {
        BasicType::ComplexF32 | BasicType::ComplexF64 | BasicType::ComplexLongDouble => {
            ty.size() as i64 / 2
        }
        BasicType::Opaque32 => 16,
        other => other.size() as i64,
    }
}

impl Expanded {
    pub(super) fn size(&self) -> u64 {
        self.map.iter().map(|(ty, _)| ty.size() as u64).sum()
    }

    pub(super) fn true_lb(&self) -> i64 {
        self.map.iter().map(|&(_, at)| at).min().unwrap_or(0)
    }

    fn true_ub(&self) -> i64 {
        let end = |&(ty, at): &(BasicType, i64)| at + ty.size() as i64;
        self.map.iter().map(end).max().unwrap_or(0)
    }

    pub(super) fn true_extent(&self) -> i64 {
        self.true_ub() - self.true_lb()
    }

    pub(super) fn lb(&self) -> i64 {
        self.lb_markers
            .iter()
            .copied()
            .min()
            .unwrap_or(self.true_lb())
    }

    pub(super) fn extent(&self) -> i64 {
        if let Some(ub) = self.ub_markers.iter().max() {
            return ub - self.lb();
        }
        let align = self.map.iter().map(|&(ty, _)| align(ty)).max().unwrap_or(1);
        (self.true_extent() + align - 1) / align * align
    }

    pub(super) fn bytes(&self) -> Vec<i64> {
        let bytes = |&(ty, at): &(BasicType, i64)| at..at + ty.size() as i64;
        self.map.iter().flat_map(bytes).collect()
    }

    pub(super) fn sequence(&self) -> Vec<BasicType> {
        self.map.iter().map(|&(ty, _)| ty).collect()
    }

    fn place(&mut self, other: &Self, at: i64) {
        self.map
            .extend(other.map.iter().map(|&(ty, place)| (ty, place + at)));
        self.lb_markers
            .extend(other.lb_markers.iter().map(|place| place + at));
        self.ub_markers
            .extend(other.ub_markers.iter().map(|place| place + at));
    }

    pub(super) fn repeated(&self, count: u64, stride: i64) -> Self {
        let mut all = Self::default();
        (0..count as i64).for_each(|index| all.place(self, index * stride));
        all
    }
}

/// How to construct a type.
#[derive(Clone, Debug)]
pub(super) enum Recipe {
    Basic(BasicType),
    Contiguous(i64, Box<Self>),
    Vector(i64, i64, i64, Box<Self>),
    Hvector(i64, i64, i64, Box<Self>),
    Indexed(Vec<(i64, i64)>, Box<Self>),
    Hindexed(Vec<(i64, i64)>, Box<Self>),
    IndexedBlock(i64, Vec<i64>, Box<Self>),
    HindexedBlock(i64, Vec<i64>, Box<Self>),
    Struct(Vec<(i64, i64, Self)>),
    /// Size, part and start of each dimension.
    Subarray(Vec<(i64, i64, i64)>, bool, Box<Self>),
    Resized(i64, i64, Box<Self>),
    Dup(Box<Self>),
}

pub(super) fn any_recipe() -> impl Strategy<Value = Recipe> {
    let basic = prop::sample::select(BasicType::ALL.to_vec()).prop_map(Recipe::Basic);
    basic.prop_recursive(4, 24, 3, |inner| {
        let child = || inner.clone().prop_map(Box::new);
        let blocks = || prop::collection::vec((0..4_i64, -20..20_i64), 0..6);
        let places = || prop::collection::vec(-20..20_i64, 0..6);
        let row = (0..20_i64, 1..30_i64, 0..8_usize)
            .prop_map(|(at, step, len)| (0..len as i64).map(|i| at + i * step).collect());
        let dimension = (1..5_i64).prop_flat_map(|size| {
            (1..=size).prop_flat_map(move |part| (Just(size), Just(part), 0..=size - part))
        });
        prop_oneof![
            (0..5_i64, child()).prop_map(|(count, of)| Recipe::Contiguous(count, of)),
            (0..5_i64, 0..4_i64, -5..6_i64, child())
                .prop_map(|(count, len, stride, of)| Recipe::Vector(count, len, stride, of)),
            (0..5_i64, 0..4_i64, -50..50_i64, child())
                .prop_map(|(count, len, stride, of)| Recipe::Hvector(count, len, stride, of)),
            (blocks(), child()).prop_map(|(blocks, of)| Recipe::Indexed(blocks, of)),
            (blocks(), child()).prop_map(|(blocks, of)| Recipe::Hindexed(blocks, of)),
            (0..4_i64, places(), child())
                .prop_map(|(len, places, of)| Recipe::IndexedBlock(len, places, of)),
            (0..4_i64, prop_oneof![places(), row], child())
                .prop_map(|(len, places, of)| Recipe::HindexedBlock(len, places, of)),
            prop::collection::vec((0..3_i64, -40..40_i64, inner.clone()), 0..4)
                .prop_map(Recipe::Struct),
            (
                prop::collection::vec(dimension, 1..4),
                any::<bool>(),
                child()
            )
                .prop_map(|(dimensions, c, of)| Recipe::Subarray(dimensions, c, of)),
            (-30..30_i64, -60..60_i64, child())
                .prop_map(|(lb, extent, of)| Recipe::Resized(lb, extent, of)),
            child().prop_map(Recipe::Dup),
        ]
    })
}

impl Recipe {
    pub(super) fn built(&self) -> Result<Datatype> {
        let of = |recipe: &Self| recipe.built();
        match self {
            Self::Basic(ty) => Ok((*ty).into()),
            Self::Contiguous(count, old) => Datatype::contiguous(*count, &of(old)?),
            Self::Vector(count, len, stride, old) => {
                Datatype::vector(*count, *len, *stride, &of(old)?)
            }
            Self::Hvector(count, len, stride, old) => {
                Datatype::hvector(*count, *len, *stride, &of(old)?)
            }
            Self::Indexed(blocks, old) => {
                let (lens, places): (Vec<_>, Vec<_>) = blocks.iter().copied().unzip();
                Datatype::indexed(&lens, &places, &of(old)?)
            }
            Self::Hindexed(blocks, old) => {
                let (lens, places): (Vec<_>, Vec<_>) = blocks.iter().copied().unzip();
                Datatype::hindexed(&lens, &places, &of(old)?)
            }
            Self::IndexedBlock(len, places, old) => {
                Datatype::indexed_block(*len, places, &of(old)?)
            }
            Self::HindexedBlock(len, places, old) => {
                Datatype::hindexed_block(*len, places, &of(old)?)
            }
            Self::Struct(members) => {
                let lens: Vec<_> = members.iter().map(|member| member.0).collect();
                let places: Vec<_> = members.iter().map(|member| member.1).collect();
                let types: Result<Vec<_>> = members.iter().map(|member| of(&member.2)).collect();
                Datatype::structure(&lens, &places, &types?)
            }
            Self::Subarray(dimensions, c, old) => {
                let column = |part: fn(&(i64, i64, i64)) -> i64| -> Vec<i64> {
                    dimensions.iter().map(part).collect()
                };
                let order = if *c { Order::C } else { Order::Fortran };
                let (sizes, parts) = (column(|d| d.0), column(|d| d.1));
                Datatype::subarray(&sizes, &parts, &column(|d| d.2), order, &of(old)?)
            }
            Self::Resized(lb, extent, old) => Datatype::resized(&of(old)?, *lb, *extent),
            Self::Dup(old) => Ok(Datatype::dup(&of(old)?)),
        }
    }

    pub(super) fn expanded(&self) -> Expanded {
        match self {
            Self::Basic(ty) => Expanded {
                map: members(*ty),
                ..Expanded::default()
            },
            Self::Contiguous(count, old) => {
                let old = old.expanded();
                old.repeated(*count as u64, old.extent())
            }
            Self::Vector(count, len, stride, old) => {
                let old = old.expanded();
                let block = old.repeated(*len as u64, old.extent());
                block.repeated(*count as u64, stride * old.extent())
            }
            Self::Hvector(count, len, stride, old) => {
                let old = old.expanded();
                let block = old.repeated(*len as u64, old.extent());
                block.repeated(*count as u64, *stride)
            }
            Self::Indexed(blocks, old) => {
                let old = old.expanded();
                listed(blocks.iter().copied(), old.extent(), &old)
            }
            Self::Hindexed(blocks, old) => listed(blocks.iter().copied(), 1, &old.expanded()),
            Self::IndexedBlock(len, places, old) => {
                let old = old.expanded();
                listed(places.iter().map(|&at| (*len, at)), old.extent(), &old)
            }
            Self::HindexedBlock(len, places, old) => {
                listed(places.iter().map(|&at| (*len, at)), 1, &old.expanded())
            }
            Self::Struct(members) => {
                let mut all = Expanded::default();
                for (len, at, ty) in members {
                    let ty = ty.expanded();
                    all.place(&ty.repeated(*len as u64, ty.extent()), *at);
                }
                all
            }
            Self::Subarray(dimensions, c, old) => subarray(dimensions, *c, &old.expanded()),
            Self::Resized(lb, extent, old) => Expanded {
                lb_markers: vec![*lb],
                ub_markers: vec![lb + extent],
                ..old.expanded()
            },
            Self::Dup(old) => old.expanded(),
        }
    }
}

fn listed(blocks: impl Iterator<Item = (i64, i64)>, unit: i64, old: &Expanded) -> Expanded {
    let mut all = Expanded::default();
    for (len, at) in blocks {
        all.place(&old.repeated(len as u64, old.extent()), at * unit);
    }
    all
}

/// Element by element: the one with the given index in every dimension.
fn subarray(dimensions: &[(i64, i64, i64)], c: bool, old: &Expanded) -> Expanded {
    // From the slowest dimension to the fastest.
    let mut slowest_first = dimensions.to_vec();
    if !c {
        slowest_first.reverse();
    }
    let elements: i64 = slowest_first.iter().map(|d| d.0).product();
    let parts: i64 = slowest_first.iter().map(|d| d.1).product();
    let mut all = Expanded::default();
    for number in 0..parts {
        let (mut rest, mut at, mut weight) = (number, 0, 1);
        for &(size, part, start) in slowest_first.iter().rev() {
            at += (start + rest % part) * weight;
            rest /= part;
            weight *= size;
        }
        all.place(old, at * old.extent());
    }
    all.lb_markers = vec![0];
    all.ub_markers = vec![elements * old.extent()];
    all
}
