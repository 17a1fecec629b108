//! Equal blocks at equal distances: what walks return.

use super::bounds::Span;
use super::piece::Piece;
use crate::error::{DatatypeMisuse, Error, Result};

/// Equal blocks of bytes at equal distances. A single block has a count of 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The first byte of the first block, relative to the place of the row.
    pub at: i64,
    /// Bytes of each block.
    pub len: u64,
    /// The number of blocks.
    pub count: u64,
    /// From the first byte of a block to that of the next; ignored for a single block.
    pub stride: i64,
}

impl Row {
    /// No bytes.
    pub(super) const EMPTY: Self = Self {
        at: 0,
        len: 0,
        count: 0,
        stride: 0,
    };

    /// Its range, and its layout; `None` without data.
    ///
    /// # Errors
    /// It exceeds 63 bits.
    #[inline]
    pub(crate) fn measure(self, operation: &'static str) -> Result<(Span, Option<Piece>)> {
        let Self {
            at,
            len,
            count,
            stride,
        } = self;
        if len == 0 || count == 0 {
            return Ok((Span { lo: at, hi: at }, None));
        }
        let block = i64::try_from(len).ok().and_then(|len| {
            let hi = at.checked_add(len)?;
            Some(Span { lo: at, hi })
        });
        let span = block
            .and_then(|block| block.repeated(count, stride))
            .filter(|span| span.len().is_some())
            .filter(|_| {
                len.checked_mul(count)
                    .is_some_and(|all| i64::try_from(all).is_ok())
            });
        match span {
            Some(span) => Ok((span, Piece::run(at, len).repeated(count, stride))),
            None => {
                let what = format!("{count} blocks of {len} bytes, {stride} bytes apart");
                Err(Error::new(operation, DatatypeMisuse::Overflow { what }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_leaves_63_bits_is_refused() {
        let row = |at, len, count, stride| Row {
            at,
            len,
            count,
            stride,
        };
        let (span, piece) = row(8, 4, 3, -16).measure("test").unwrap();
        assert_eq!((span.lo, span.hi), (-24, 12));
        assert!(piece.is_some());
        for nothing in [row(i64::MAX, 0, 9, 9), row(-7, 9, 0, i64::MIN)] {
            assert!(nothing.measure("test").unwrap().1.is_none());
        }
        for far in [
            row(i64::MAX, 1, 1, 0),
            row(0, u64::MAX, 1, 0),
            row(0, 1, u64::MAX, 1),
            row(0, 1, 3, i64::MAX),
            row(0, 1, 3, i64::MIN),
            row(i64::MIN, 1, 2, -1),
            row(0, 1 << 62, 2, 0),
        ] {
            let error = far.measure("test").unwrap_err();
            assert_eq!(error.class(), crate::ErrorClass::Count, "{far:?}: {error}");
        }
    }
}
