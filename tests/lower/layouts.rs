//! Walks of layouts against type maps that are written out literally.

use transom::BasicType;
use transom::lower::Walk;
use transom::raw::Datatype;

/// A type, and its type map, entry by entry.
struct Known {
    ty: Datatype,
    map: Vec<(i64, BasicType)>,
}

impl Known {
    fn basic(ty: BasicType) -> Self {
        Self {
            ty: ty.into(),
            map: vec![(0, ty)],
        }
    }

    fn placed(&self, at: i64) -> impl Iterator<Item = (i64, BasicType)> {
        self.map.iter().map(move |&(place, ty)| (at + place, ty))
    }

    /// Elements one extent apart, from each of these displacements on.
    fn blocks(&self, blocks: &[(i64, i64)]) -> Vec<(i64, BasicType)> {
        let extent = self.ty.extent();
        let element = |&(at, len): &(i64, i64)| (0..len).map(move |index| at + index * extent);
        let places = blocks.iter().flat_map(element);
        places.flat_map(|at| self.placed(at)).collect()
    }

    fn hvector(&self, count: i64, len: i64, stride: i64) -> Self {
        let blocks: Vec<_> = (0..count).map(|block| (block * stride, len)).collect();
        Self {
            ty: Datatype::hvector(count, len, stride, &self.ty).unwrap(),
            map: self.blocks(&blocks),
        }
    }

    fn hindexed(&self, blocks: &[(i64, i64)]) -> Self {
        let (places, lens): (Vec<_>, Vec<_>) = blocks.iter().copied().unzip();
        Self {
            ty: Datatype::hindexed(&lens, &places, &self.ty).unwrap(),
            map: self.blocks(blocks),
        }
    }

    fn beside(&self, other: &Self, at: i64) -> Self {
        let types = [self.ty.clone(), other.ty.clone()];
        Self {
            ty: Datatype::structure(&[1, 1], &[0, at], &types).unwrap(),
            map: self.placed(0).chain(other.placed(at)).collect(),
        }
    }

    fn resized(&self, extent: i64) -> Self {
        Self {
            ty: Datatype::resized(&self.ty, -8, extent).unwrap(),
            map: self.map.clone(),
        }
    }
}

/// Where the bytes of an element are: in a pair, those of value and index.
fn bytes_of(ty: BasicType) -> Vec<i64> {
    let index = |at: i64| at..at + 4;
    match ty {
        BasicType::ShortInt => (0..2).chain(index(4)).collect(),
        BasicType::DoubleInt => (0..8).chain(index(8)).collect(),
        dense => (0..dense.extent() as i64).collect(),
    }
}

/// Types of types of types, each made of what was made before.
fn known() -> Vec<Known> {
    use BasicType::{ComplexF32, DoubleInt, F64, I32, ShortInt, U8};
    let mut all: Vec<Known> = [U8, I32, F64, ComplexF32, DoubleInt, ShortInt]
        .map(Known::basic)
        .into();
    for turn in 0..3_i64 {
        let made: Vec<Known> = all
            .iter()
            .enumerate()
            .flat_map(|(at, one)| {
                let other = &all[(at * 7 + 3) % all.len()];
                let step = one.ty.extent().abs();
                [
                    one.hvector(3, 2, 2 * step + 5),
                    one.hvector(2, 1, -(step + turn)),
                    one.hindexed(&[(40, 2), (0, 0), (-16, 1), (100 + turn, 3)]),
                    one.beside(other, 200),
                    one.resized(step + 24),
                    one.resized(-step - 24),
                ]
            })
            .collect();
        // So many of them that all constructors come inside of all others.
        all = made.into_iter().step_by(1 + turn as usize).collect();
        all.truncate(60);
    }
    all
}

pub(crate) fn walks_are_those_of_type_maps() {
    let all = known();
    assert!(all.len() >= 50);
    let mut walked = 0;
    for (known, count) in all
        .iter()
        .flat_map(|known| (0..3).map(move |count| (known, count)))
    {
        let ty = known.ty.commit();
        let walk = Walk::of(ty.times(count)).unwrap();
        let extent = ty.extent();
        let map: Vec<_> = (0..count as i64)
            .flat_map(|index| known.placed(index * extent))
            .collect();
        assert_eq!(walk.type_map().collect::<Vec<_>>(), map, "{ty}");
        let bytes: Vec<i64> = map
            .iter()
            .flat_map(|&(at, ty)| bytes_of(ty).into_iter().map(move |byte| at + byte))
            .collect();
        let of_runs = |(at, len): (i64, u64)| at..at + len as i64;
        assert_eq!(
            walk.runs().flat_map(of_runs).collect::<Vec<_>>(),
            bytes,
            "{ty}"
        );
        assert_eq!(walk.size(), bytes.len() as u64);
        let (lo, hi) = (bytes.iter().min(), bytes.iter().max());
        let bounds = lo.zip(hi).map_or(0..0, |(&lo, &hi)| lo..hi + 1);
        assert_eq!(walk.bounds(), bounds, "{ty}");
        packs(&walk, &bytes);
        walked += bytes.len();
    }
    assert!(walked > 10_000, "{walked} bytes");
}

/// Parts may overlap here: so all that is unpacked is one value.
fn packs(walk: &Walk<'_>, bytes: &[i64]) {
    let bounds = walk.bounds();
    let mut memory: Vec<u8> = (0..bounds.end - bounds.start)
        .map(|i| (i % 251) as u8)
        .collect();
    let place = |byte: i64| (byte - bounds.start) as usize;
    let mut packed = vec![0; bytes.len()];
    let buffer = |memory: &mut Vec<u8>| memory.as_mut_ptr().wrapping_offset(-bounds.start as isize);
    let at = buffer(&mut memory);
    // SAFETY: the memory has all within the bounds.
    unsafe { walk.pack(at, &mut packed).unwrap() };
    let wanted: Vec<u8> = bytes.iter().map(|&byte| memory[place(byte)]).collect();
    assert_eq!(packed, wanted);
    let (before, new) = (memory.clone(), vec![0xee_u8; bytes.len()]);
    let at = buffer(&mut memory);
    // SAFETY: as above.
    unsafe { walk.unpack(&new, at).unwrap() };
    for (at, (&is, was)) in (bounds.start..).zip(memory.iter().zip(before)) {
        let wanted = if bytes.contains(&at) { 0xee } else { was };
        assert_eq!(is, wanted, "byte {at}");
    }
    // SAFETY: as above.
    let refused = unsafe { walk.unpack(&[0; 1 << 12][..bytes.len() + 1], at) };
    assert!(refused.is_err());
}
