//! One access to a target's memory: an operation, or a load or store.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use transom::{BasicType, Op};
use transom_testing::model as elements;

use crate::shapes::Shape;
use crate::typemap::TypeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Put,
    Get,
    Accumulate,
    GetAccumulate,
    FetchAndOp,
    CompareAndSwap,
    /// A store by the processor; to another rank's memory where that is mapped, else a put.
    Store,
    Load,
}

impl Kind {
    /// Whether it combines elements of this type by this operation.
    pub(crate) fn takes(self, op: Op, ty: BasicType) -> bool {
        elements::is_defined(op, ty) && (self != Self::Accumulate || op != Op::NoOp)
    }
}

/// Elements in memory, relative to where they are placed.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) shape: Shape,
    pub(crate) count: u64,
    /// Every predefined element, in order.
    pub(crate) places: Arc<[(i64, BasicType)]>,
    /// From the first byte of data to the end of the last.
    pub(crate) data: Range<i64>,
}

impl Layout {
    /// `splits`: pairs are moved as a struct of their members is.
    pub(crate) fn new(shape: Shape, count: u64, splits: bool) -> Self {
        let map = TypeMap::of(&shape).block(0, count as i64);
        let (lo, hi) = map.data();
        let places = match splits {
            true => map.split_pairs(),
            false => map.places,
        };
        Self {
            shape,
            count,
            places: places.into(),
            data: lo..hi,
        }
    }

    pub(crate) fn dense(ty: BasicType, count: usize) -> Self {
        Self::new(Shape::Basic(ty), count as u64, false)
    }

    /// Bytes of memory from the first to the last.
    pub(crate) fn len(&self) -> usize {
        (self.data.end - self.data.start) as usize
    }

    /// Where an element stands in memory that begins with the first byte of data.
    pub(crate) fn element(&self, index: usize) -> Range<usize> {
        let (at, ty) = self.places[index];
        let first = (at - self.data.start) as usize;
        first..first + span(ty, 1)
    }
}

/// An access to elements placed at byte `at` of a target's memory.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// Its number in the program.
    pub(crate) id: u32,
    pub(crate) kind: Kind,
    pub(crate) request: bool,
    /// Whether it is called with datatypes.
    pub(crate) derived: bool,
    /// The counter that it raises at its target.
    pub(crate) notifies: Option<u32>,
    /// The notification that orders it behind another script's accesses.
    pub(crate) after: Option<u32>,
    pub(crate) target: u32,
    pub(crate) at: usize,
    /// What accumulates work on; bytes elsewhere.
    pub(crate) ty: BasicType,
    pub(crate) op: Op,
    /// How the elements lie at the target, in the origin's buffer, and in the result's.
    pub(crate) far: Layout,
    pub(crate) near: Layout,
    pub(crate) back: Layout,
    /// The origin's buffer, from its first byte of data to its last.
    pub(crate) operands: Vec<u8>,
    pub(crate) compare: Vec<u8>,
}

impl Access {
    pub(crate) fn fetches(&self) -> bool {
        !matches!(self.kind, Kind::Put | Kind::Accumulate | Kind::Store)
    }

    pub(crate) fn is_accumulate(&self) -> bool {
        use Kind::{Accumulate, CompareAndSwap, FetchAndOp, GetAccumulate};
        matches!(
            self.kind,
            Accumulate | GetAccumulate | FetchAndOp | CompareAndSwap
        )
    }

    /// Predefined elements.
    pub(crate) fn count(&self) -> usize {
        self.far.places.len()
    }

    /// Where in the target's memory an element begins.
    pub(crate) fn place(&self, element: usize) -> usize {
        self.at_offset(self.far.places[element].0)
    }

    fn at_offset(&self, bytes: i64) -> usize {
        let place = self.at.checked_add_signed(bytes as isize);
        place.expect("inside the target's memory")
    }

    /// Bytes of the target's memory, gaps included.
    pub(crate) fn bytes(&self) -> Range<usize> {
        match self.count() {
            0 => self.at..self.at,
            _ => self.at_offset(self.far.data.start)..self.at_offset(self.far.data.end),
        }
    }

    /// What a result's buffer holds beforehand.
    pub(crate) fn blank(id: u32, index: usize) -> u8 {
        (id as usize * 31 + index * 7 + 5) as u8
    }
}

/// Bytes from the first of `count` elements to the end of the last, whose padding is not touched.
pub(crate) fn span(ty: BasicType, count: usize) -> usize {
    let trailing: usize = match ty {
        BasicType::DoubleInt | BasicType::LongInt => 4,
        BasicType::LongDoubleInt => 12,
        _ => 0,
    };
    (count * ty.extent()).saturating_sub(trailing)
}

pub(crate) fn is_padding(ty: BasicType, at: usize) -> bool {
    match ty {
        BasicType::ShortInt => (2..4).contains(&at),
        _ => at >= span(ty, 1),
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            id,
            kind,
            target,
            ty,
            op,
            ..
        } = self;
        let request = if self.request { " with a request" } else { "" };
        write!(f, "{id}: {kind:?}{request}")?;
        if let Some(counter) = self.notifies {
            write!(f, " that raises counter {counter}")?;
        }
        if self.is_accumulate() && *kind != Kind::CompareAndSwap {
            write!(f, " {op:?}")?;
        }
        let bytes = self.bytes();
        match self.derived {
            false => write!(f, " of {} {ty:?}", self.count())?,
            true => write!(f, " of {} elements", self.count())?,
        }
        write!(f, " at {}..{} of rank {target}", bytes.start, bytes.end)?;
        let shown = |bytes: &[u8]| format!("{:02x?}", &bytes[..bytes.len().min(24)]);
        if !self.fetches() || self.is_accumulate() && *op != Op::NoOp {
            write!(f, ", operands {}", shown(&self.operands))?;
        }
        if *kind == Kind::CompareAndSwap {
            write!(f, ", compare {}", shown(&self.compare))?;
        }
        if self.derived {
            let layout = |layout: &Layout| format!("{} × {:?}", layout.count, layout.shape);
            write!(
                f,
                ", placed at {}: {}; at the origin {}; in the result {}",
                self.at,
                layout(&self.far),
                layout(&self.near),
                layout(&self.back)
            )?;
        }
        Ok(())
    }
}
