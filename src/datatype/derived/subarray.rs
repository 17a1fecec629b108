//! Parts of arrays of several dimensions.

use super::bounds::Span;
use super::construct::{bad, finish, overflow, same_lengths};
use super::tree::{Block, Contents, Datatype};
use crate::error::Result;

/// The dimension of an array whose elements are contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The last, as in C and Rust.
    C,
    /// The first.
    Fortran,
}

impl Datatype {
    /// Local. The part of an array of `sizes` elements that begins at `starts` and has `subsizes` elements in each
    /// dimension. Bounds and extent are those of the whole array (MPI-4.1, section 5.1.3).
    ///
    /// # Errors
    /// No dimension, lists of different lengths, a size or a part's size below 1, a part that exceeds the array (class
    /// Arg); a size or bounds past 64 bits (class Count).
    pub fn subarray(
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: Order,
        old: &Self,
    ) -> Result<Self> {
        const CONSTRUCTOR: &str = "subarray";
        check(CONSTRUCTOR, sizes, subsizes, starts)?;
        let too_large = || {
            overflow(CONSTRUCTOR, || {
                format!("an array of {sizes:?} elements, each {old}")
            })
        };
        // From the contiguous dimension outwards.
        let dimensions: Vec<usize> = match order {
            Order::C => (0..sizes.len()).rev().collect(),
            Order::Fortran => (0..sizes.len()).collect(),
        };
        let mut stride = old.extent();
        let mut at = 0_i64;
        let mut part = old.clone();
        for dimension in dimensions {
            part = Self::hvector(subsizes[dimension], 1, stride, &part)
                .map_err(|error| error.during(CONSTRUCTOR))?;
            let start = starts[dimension].checked_mul(stride);
            at = start
                .and_then(|start| at.checked_add(start))
                .ok_or_else(too_large)?;
            stride = stride.checked_mul(sizes[dimension]).ok_or_else(too_large)?;
        }
        let whole = Span { lo: 0, hi: stride };
        let outline = part.0.outline.shifted(at).ok_or_else(too_large)?;
        let contents = Contents::Blocks {
            blocks: [Block { at, len: 1 }].into(),
            of: part,
        };
        finish(CONSTRUCTOR, outline.with_markers(whole), contents)
    }
}

fn check(constructor: &'static str, sizes: &[i64], subsizes: &[i64], starts: &[i64]) -> Result<()> {
    for other in [subsizes.len(), starts.len()] {
        same_lengths(constructor, sizes.len(), other)?;
    }
    if sizes.is_empty() {
        return Err(bad(constructor, "number of dimensions", 0, "1 or more"));
    }
    for ((&size, &subsize), &start) in sizes.iter().zip(subsizes).zip(starts) {
        if size < 1 {
            return Err(bad(constructor, "size", size, "1 or more"));
        }
        if subsize < 1 || subsize > size {
            return Err(bad(constructor, "subsize", subsize, format!("1 to {size}")));
        }
        if start < 0 || start > size - subsize {
            let legal = format!("0 to {}", size - subsize);
            return Err(bad(constructor, "start", start, legal));
        }
    }
    Ok(())
}
