//! What constructors know of a type without walking it.

use super::super::BasicType;
use super::bounds::{Span, hull};
use super::signature::Signature;

/// Size, bounds and signature. Methods return `None` if a number exceeds 64 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Outline {
    /// Bytes of data.
    pub(crate) size: u64,
    /// From the first byte of data to the end of the last: the true bounds.
    pub(crate) data: Option<Span>,
    /// The markers of explicit bounds, which replace the bounds of the data.
    markers: Option<Span>,
    /// The alignment of its most strictly aligned predefined type.
    align: u8,
    pub(crate) signature: Signature,
    pub(crate) element: Uniform,
}

/// The predefined types in a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uniform {
    None,
    Only(BasicType),
    Mixed,
}

/// The ranges of copies of a type: the hulls of their data, and of their markers.
#[derive(Clone, Copy, Default)]
pub(super) struct Hull {
    data: Option<Span>,
    markers: Option<Span>,
}

impl Hull {
    /// This hull, and `next` at the offset `at`.
    pub(super) fn with(&self, next: &Self, at: i64) -> Option<Self> {
        let shifted = |span| each(span, |span| span.shifted(at));
        Some(Self {
            data: hull(self.data, shifted(next.data)?),
            markers: hull(self.markers, shifted(next.markers)?),
        })
    }
}

impl Outline {
    pub(super) const EMPTY: Self = Self {
        size: 0,
        data: None,
        markers: None,
        align: 1,
        signature: Signature::EMPTY,
        element: Uniform::None,
    };

    pub(super) fn of(ty: BasicType) -> Self {
        Self {
            size: ty.size() as u64,
            data: Some(Span {
                lo: 0,
                hi: ty.true_extent() as i64,
            }),
            markers: None,
            align: ty.alignment(),
            signature: Signature::of(ty),
            element: Uniform::Only(ty),
        }
    }

    /// Lower and upper bound: the markers, or the bounds of the data with padding for its alignment
    /// (MPI-4.1, section 5.1).
    pub(crate) fn bounds(&self) -> Option<Span> {
        if let Some(markers) = self.markers {
            markers.len()?;
            return Some(markers);
        }
        let Some(data) = self.data else {
            return Some(Span::of(0));
        };
        let padding = match data.len()? % i64::from(self.align) {
            0 => 0,
            over => i64::from(self.align) - over,
        };
        let padded = Span {
            lo: data.lo,
            hi: data.hi.checked_add(padding)?,
        };
        padded.len()?;
        Some(padded)
    }

    /// `count` copies, each `stride` bytes after the previous one.
    pub(super) fn repeated(&self, count: u64, stride: i64) -> Option<Self> {
        if count == 0 {
            return Some(Self::EMPTY);
        }
        let repeated = |span| each(span, |span| span.repeated(count, stride));
        Some(Self {
            size: legal_size(self.size.checked_mul(count)?)?,
            data: repeated(self.data)?,
            markers: repeated(self.markers)?,
            signature: self.signature.repeated(count),
            ..*self
        })
    }

    pub(super) fn shifted(&self, by: i64) -> Option<Self> {
        let shifted = |span| each(span, |span| span.shifted(by));
        Some(Self {
            data: shifted(self.data)?,
            markers: shifted(self.markers)?,
            ..*self
        })
    }

    /// This outline, followed by `next`.
    pub(super) fn then(&self, next: &Self) -> Option<Self> {
        Some(Self {
            size: legal_size(self.size.checked_add(next.size)?)?,
            data: hull(self.data, next.data),
            markers: hull(self.markers, next.markers),
            align: self.align.max(next.align),
            signature: self.signature.then(next.signature),
            element: match (self.element, next.element) {
                (Uniform::None, one) | (one, Uniform::None) => one,
                (one, other) if one == other => one,
                _ => Uniform::Mixed,
            },
        })
    }

    /// The hull of `len` contiguous elements.
    pub(super) fn hull_of(&self, len: u64, extent: i64) -> Option<Hull> {
        if len == 0 {
            return Some(Hull::default());
        }
        let repeated = |span| each(span, |span| span.repeated(len, extent));
        Some(Hull {
            data: repeated(self.data)?,
            markers: repeated(self.markers)?,
        })
    }

    /// `count` copies, somewhere in `hull`.
    pub(super) fn within(&self, count: u64, hull: Hull) -> Option<Self> {
        let Hull { data, markers } = hull;
        Some(Self {
            data,
            markers,
            ..self.repeated(count, 0)?
        })
    }

    pub(super) fn with_markers(&self, markers: Span) -> Self {
        Self {
            markers: Some(markers),
            ..*self
        }
    }
}

/// Applies `act` to an optional range; `None` if it exceeds 64 bits.
fn each(span: Option<Span>, act: impl Fn(Span) -> Option<Span>) -> Option<Option<Span>> {
    span.map_or(Some(None), |span| act(span).map(Some))
}

/// The size, if `MPI_Count`, which is signed, can represent it.
pub(super) fn legal_size(size: u64) -> Option<u64> {
    (size <= i64::MAX as u64).then_some(size)
}
