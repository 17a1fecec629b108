//! The normal form of a layout.

use std::sync::Arc;

/// Equal blocks at equal distances. A single block has a count of 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// Bytes of each.
    pub(crate) len: u64,
    pub(crate) count: u64,
    /// From the first byte of one to the first byte of the next.
    pub(crate) stride: i64,
}

/// A layout, or a part of one, in the order of its bytes, with adjacent bytes joined.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// The offset from the place of the whole layout.
    pub(crate) at: i64,
    pub(crate) shape: Shape,
}

#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Blocks(Blocks),
    Nest(Nest),
}

/// A sequence of parts, and the repetition of this sequence.
#[derive(Clone, Debug)]
pub(crate) struct Nest {
    pub(crate) count: u64,
    pub(crate) stride: i64,
    pub(crate) parts: Arc<Parts>,
}

/// At least two parts, or one that is repeated and is not a single block.
#[derive(Debug)]
pub(crate) struct Parts(pub(crate) Vec<Piece>);

impl Piece {
    pub(crate) fn run(at: i64, len: u64) -> Self {
        Self::blocks(at, len, 1, 0)
    }

    fn blocks(at: i64, len: u64, count: u64, stride: i64) -> Self {
        let stride = if count == 1 { 0 } else { stride };
        Self {
            at,
            shape: Shape::Blocks(Blocks { len, count, stride }),
        }
    }

    fn nest(at: i64, count: u64, stride: i64, parts: Arc<Parts>) -> Self {
        let stride = if count == 1 { 0 } else { stride };
        let nest = Nest {
            count,
            stride,
            parts,
        };
        let shape = Shape::Nest(nest);
        Self { at, shape }
    }

    /// A list of parts in order; each must have bytes.
    pub(crate) fn list(mut parts: Vec<Piece>) -> Option<Self> {
        if parts.len() <= 1 {
            return parts.pop();
        }
        // Relative to the first part, so that equal lists at different places compare equal.
        let at = parts[0].at;
        for part in &mut parts {
            part.at -= at;
        }
        Some(Self::nest(at, 1, 0, Arc::new(Parts(parts))))
    }

    /// `len` bytes without memory. No strip of a walk includes both the byte before `cut` and the byte after it.
    pub(crate) fn cut(len: u64, cut: u64) -> Self {
        if cut == 0 || cut >= len {
            return Self::run(0, len);
        }
        let rest = Self::run(cut as i64 + 1, len - cut);
        Self::nest(0, 1, 0, Arc::new(Parts(vec![Self::run(0, cut), rest])))
    }

    /// The parts of a list that is not repeated, and their place.
    pub(crate) fn as_list(&self) -> Option<(i64, &[Self])> {
        match &self.shape {
            Shape::Nest(nest) if nest.count == 1 => Some((self.at, &nest.parts.0)),
            _ => None,
        }
    }

    pub(crate) fn shifted(&self, by: i64) -> Self {
        Self {
            at: self.at + by,
            shape: self.shape.clone(),
        }
    }

    /// `count` copies, each `stride` bytes after the previous one. The constructors have checked that everything is
    /// within 64 bits.
    pub(crate) fn repeated(&self, count: u64, stride: i64) -> Option<Self> {
        if count <= 1 {
            return (count == 1).then(|| self.clone());
        }
        let at = self.at;
        Some(match &self.shape {
            Shape::Blocks(blocks) if blocks.count == 1 => {
                if i128::from(stride) == i128::from(blocks.len) {
                    Self::run(at, blocks.len * count)
                } else {
                    Self::blocks(at, blocks.len, count, stride)
                }
            }
            Shape::Blocks(blocks) if continues(blocks.count, blocks.stride, stride) => {
                Self::blocks(at, blocks.len, blocks.count * count, blocks.stride)
            }
            Shape::Nest(nest) if nest.count == 1 => {
                Self::nest(at, count, stride, nest.parts.clone())
            }
            Shape::Nest(nest) if continues(nest.count, nest.stride, stride) => {
                Self::nest(at, nest.count * count, nest.stride, nest.parts.clone())
            }
            _ => {
                let shape = self.shape.clone();
                let once = Self { at: 0, shape };
                Self::nest(at, count, stride, Arc::new(Parts(vec![once])))
            }
        })
    }

