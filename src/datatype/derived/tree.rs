//! A type as it was constructed.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::super::BasicType;
use super::bounds::Span;
use super::committed::{Committed, Flat};
use super::outline::{Outline, Uniform};

/// A layout of memory under construction (MPI-4.1, section 5.1): predefined types at displacements
/// from the place of the layout. Clones are cheap; constructors share their operands.
///
/// Operations do not accept it: [`Datatype::commit`] makes a [`Committed`] of it. So the compiler
/// refuses a type that was not committed, and operations do not have to check this.
///
/// ```
/// use transom::BasicType;
/// use transom::raw::Datatype;
///
/// # fn main() -> transom::Result<()> {
/// // A column of a matrix of 100 × 100 integers, and all of them, one after the other.
/// let column = Datatype::vector(100, 1, 100, &BasicType::I32.into())?;
/// let transposed = Datatype::hvector(100, 1, 4, &column)?.commit();
/// assert_eq!(transposed.size(), 40_000);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Datatype(pub(super) Arc<Node>);

pub(super) struct Node {
    constructor: &'static str,
    pub(super) outline: Outline,
    pub(super) contents: Contents,
    flat: OnceLock<Arc<Flat>>,
}

/// The contents of a type.
pub(super) enum Contents {
    Basic(BasicType),
    /// The same data, with other bounds.
    Same(Datatype),
    /// Blocks at equal distances.
    Strided {
        count: u64,
        block_len: u64,
        stride: i64,
        of: Datatype,
    },
    /// Blocks at any displacements.
    Blocks {
        blocks: Box<[Block]>,
        of: Datatype,
    },
    /// Blocks of different types.
    Members(Box<[(Block, Datatype)]>),
}

/// Elements of a type, one extent apart.
#[derive(Clone, Copy)]
pub(super) struct Block {
    /// In bytes.
    pub(super) at: i64,
    pub(super) len: u64,
}

impl Datatype {
    pub(super) fn new(constructor: &'static str, outline: Outline, contents: Contents) -> Self {
        Self(Arc::new(Node {
            constructor,
            outline,
            contents,
            flat: OnceLock::new(),
        }))
    }

    /// Local. Flattens the layout, once for all clones, so that operations can use it (MPI-4.1,
    /// section 5.1.9).
    #[must_use]
    pub fn commit(&self) -> Committed {
        let flat = self.0.flat.get_or_init(|| Arc::new(Flat::new(self)));
        Committed::new(self.clone(), flat.clone())
    }

    /// Local. Bytes of data, without gaps.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.0.outline.size
    }

    /// Local. Lower bound in bytes: the beginning of the layout relative to its place.
    #[must_use]
    pub fn lb(&self) -> i64 {
        self.bounds().lo
    }

    /// Local. Bytes from one element to the next: the upper minus the lower bound.
    #[must_use]
    pub fn extent(&self) -> i64 {
        self.bounds().len().unwrap_or(i64::MAX)
    }

    /// Local. First byte of data, relative to the place of the layout.
    #[must_use]
    pub fn true_lb(&self) -> i64 {
        self.0.outline.data.map_or(0, |data| data.lo)
    }

    /// Local. From the first byte of data to the end of the last, regardless of explicit bounds.
    #[must_use]
    pub fn true_extent(&self) -> i64 {
        self.0.outline.data.and_then(Span::len).unwrap_or(0)
    }

    /// Constructors refuse types whose bounds cannot be represented.
    pub(super) fn bounds(&self) -> Span {
        self.0.outline.bounds().unwrap_or(Span::of(0))
    }
}

impl From<BasicType> for Datatype {
    fn from(ty: BasicType) -> Self {
        Committed::of(ty).datatype().clone()
    }
}

impl fmt::Debug for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// As in `vector of 1024 × f64 (8192 bytes)`.
impl fmt::Display for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Node {
            constructor,
            outline,
            contents,
            ..
        } = &*self.0;
        if let Contents::Basic(ty) = contents {
            return f.write_str(ty.name());
        }
        write!(f, "{constructor} of ")?;
        match outline.element {
            Uniform::None => f.write_str("nothing")?,
            Uniform::Only(ty) => {
                let count = outline.size / ty.size() as u64;
                write!(f, "{count} × {}", ty.name())?;
            }
            Uniform::Mixed => write!(f, "{} elements", outline.signature.len)?,
        }
        write!(f, " ({} bytes)", outline.size)
    }
}

impl Contents {
    /// The block with this number, and the type of its elements.
    pub(super) fn block(&self, index: u64) -> Option<(Block, &Datatype)> {
        match self {
            Self::Basic(_) => None,
            Self::Same(of) => (index == 0).then_some((Block { at: 0, len: 1 }, of)),
            Self::Strided {
                count,
                block_len,
                stride,
                of,
            } => {
                let (at, len) = (stride.wrapping_mul(index as i64), *block_len);
                (index < *count).then_some((Block { at, len }, of))
            }
            Self::Blocks { blocks, of } => Some((*blocks.get(index as usize)?, of)),
            Self::Members(members) => {
                let (block, of) = members.get(index as usize)?;
                Some((*block, of))
            }
        }
    }

    pub(super) fn children(&self) -> impl Iterator<Item = &Datatype> {
        let (one, many): (Option<&Datatype>, &[(Block, Datatype)]) = match self {
            Self::Basic(_) => (None, &[]),
            Self::Same(of) | Self::Strided { of, .. } | Self::Blocks { of, .. } => (Some(of), &[]),
            Self::Members(members) => (None, members),
        };
        one.into_iter().chain(many.iter().map(|(_, of)| of))
    }

    fn take_children(&mut self, into: &mut Vec<Datatype>) {
        match std::mem::replace(self, Self::Basic(BasicType::Byte)) {
            Self::Basic(_) => {}
            Self::Same(of) | Self::Strided { of, .. } | Self::Blocks { of, .. } => into.push(of),
            Self::Members(members) => into.extend(members.into_iter().map(|(_, of)| of)),
        }
    }
}

/// One by one: with nested drops, deeply nested types would overflow the stack.
impl Drop for Node {
    fn drop(&mut self) {
        let mut orphans = Vec::new();
        self.contents.take_children(&mut orphans);
        while let Some(Datatype(node)) = orphans.pop() {
            if let Some(mut node) = Arc::into_inner(node) {
                node.contents.take_children(&mut orphans);
            }
        }
    }
}
