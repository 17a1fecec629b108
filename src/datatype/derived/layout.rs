//! The description of memory for an operation: a number of elements of a type.

use std::borrow::Cow;
use std::fmt;

use super::bounds::Span;
use super::committed::Committed;
use super::outline::Uniform;
use super::piece::Piece;
use crate::datatype::BasicType;
use crate::error::{DatatypeMisuse, Error, Result};

/// `count` elements of a committed type, one extent apart: the layout in memory of the bytes of an operation.
/// [`Committed::times`] makes one.
#[derive(Clone, Copy, Debug)]
pub struct Layout<'t> {
    ty: &'t Committed,
    count: u64,
}

/// The size and bounds of a layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measure {
    /// Bytes of data.
    pub(crate) size: u64,
    /// Their range, relative to the place of the layout.
    pub(crate) span: Span,
}

impl Committed {
    /// Local. A layout of `count` elements.
    #[must_use]
    pub fn times(&self, count: u64) -> Layout<'_> {
        Layout { ty: self, count }
    }
}

impl<'t> Layout<'t> {
    pub(crate) fn measure(&self, operation: &'static str) -> Result<Measure> {
        self.ty.measure(self.count).ok_or_else(|| {
            let what = self.to_string();
            Error::new(operation, DatatypeMisuse::Overflow { what })
        })
    }

    /// The runs of bytes of a measured layout; `None` without data.
    pub(crate) fn bytes(&self) -> Option<Cow<'t, Piece>> {
        self.ty.bytes(self.count)
    }

    /// The same in runs of whole elements with their padding, if all elements are of one type.
    pub(crate) fn elements(&self) -> Option<Cow<'t, Piece>> {
        self.ty.elements(self.count)
    }

    /// The one predefined type of all elements; `None` without data.
    pub(crate) fn element(&self, operation: &'static str) -> Result<Option<BasicType>> {
        match self.ty.element() {
            Uniform::Only(_) if self.count == 0 => Ok(None),
            Uniform::None => Ok(None),
            Uniform::Only(ty) => Ok(Some(ty)),
            Uniform::Mixed => {
                let ty = self.ty.to_string();
                Err(Error::new(operation, DatatypeMisuse::MixedElements { ty }))
            }
        }
    }

    /// Checks that the data of this layout fits into `room` without truncation, like a send into a receive: its
    /// predefined types are the same sequence as those of `room`, or as the first ones. Both were measured.
    pub(crate) fn check_fits(&self, operation: &'static str, room: &Layout<'_>) -> Result<()> {
        if self.ty.fits(self.count, room.ty, room.count) {
            return Ok(());
        }
        Err(Error::new(
            operation,
            DatatypeMisuse::Signatures {
                data: self.to_string(),
                room: room.to_string(),
            },
        ))
    }
}

impl Layout<'_> {
    /// Checks that all elements of this layout and of `other` are of one predefined type.
    pub(crate) fn check_element(&self, operation: &'static str, other: &Layout<'_>) -> Result<()> {
        match (self.element(operation)?, other.element(operation)?) {
            (Some(one), Some(another)) if one != another => Err(Error::new(
                operation,
                DatatypeMisuse::ElementsDiffer {
                    first: self.to_string(),
                    second: other.to_string(),
                },
            )),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Layout<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × [{}]", self.count, self.ty)
    }
}
