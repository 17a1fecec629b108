//! Which elements an access is to, and how they lie at its target and in its buffers.

use std::ops::Range;

use transom::BasicType;
use transom_testing::random::Random;

use crate::access::{Kind, Layout, span};
use crate::layouts::Sequence;
use crate::program::Lane;
use crate::shapes::Shape;

/// The longest buffer of an origin or a result with a layout.
pub(crate) const LONGEST: usize = 30_000;

/// Where the elements of an access are.
pub(crate) struct Found {
    pub(crate) ty: BasicType,
    pub(crate) at: usize,
    pub(crate) far: Layout,
    pub(crate) near: Layout,
    pub(crate) back: Layout,
    pub(crate) derived: bool,
}

impl Found {
    /// One after the other, on all sides.
    pub(crate) fn dense(ty: BasicType, at: usize, count: usize) -> Self {
        let all = Layout::dense(ty, count);
        Self {
            ty,
            at,
            far: all.clone(),
            near: all.clone(),
            back: all,
            derived: false,
        }
    }
}

/// Elements of one type, one after the other.
pub(crate) fn dense(
    random: &mut Random,
    kind: Kind,
    area: &Range<usize>,
    unit: usize,
) -> Option<Found> {
    use Kind::{CompareAndSwap, FetchAndOp, Get, Load, Put, Store};
    let ty = match kind {
        Put | Get | Store | Load => BasicType::Byte,
        CompareAndSwap => random.pick(&BasicType::ALL[..8]),
        _ => accumulated(random),
    };
    let align = if random.one_in(3) { 1 } else { ty.extent() };
    let aligned = |at: usize| at.next_multiple_of(unit).next_multiple_of(align);
    let mut at = random.from(area.start, area.end.checked_sub(1)?.max(area.start));
    at = if random.one_in(3) {
        aligned(area.start)
    } else {
        aligned(at)
    };
    if !at.is_multiple_of(unit) {
        at = at.next_multiple_of(unit);
    }
    if at >= area.end {
        return None;
    }
    let room = area.end - at;
    let fits = (0..).take_while(|count| span(ty, count + 1) <= room);
    let most = fits.last().map_or(0, |count| count + 1).min(3000);
    let count = match kind {
        FetchAndOp | CompareAndSwap if most == 0 => return None,
        FetchAndOp | CompareAndSwap => 1,
        _ if random.one_in(20) => 0,
        _ if random.one_in(3) => random.from(0, most),
        _ => random.from(0, most.min(9)),
    };
    Some(Found::dense(ty, at, count))
}

/// A type of accumulates: often one that a single atomic of every device updates.
fn accumulated(random: &mut Random) -> BasicType {
    match random.one_in(4) {
        true => random.pick(&[BasicType::I64, BasicType::U64]),
        false => random.pick(&BasicType::ALL),
    }
}

/// What an operation with datatypes moves: of several types, where it is no accumulate.
fn unit(random: &mut Random, kind: Kind) -> Vec<BasicType> {
    let types = match kind {
        Kind::Put | Kind::Get if random.one_in(2) => random.from(2, 4),
        Kind::Put | Kind::Get => 1,
        _ => return vec![accumulated(random)],
    };
    (0..types).map(|_| random.pick(&BasicType::ALL)).collect()
}

