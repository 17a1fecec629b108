//! The constructors (MPI-4.1, sections 5.1.2 and 5.1.7), with the arguments of their forms of large
//! counts.

use super::bounds::Span;
use super::outline::{Hull, Outline};
use super::tree::{Block, Contents, Datatype};
use crate::error::{DatatypeMisuse, Error, Result};

impl Datatype {
    /// Local. `count` contiguous elements of `old`.
    ///
    /// # Errors
    /// A negative count (class Count); a size or bounds past 64 bits (class Count).
    pub fn contiguous(count: i64, old: &Self) -> Result<Self> {
        const CONSTRUCTOR: &str = "contiguous";
        let count = check_count(CONSTRUCTOR, count)?;
        strided(CONSTRUCTOR, count, 1, old.extent(), old)
    }

    /// Local. `count` blocks of `block_len` elements each; `stride`, from the start of one block to
    /// that of the next, counts extents of `old`.
    ///
    /// # Errors
    /// A negative count (class Count) or length of blocks (class Arg); a size or bounds past 64
    /// bits (class Count).
    pub fn vector(count: i64, block_len: i64, stride: i64, old: &Self) -> Result<Self> {
        const CONSTRUCTOR: &str = "vector";
        let count = check_count(CONSTRUCTOR, count)?;
        let block_len = check_block_len(CONSTRUCTOR, block_len)?;
        let Some(bytes) = stride.checked_mul(old.extent()) else {
            return Err(overflow(CONSTRUCTOR, || {
                format!("a stride of {stride} × {} bytes", old.extent())
            }));
        };
        strided(CONSTRUCTOR, count, block_len, bytes, old)
    }

    /// Local. As [`Datatype::vector`], with the stride in bytes.
    ///
    /// # Errors
    /// As for [`Datatype::vector`].
    pub fn hvector(count: i64, block_len: i64, stride: i64, old: &Self) -> Result<Self> {
        const CONSTRUCTOR: &str = "hvector";
        let count = check_count(CONSTRUCTOR, count)?;
        let block_len = check_block_len(CONSTRUCTOR, block_len)?;
        strided(CONSTRUCTOR, count, block_len, stride, old)
    }

    /// Local. Blocks of individual lengths, at displacements that count extents of `old`.
    ///
    /// # Errors
    /// Lists of different lengths, or a negative length (class Arg); a size or bounds past 64 bits
    /// (class Count).
    pub fn indexed(block_lens: &[i64], displacements: &[i64], old: &Self) -> Result<Self> {
        const CONSTRUCTOR: &str = "indexed";
        same_lengths(CONSTRUCTOR, block_lens.len(), displacements.len())?;
        let blocks = block_lens.iter().zip(displacements);
        listed(CONSTRUCTOR, blocks, old.extent(), old)
    }

    /// Local. As [`Datatype::indexed`], with displacements in bytes.
    ///
    /// # Errors
    /// As for [`Datatype::indexed`].
    pub fn hindexed(block_lens: &[i64], displacements: &[i64], old: &Self) -> Result<Self> {
        const CONSTRUCTOR: &str = "hindexed";
        same_lengths(CONSTRUCTOR, block_lens.len(), displacements.len())?;
        listed(CONSTRUCTOR, block_lens.iter().zip(displacements), 1, old)
    }

    /// Local. Blocks of equal length, at displacements that count extents of `old`.
    ///
    /// # Errors
    /// As for [`Datatype::indexed`].
    pub fn indexed_block(block_len: i64, displacements: &[i64], old: &Self) -> Result<Self> {
        let blocks = displacements.iter().map(|at| (&block_len, at));
        listed("indexed_block", blocks, old.extent(), old)
    }

    /// Local. As [`Datatype::indexed_block`], with displacements in bytes.
    ///
    /// # Errors
    /// As for [`Datatype::indexed`].
    pub fn hindexed_block(block_len: i64, displacements: &[i64], old: &Self) -> Result<Self> {
        let blocks = displacements.iter().map(|at| (&block_len, at));
        listed("hindexed_block", blocks, 1, old)
    }

    /// Local. Blocks of individual lengths and types, at displacements in bytes (`MPI_Type_create_struct`).
    ///
    /// # Errors
    /// As for [`Datatype::indexed`].
    pub fn structure(block_lens: &[i64], displacements: &[i64], types: &[Self]) -> Result<Self> {
        const CONSTRUCTOR: &str = "struct";
        same_lengths(CONSTRUCTOR, block_lens.len(), displacements.len())?;
        same_lengths(CONSTRUCTOR, block_lens.len(), types.len())?;
        let mut outline = Outline::EMPTY;
        let mut members = Vec::with_capacity(types.len());
        for ((&len, &at), ty) in block_lens.iter().zip(displacements).zip(types) {
            let len = check_block_len(CONSTRUCTOR, len)?;
            let next = block(ty, at, len).and_then(|block| outline.then(&block));
            outline = next.ok_or_else(|| {
                overflow(CONSTRUCTOR, || {
                    format!("a block of {len} × {ty} at displacement {at}")
                })
            })?;
            members.push((Block { at, len }, ty.clone()));
        }
        finish(CONSTRUCTOR, outline, Contents::Members(members.into()))
    }