    /// Whether it consists of blocks of `len` bytes.
    pub(crate) fn is_of_blocks(&self, len: u64) -> bool {
        matches!(&self.shape, Shape::Blocks(blocks) if blocks.len == len)
    }

    /// Whether a walk splits `other` only where its own blocks end, as far as this is easily seen.
    pub(crate) fn is_as_coarse_as(&self, other: &Self) -> bool {
        self.as_run().is_some() || self.shape.equal(&other.shape)
    }

    /// Both as one piece, if that is a normal form; `next` follows this one.
    pub(super) fn join(&self, next: &Self) -> Option<Self> {
        match (&self.shape, &next.shape) {
            (Shape::Blocks(a), Shape::Blocks(b)) => {
                if a.count == 1 && b.count == 1 {
                    let adjacent = i128::from(self.at) + i128::from(a.len) == next.at.into();
                    return adjacent.then(|| Self::run(self.at, a.len + b.len));
                }
                let alike = a.len == b.len;
                let stride = row(self.at, a.count, a.stride, next.at, b.count, b.stride);
                let stride = stride.filter(|_| alike)?;
                Some(Self::blocks(self.at, a.len, a.count + b.count, stride))
            }
            (Shape::Nest(a), Shape::Nest(b)) => {
                if a.count == 1 && b.count == 1 || !Parts::equal(&a.parts, &b.parts) {
                    return None;
                }
                let stride = row(self.at, a.count, a.stride, next.at, b.count, b.stride)?;
                let count = a.count + b.count;
                Some(Self::nest(self.at, count, stride, a.parts.clone()))
            }
            _ => None,
        }
    }
}

impl Shape {
    /// Whether both are certainly the same layout; false costs memory, not correctness.
    pub(super) fn equal(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Blocks(a), Self::Blocks(b)) => a == b,
            (Self::Nest(a), Self::Nest(b)) => {
                (a.count, a.stride) == (b.count, b.stride) && Parts::equal(&a.parts, &b.parts)
            }
            _ => false,
        }
    }
}

impl Parts {
    /// Whether they are the same object, or equal short lists of blocks; does not recurse.
    fn equal(a: &Arc<Self>, b: &Arc<Self>) -> bool {
        const FEW: usize = 8;
        let alike = |(a, b): (&Piece, &Piece)| match (&a.shape, &b.shape) {
            (Shape::Blocks(x), Shape::Blocks(y)) => a.at == b.at && x == y,
            _ => false,
        };
        Arc::ptr_eq(a, b)
            || a.0.len() == b.0.len() && a.0.len() <= FEW && a.0.iter().zip(&b.0).all(alike)
    }
}

/// Whether `count` steps lead to the beginning of the next row.
fn continues(count: u64, step: i64, stride: i64) -> bool {
    i128::from(count) * i128::from(step) == i128::from(stride)
}

/// The stride of the row that two rows form, if they do; at least one has several members.
fn row(at: i64, count: u64, stride: i64, next: i64, more: u64, next_stride: i64) -> Option<i64> {
    let step = if count == 1 { next_stride } else { stride };
    let even = more == 1 || next_stride == step;
    let follows = i128::from(at) + i128::from(count) * i128::from(step) == i128::from(next);
    (even && follows).then_some(step)
}

/// Drops parts one by one, like the tree's nodes.
impl Drop for Parts {
    fn drop(&mut self) {
        let mut orphans = std::mem::take(&mut self.0);
        while let Some(Piece { shape, .. }) = orphans.pop() {
            if let Shape::Nest(nest) = shape
                && let Some(mut parts) = Arc::into_inner(nest.parts)
            {
                orphans.append(&mut parts.0);
            }
        }
    }
}
