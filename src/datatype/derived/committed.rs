//! A type that operations take.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, LazyLock};

use super::super::BasicType;
use super::bounds::Span;
use super::flatten::{bytes, elements, flatten};
use super::layout::Measure;
use super::outline::{Outline, Uniform, legal_size};
use super::piece::{Blocks, Piece, Shape};
use super::signature::Signature;
use super::tree::{Contents, Datatype};

/// A layout of memory that operations accept: a [`Datatype`] that was committed, or a predefined type
/// (`BasicType::F64.into()`). Clones are cheap; the layout lives as long as any clone.
#[derive(Clone)]
pub struct Committed {
    ty: Datatype,
    flat: Arc<Flat>,
}

/// The form of a layout that operations use.
pub(crate) struct Flat {
    outline: Outline,
    extent: i64,
    /// Runs of bytes; `None` without data.
    bytes: Option<Piece>,
    /// Runs of whole elements with their padding, if all elements are of one padded type.
    padded: Option<Piece>,
}

impl Flat {
    pub(super) fn new(ty: &Datatype) -> Self {
        let outline = ty.0.outline;
        let padded = match outline.element {
            Uniform::Only(basic) if basic.is_padded() => flatten(ty, elements),
            _ => None,
        };
        Self {
            outline,
            extent: ty.extent(),
            bytes: flatten(ty, bytes),
            padded,
        }
    }
}

static PREDEFINED: LazyLock<[Committed; BasicType::ALL.len()]> = LazyLock::new(|| {
    BasicType::ALL.map(|ty| {
        let outline = Outline::of(ty);
        Datatype::new(ty.name(), outline, Contents::Basic(ty)).commit()
    })
});

impl Committed {
    pub(super) fn new(ty: Datatype, flat: Arc<Flat>) -> Self {
        Self { ty, flat }
    }

    /// Local. The committed form of a predefined type.
    #[must_use]
    pub fn of(ty: BasicType) -> &'static Self {
        &PREDEFINED[ty as usize]
    }

    /// Local. The type itself, from which others can be constructed.
    #[must_use]
    pub fn datatype(&self) -> &Datatype {
        &self.ty
    }

    /// Local. Bytes of data in one element.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.ty.size()
    }

    /// Local. Bytes from one element to the next.
    #[must_use]
    pub fn extent(&self) -> i64 {
        self.flat.extent
    }

    /// The bytes of data in `count` elements, and their true bounds, which are empty without data; `None` if these
    /// exceed 64 bits.
    pub(super) fn measure(&self, count: u64) -> Option<Measure> {
        let Outline { size, data, .. } = self.flat.outline;
        let size = legal_size(size.checked_mul(count)?)?;
        let span = match data {
            Some(data) if count > 0 => data.repeated(count, self.flat.extent)?,
            _ => Span::of(0),
        };
        span.len()?;
        Some(Measure { size, span })
    }

    /// The runs of bytes in `count` elements; `None` without data.
    pub(crate) fn bytes(&self, count: u64) -> Option<Cow<'_, Piece>> {
        repeated(self.flat.bytes.as_ref()?, count, self.flat.extent)
    }

    /// The runs of whole elements in `count` elements of a type that consists of one predefined type.
    pub(crate) fn elements(&self, count: u64) -> Option<Cow<'_, Piece>> {
        let piece = self.flat.padded.as_ref().or(self.flat.bytes.as_ref())?;
        repeated(piece, count, self.flat.extent)
    }

    pub(crate) fn element(&self) -> Uniform {
        self.flat.outline.element
    }

    pub(super) fn signature(&self, count: u64) -> Signature {
        self.flat.outline.signature.repeated(count)
    }

    /// Whether this sequence of predefined types is that of `room`, or its beginning.
    pub(crate) fn fits(&self, count: u64, room: &Self, room_count: u64) -> bool {
        if Arc::ptr_eq(&self.flat, &room.flat) && count <= room_count {
            return true;
        }
        let data = self.signature(count);
        Signature::of_first(data.len, &room.ty, room_count) == Some(data)
    }
}

fn repeated(piece: &Piece, count: u64, extent: i64) -> Option<Cow<'_, Piece>> {
    match count {
        1 => Some(Cow::Borrowed(piece)),
        _ => piece.repeated(count, extent).map(Cow::Owned),
    }
}

impl Piece {
    /// The length of a layout that is one run.
    pub(crate) fn as_run(&self) -> Option<u64> {
        match self.shape {
            Shape::Blocks(Blocks { len, count: 1, .. }) => Some(len),
            _ => None,
        }
    }
}

impl From<BasicType> for Committed {
    fn from(ty: BasicType) -> Self {
        Self::of(ty).clone()
    }
}

impl From<&Committed> for Datatype {
    fn from(committed: &Committed) -> Self {
        committed.ty.clone()
    }
}

impl fmt::Display for Committed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ty.fmt(f)
    }
}

impl fmt::Debug for Committed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ty.fmt(f)
    }
}