    /// Local. The same data, with the lower bound `lb` and the upper bound `lb + extent`. With a negative extent, each
    /// element is below the previous one.
    ///
    /// # Errors
    /// Bounds past 64 bits (class Count).
    pub fn resized(old: &Self, lb: i64, extent: i64) -> Result<Self> {
        const CONSTRUCTOR: &str = "resized";
        let Some(hi) = lb.checked_add(extent) else {
            return Err(overflow(CONSTRUCTOR, || {
                format!("an extent of {extent} from {lb} on")
            }));
        };
        let outline = old.0.outline.with_markers(Span { lo: lb, hi });
        finish(CONSTRUCTOR, outline, Contents::Same(old.clone()))
    }

    /// Local. The same type (`MPI_Type_dup`).
    #[must_use]
    pub fn dup(old: &Self) -> Self {
        Self::new("dup", old.0.outline, Contents::Same(old.clone()))
    }
}

fn strided(
    constructor: &'static str,
    count: u64,
    block_len: u64,
    stride: i64,
    old: &Datatype,
) -> Result<Datatype> {
    let outline = block(old, 0, block_len).and_then(|block| block.repeated(count, stride));
    let outline = outline.ok_or_else(|| {
        overflow(constructor, || {
            format!("{count} blocks of {block_len} × {old}, {stride} bytes apart")
        })
    })?;
    let contents = Contents::Strided {
        count,
        block_len,
        stride,
        of: old.clone(),
    };
    finish(constructor, outline, contents)
}

/// Blocks at displacements that count `unit` bytes.
fn listed<'a>(
    constructor: &'static str,
    list: impl ExactSizeIterator<Item = (&'a i64, &'a i64)>,
    unit: i64,
    old: &Datatype,
) -> Result<Datatype> {
    let mut blocks = Vec::with_capacity(list.len());
    let mut total = Some(0_u64);
    let mut hull = Hull::default();
    // Most lists have blocks of one length.
    let mut last = (0, Some(Hull::default()));
    for (&len, &displacement) in list {
        let len = check_block_len(constructor, len)?;
        if last.0 != len {
            last = (len, old.0.outline.hull_of(len, old.extent()));
        }
        let next = displacement.checked_mul(unit).and_then(|at| {
            blocks.push(Block { at, len });
            total = Some(total?.checked_add(len)?);
            hull.with(&last.1?, at)
        });
        hull = next.ok_or_else(|| {
            overflow(constructor, || {
                format!("a block of {len} × {old} at displacement {displacement} × {unit}")
            })
        })?;
    }
    let outline = total.and_then(|total| old.0.outline.within(total, hull));
    let outline =
        outline.ok_or_else(|| overflow(constructor, || format!("so many blocks of {old}")))?;
    let contents = Contents::Blocks {
        blocks: blocks.into(),
        of: old.clone(),
    };
    finish(constructor, outline, contents)
}

/// `len` elements, contiguous from `at` on.
fn block(ty: &Datatype, at: i64, len: u64) -> Option<Outline> {
    match len {
        0 => Some(Outline::EMPTY),
        _ => ty.0.outline.repeated(len, ty.extent())?.shifted(at),
    }
}

/// The type, if its extents can be represented.
pub(super) fn finish(
    constructor: &'static str,
    outline: Outline,
    contents: Contents,
) -> Result<Datatype> {
    let true_len = outline.data.map_or(Some(0), Span::len);
    if outline.bounds().and(true_len).is_none() {
        return Err(overflow(constructor, || "the extent".to_owned()));
    }
    Ok(Datatype::new(constructor, outline, contents))
}

fn check_count(constructor: &'static str, count: i64) -> Result<u64> {
    u64::try_from(count)
        .map_err(|_| Error::new(constructor, DatatypeMisuse::NegativeCount { count }))
}

fn check_block_len(constructor: &'static str, len: i64) -> Result<u64> {
    u64::try_from(len).map_err(|_| bad(constructor, "block length", len, "0 or more"))
}

pub(super) fn same_lengths(constructor: &'static str, first: usize, second: usize) -> Result<()> {
    if first == second {
        return Ok(());
    }
    let (first, second) = (first as u64, second as u64);
    Err(Error::new(
        constructor,
        DatatypeMisuse::ListLengths { first, second },
    ))
}

#[cold]
pub(super) fn bad(
    constructor: &'static str,
    argument: &'static str,
    value: i64,
    legal: impl Into<String>,
) -> Error {
    Error::new(
        constructor,
        DatatypeMisuse::Argument {
            argument,
            value,
            legal: legal.into(),
        },
    )
}

#[cold]
pub(super) fn overflow(constructor: &'static str, what: impl FnOnce() -> String) -> Error {
    Error::new(constructor, DatatypeMisuse::Overflow { what: what() })
}