/// Elements in layouts of their own at the origin, in the result, and in an area.
pub(crate) fn derived(
    random: &mut Random,
    kind: Kind,
    area: &Range<usize>,
    unit_of: usize,
) -> Option<Found> {
    let unit = unit(random, kind);
    let bytes: usize = unit.iter().map(|ty| ty.extent()).sum();
    let most = area.len() / bytes;
    let times = match random.below(12) {
        0 => 0,
        // More than a batch of the device has.
        1 if random.one_in(3) => most.min(2500),
        1 => random.from(0, most.min(400)),
        2..5 => random.from(1.min(most), most.min(60)),
        _ => random.from(1.min(most), (most / 2).clamp(1, 12).min(most)),
    };
    let elements = Sequence {
        unit,
        times,
        splits: matches!(kind, Kind::Put | Kind::Get),
    };
    let may_repeat = matches!(kind, Kind::Accumulate | Kind::GetAccumulate);
    let repeated = match may_repeat && random.one_in(4) {
        true => elements.repeated(random, area.len()),
        false => None,
    };
    let far = match repeated {
        Some(far) => far,
        None => elements.layout(random, area.len(), kind == Kind::Get)?,
    };
    let align = if random.one_in(3) {
        1
    } else {
        elements.unit[0].extent()
    };
    let at = locate(random, &far, area, unit_of, align)?;
    around(random, kind, &elements, at, far)
}

/// Where a layout can be placed in an area, if possible with its first element aligned.
fn locate(
    random: &mut Random,
    far: &Layout,
    area: &Range<usize>,
    unit: usize,
    align: usize,
) -> Option<usize> {
    if far.places.is_empty() {
        let at = area.start.next_multiple_of(unit);
        return (at < area.end).then_some(at);
    }
    let first = (area.start as i64 - far.data.start).max(0) as usize;
    let last = usize::try_from(area.end as i64 - far.data.end).ok()?;
    let fits = |at: &usize| (first..=last).contains(at);
    let is_aligned = |at: &usize| (*at as i64 + far.places[0].0).rem_euclid(align as i64) == 0;
    let from = |start: usize| {
        let next = start.next_multiple_of(unit);
        (next..).step_by(unit).take(40).filter(fits)
    };
    let start = if random.one_in(2) || last < first {
        first
    } else {
        random.from(first, last)
    };
    from(start)
        .find(is_aligned)
        .or_else(|| from(start).next())
        .or_else(|| from(first).next())
}

/// Layouts at the origin and in the result for elements at the target.
fn around(
    random: &mut Random,
    kind: Kind,
    elements: &Sequence,
    at: usize,
    far: Layout,
) -> Option<Found> {
    let nothing = Layout::dense(BasicType::Byte, 0);
    let near = match kind {
        Kind::Get => nothing.clone(),
        _ => elements.layout(random, LONGEST, true)?,
    };
    let back = match kind {
        Kind::Get | Kind::GetAccumulate => elements.layout(random, LONGEST, false)?,
        _ => nothing,
    };
    Some(Found {
        ty: elements.unit[0],
        at,
        far,
        near,
        back,
        derived: true,
    })
}

/// One uninterrupted part of a lane.
pub(crate) fn tooth(random: &mut Random, area: &Range<usize>, lane: Lane) -> Range<usize> {
    let start = area.start + lane.first;
    let teeth = (area.end - start - lane.width) / lane.stride + 1;
    let start = start + random.below(teeth) * lane.stride;
    start..start + lane.width
}

/// The same elements in several parts of a lane.
pub(crate) fn comb(
    random: &mut Random,
    kind: Kind,
    area: &Range<usize>,
    lane: Lane,
    unit_of: usize,
) -> Option<Found> {
    let mut elements = Sequence {
        unit: unit(random, kind),
        times: 1,
        splits: matches!(kind, Kind::Put | Kind::Get),
    };
    elements.times = random.from(1, 3);
    let inner = elements.layout(random, lane.width, false)?;
    let first = tooth(random, area, lane);
    let at = locate(random, &inner, &first, unit_of, 1)?;
    let teeth = (area.end - first.end) / lane.stride + 1;
    let teeth = random.from(1, teeth);
    elements.times *= teeth;
    let shape = Shape::Vector {
        count: teeth as i64,
        len: 1,
        stride: lane.stride as i64,
        bytes: true,
        of: Shape::Contiguous(inner.count as i64, inner.shape.boxed()).boxed(),
    };
    around(
        random,
        kind,
        &elements,
        at,
        Layout::new(shape, 1, elements.splits),
    )
}
