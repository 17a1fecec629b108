//! Random layouts of a given sequence of elements.

use transom::BasicType;
use transom::raw::Order;
use transom_testing::random::Random;

use crate::access::{Layout, span};
use crate::shapes::Shape;
use crate::typemap::{TypeMap, pair};

/// `unit`, so many times over: what the layouts of one operation have in common.
#[derive(Clone)]
pub(crate) struct Sequence {
    pub(crate) unit: Vec<BasicType>,
    pub(crate) times: usize,
    /// Whether pairs are moved as a struct of their members is.
    pub(crate) splits: bool,
}

/// Layouts that are tried before a dense one is taken.
const TRIES: usize = 6;

impl Sequence {
    /// A layout of at most `room` bytes from the first to the last; `None`: there is no room.
    pub(crate) fn layout(
        &self,
        random: &mut Random,
        room: usize,
        overlaps: bool,
    ) -> Option<Layout> {
        let shortest = Layout::new(self.unit(random, false), self.times as u64, self.splits);
        for _ in 0..TRIES {
            let inner = divisor(random, self.times);
            let unit = self.unit(random, true);
            let shape = shape(random, inner, &unit, 3);
            let count = (self.times / inner.max(1)) as u64;
            let layout = Layout::new(shape, count, self.splits);
            debug_assert_eq!(layout.places.len(), shortest.places.len());
            if layout.len() <= room && (overlaps || !has_overlaps(&layout)) {
                return Some(layout);
            }
        }
        (shortest.len() <= room).then_some(shortest)
    }

    /// A layout that has some elements several times, as the target of an accumulate may; `None`: there is no room, or no
    /// element comes twice.
    pub(crate) fn repeated(&self, random: &mut Random, room: usize) -> Option<Layout> {
        let [ty] = self.unit[..] else { return None };
        let of = || Shape::Basic(ty).boxed();
        let len = divisor(random, self.times);
        let count = self.times.checked_div(len)?;
        let starts = (room / ty.extent()).checked_sub(len)?.min(self.times) + 1;
        let shape = match random.one_in(2) {
            true => Shape::Vector {
                count: count as i64,
                len: len as i64,
                stride: random.below(len) as i64,
                bytes: false,
                of: of(),
            },
            false => Shape::IndexedBlock {
                len: len as i64,
                at: (0..count).map(|_| random.below(starts) as i64).collect(),
                bytes: false,
                of: of(),
            },
        };
        let layout = Layout::new(shape, 1, false);
        (layout.len() <= room && has_overlaps(&layout)).then_some(layout)
    }

    /// The elements that repeat; `free`: with gaps, and in any order of addresses.
    fn unit(&self, random: &mut Random, free: bool) -> Shape {
        let member = |random: &mut Random, ty: BasicType| match pair(ty) {
            Some((value, (index, at))) if self.splits && random.one_in(2) => {
                let members = [(1, 0, Shape::Basic(value)), (1, at, Shape::Basic(index))];
                Shape::Struct(members.to_vec())
            }
            _ => Shape::Basic(ty),
        };
        if let [ty] = self.unit[..] {
            return member(random, ty);
        }
        let parts = self.unit.iter().map(|&ty| member(random, ty)).collect();
        structure(random, parts, free)
    }
}

/// Members behind each other; `free`: with gaps, and sometimes in another order.
fn structure(random: &mut Random, parts: Vec<Shape>, free: bool) -> Shape {
    let mut order: Vec<usize> = (0..parts.len()).collect();
    if free && random.one_in(2) {
        shuffle(random, &mut order);
    }
    let mut at = vec![0; parts.len()];
    let mut end = if free {
        random.below(20) as i64 - 10
    } else {
        0
    };
    for index in order {
        let (lo, hi) = TypeMap::of(&parts[index]).data();
        let gap = if free { random.below(7) as i64 } else { 0 };
        at[index] = end + gap - lo;
        end += gap + hi - lo;
    }
    let members = parts.into_iter().zip(at).map(|(part, at)| (1, at, part));
    Shape::Struct(members.collect())
}

/// A datatype of `units` units, in constructors nested up to `depth`.
fn shape(random: &mut Random, units: usize, unit: &Shape, depth: usize) -> Shape {
    if units == 0 {
        return match random.below(3) {
            0 => Shape::Contiguous(0, unit.clone().boxed()),
            1 => Shape::Indexed {
                blocks: vec![(0, 7)],
                bytes: random.one_in(2),
                of: unit.clone().boxed(),
            },
            _ => Shape::Struct(Vec::new()),
        };
    }
    if depth == 0 || units == 1 && random.one_in(3) {
        return match units {
            1 => unit.clone(),
            _ => Shape::Contiguous(units as i64, unit.clone().boxed()),
        };
    }
    let choice = random.below(12);
    // These keep the number of units, or share it out themselves.
    match choice {
        0 => return Shape::Dup(shape(random, units, unit, depth - 1).boxed()),
        1 => {
            let of = shape(random, units, unit, depth - 1);
            let (lo, hi) = TypeMap::of(&of).data();
            let mut extent = hi - lo + random.below(24) as i64;
            // Now and then so that copies are interleaved.
            if random.one_in(4) {
                extent /= 4;
            }
            return Shape::Resized {
                lb: lo + random.below(17) as i64 - 8,
                extent: if random.one_in(3) { -extent } else { extent },
                of: of.boxed(),
            };
        }
        2 => {
            let first = random.from(1, units);
            let mut parts = vec![shape(random, first, unit, depth - 1)];
            if first < units {
                parts.push(shape(random, units - first, unit, depth - 1));
            }
            if random.one_in(4) {
                parts.push(shape(random, 0, unit, 0));
            }
            return structure(random, parts, true);
        }
        3 => {
            if let Some(shape) = nearly_a_row(random, units, unit) {
                return shape;
            }
        }
        _ => {}
    }
    let inner = divisor(random, units);
    let of = shape(random, inner, unit, depth - 1);
    let extent = TypeMap::of(&of).extent();
    let total = (units / inner) as i64;
    let len = divisor(random, units / inner) as i64;
    let count = total / len;
    let bytes = random.one_in(2);
    let unit_of = if bytes { extent } else { 1 };
    let slack = |random: &mut Random| match bytes {
        true => random.below(2) as i64 * random.below(30) as i64 * extent.signum(),
        false => random.below(3) as i64,
    };
    match choice {
        4 | 5 => {
            let distance = len * unit_of + slack(random);
            let back = random.one_in(4);
            Shape::Vector {
                count,
                len,
                stride: if back { -distance } else { distance },
                bytes,
                of: of.boxed(),
            }
        }
        // Columns side by side: transposed.
        6 | 7 => Shape::Vector {
            count: len,
            len: 1,
            stride: extent,
            bytes: true,
            of: Shape::Vector {
                count,
                len: 1,
                stride: len + random.below(3) as i64,
                bytes: false,
                of: of.boxed(),
            }
            .boxed(),
        },
        8 => {
            let lens = shares(random, total);
            let ends = steps(random, &lens, unit_of, slack);
            Shape::Indexed {
                blocks: lens.into_iter().zip(ends).collect(),
                bytes,
                of: of.boxed(),
            }
        }
        9 => Shape::IndexedBlock {
            len,
            at: steps(random, &vec![len; count as usize], unit_of, slack),
            bytes,
            of: of.boxed(),
        },
        10 => {
            let dimension = |random: &mut Random, part: i64| {
                let size = part + random.below(3) as i64;
                [size, part, random.below((size - part) as usize + 1) as i64]
            };
            let dimensions = [count, len].map(|part| dimension(random, part)).to_vec();
            Shape::Subarray {
                dimensions,
                order: random.pick(&[Order::C, Order::Fortran]),
                of: of.boxed(),
            }
        }
        _ => Shape::Contiguous(total, of.boxed()),
    }
}

/// Lists of blocks at equal distances, of which the last one may be a little different.
fn nearly_a_row(random: &mut Random, units: usize, unit: &Shape) -> Option<Shape> {
    // Fewer would be a vector.
    let blocks = random.from(3, 4);
    let rows = (units / blocks) as i64 - 1;
    if rows < 2 {
        return None;
    }
    let extent = TypeMap::of(unit).extent();
    let mut list = || {
        let places = (0..blocks as i64).scan(0, |gap, block| {
            let at = block * extent + *gap;
            *gap += random.from(1, 2) as i64;
            Some(at)
        });
        Shape::IndexedBlock {
            len: 1,
            at: places.collect(),
            bytes: true,
            of: unit.clone().boxed(),
        }
    };
    let (first, last) = (list(), list());
    let stride = blocks as i64 * (extent + 3);
    let row = Shape::Vector {
        count: rows,
        len: 1,
        stride,
        bytes: true,
        of: first.boxed(),
    };
    let rest = (units % blocks) as i64;
    let end = (rows + 1) * stride;
    let members = vec![
        (1, 0, row),
        (1, rows * stride, last),
        (rest, end, unit.clone()),
    ];
    Some(Shape::Struct(members))
}

/// Displacements of blocks that do not meet, in any order, from below the place on or behind it.
fn steps(
    random: &mut Random,
    lens: &[i64],
    unit: i64,
    slack: impl Fn(&mut Random) -> i64,
) -> Vec<i64> {
    let mut order: Vec<usize> = (0..lens.len()).collect();
    if random.one_in(2) {
        shuffle(random, &mut order);
    }
    let mut at = vec![0; lens.len()];
    let mut end = random.below(9) as i64 - 4;
    for index in order {
        end += slack(random);
        at[index] = end;
        end += lens[index] * unit;
    }
    at
}

/// Parts of a whole; some of them may be nothing.
fn shares(random: &mut Random, mut whole: i64) -> Vec<i64> {
    let mut parts = Vec::new();
    while whole > 0 {
        let most = whole.min(7) as usize;
        let part = if random.one_in(6) {
            0
        } else {
            random.from(1, most)
        };
        parts.push(part as i64);
        whole -= part as i64;
    }
    parts
}

pub(crate) fn shuffle<T>(random: &mut Random, list: &mut [T]) {
    for last in (1..list.len()).rev() {
        list.swap(last, random.below(last + 1));
    }
}

fn divisor(random: &mut Random, of: usize) -> usize {
    let divisors: Vec<_> = (1..=of).filter(|by| of.is_multiple_of(*by)).collect();
    match divisors.is_empty() {
        true => 0,
        false => random.pick(&divisors),
    }
}

pub(crate) fn has_overlaps(layout: &Layout) -> bool {
    let mut ranges: Vec<_> = layout
        .places
        .iter()
        .map(|&(at, ty)| (at, at + span(ty, 1) as i64))
        .collect();
    ranges.sort_unstable();
    ranges.windows(2).any(|pair| pair[0].1 > pair[1].0)
}
