//! Elements at equal distances: columns, blocks of matrices.

use std::ops::Range;

use super::target::same_length;
use super::{Passive, Request, Target};
use crate::lower::{self, Row, error};
use crate::{Accumulate, DatatypeMisuse, Element, Op, Result};

/// Blocks of elements at equal distances, in a slice or in a rank's part. All fields count elements.
///
/// Operations take a range of elements, a `Strided` or a [`Block2d`] on either side, if both sides have the same number
/// of elements.
///
/// ```
/// use transom::{Job, Strided, Window};
///
/// # fn main() -> transom::Result<()> {
/// // A matrix of 10 × 10 on every rank, into whose third column a row goes.
/// let job = Job::init()?;
/// let mut window = Window::<f64>::allocate(job.world(), 100)?;
/// let row: Vec<f64> = (0..10).map(f64::from).collect();
/// let me = job.world().rank();
/// let column = Strided { first: 2, blocks: 10, block_len: 1, stride: 10 };
/// window.fence(|epoch| epoch.target(me)?.put_strided(column, &row, 0..10))?;
/// assert_eq!(window.local()?[32], 3.0);
/// window.free()
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strided {
    /// The first element of the first block.
    pub first: usize,
    /// How many blocks.
    pub blocks: usize,
    /// Elements in each block.
    pub block_len: usize,
    /// From the first element of a block to that of the next; at least `block_len`.
    pub stride: usize,
}

/// A block of a matrix that is stored row by row.
///
/// ```
/// use transom::{Block2d, Strided};
///
/// let halo = Block2d { width: 12, row: 1, column: 0, rows: 10, columns: 1 };
/// let column = Strided { first: 12, blocks: 10, block_len: 1, stride: 12 };
/// assert_eq!(Strided::from(halo), column);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block2d {
    /// Columns of the whole matrix: elements from one row to the next.
    pub width: usize,
    /// The block's first row.
    pub row: usize,
    /// The block's first column.
    pub column: usize,
    /// The number of rows in the block.
    pub rows: usize,
    /// The number of columns in the block. `column + columns` is at most `width`.
    pub columns: usize,
}

impl From<Range<usize>> for Strided {
    fn from(range: Range<usize>) -> Self {
        let len = range.len();
        Self {
            first: range.start,
            blocks: 1,
            block_len: len,
            stride: len,
        }
    }
}

impl From<Block2d> for Strided {
    /// A block that is not inside its matrix becomes a region that every operation refuses.
    fn from(block: Block2d) -> Self {
        Self {
            first: block.first().unwrap_or(usize::MAX),
            blocks: block.rows,
            block_len: block.columns,
            stride: block.width,
        }
    }
}

impl Block2d {
    /// The first element, if the block is inside its matrix.
    fn first(&self) -> Option<usize> {
        let end = self.column.checked_add(self.columns)?;
        let start = self.row.checked_mul(self.width)?;
        (end <= self.width)
            .then(|| start.checked_add(self.column))
            .flatten()
    }
}

/// The elements that an operation takes on one side: a range, [`Strided`] or [`Block2d`].
#[derive(Clone, Copy, Debug)]
pub struct Region {
    strided: Strided,
    /// The block that it was made from, if that is not inside its matrix.
    outside: Option<Block2d>,
}

impl From<Strided> for Region {
    fn from(strided: Strided) -> Self {
        Self {
            strided,
            outside: None,
        }
    }
}

impl From<Range<usize>> for Region {
    fn from(range: Range<usize>) -> Self {
        Strided::from(range).into()
    }
}

impl From<Block2d> for Region {
    fn from(block: Block2d) -> Self {
        Self {
            strided: block.into(),
            outside: block.first().is_none().then_some(block),
        }
    }
}

impl Region {
    fn len(&self) -> Option<usize> {
        self.strided.len()
    }

    /// See [`Strided::row`].
    fn row(&self, operation: &'static str, size: usize, limit: usize) -> Result<Row> {
        let Some(block) = self.outside else {
            return self.strided.row(operation, size, limit);
        };
        let misuse = DatatypeMisuse::Block {
            width: block.width as u64,
            row: block.row as u64,
            column: block.column as u64,
            rows: block.rows as u64,
            columns: block.columns as u64,
        };
        Err(error(operation, misuse))
    }
}

impl Strided {
    /// The number of elements, unless it overflows.
    fn len(&self) -> Option<usize> {
        self.blocks.checked_mul(self.block_len)
    }

    /// Its bytes, for elements of `size` bytes. Checks that blocks do not overlap, and that all end before element
    /// number `limit`.
    fn row(&self, operation: &'static str, size: usize, limit: usize) -> Result<Row> {
        let Self {
            first,
            blocks,
            block_len,
            stride,
        } = *self;
        let refused = |reason: String| {
            let misuse = DatatypeMisuse::Region {
                first: first as u64,
                blocks: blocks as u64,
                block_len: block_len as u64,
                stride: stride as u64,
                reason,
            };
            error(operation, misuse)
        };
        if blocks > 1 && stride < block_len {
            return Err(refused("the blocks overlap".to_owned()));
        }
        let end = blocks
            .saturating_sub(1)
            .checked_mul(stride)
            .and_then(|at| at.checked_add(first)?.checked_add(block_len))
            .filter(|&end| end <= limit);
        if end.is_none() {
            return Err(refused(match limit == isize::MAX as usize / size {
                true => "no memory has all of them".to_owned(),
                false => format!("not all are inside a slice of {limit} elements"),
            }));
        }
        let bytes = |elements: usize| (elements * size) as u64;
        Ok(Row {
            at: bytes(first) as i64,
            len: bytes(block_len),
            count: blocks as u64,
            stride: if blocks > 1 { bytes(stride) as i64 } else { 0 },
        })
    }
}

/// The rows on both sides, which have equal numbers of elements; the local slice has `len` elements.
pub(super) fn rows<T>(
    operation: &'static str,
    near: Region,
    len: usize,
    far: Region,
) -> Result<(Row, Row)> {
    let size = size_of::<T>();
    let near_row = near.row(operation, size, len)?;
    // The window checks the target later; here, sizes that no memory can have are refused.
    let far_row = far.row(operation, size, isize::MAX as usize / size)?;
    let count = |region: &Region| region.len().unwrap_or(usize::MAX);
    same_length(operation, count(&near), count(&far), "at the target")?;
    Ok((near_row, far_row))
}

impl<'op, T: Element, Mode> Target<'op, T, Mode> {
    /// One-sided. Copies the elements `from` of `src` to the elements `to` of the target's part, one
    /// by one in their order (MPI-4.1, section 12.3.1).
    ///
    /// # Errors
    /// See [`Target`]; the regions have different numbers of elements, blocks overlap, or a region is not inside the
    /// slice.
    pub fn put_strided(
        &self,
        to: impl Into<Region>,
        src: &'op [T],
        from: impl Into<Region>,
    ) -> Result<()> {
        // SAFETY: the source is borrowed until the epoch has closed, when the operation is complete; it is not window
        // memory that this epoch writes to.
        unsafe { self.put_region("put_strided", to.into(), src, from.into()) }
    }

    /// One-sided. As [`Target::put_strided`], and then increments the target's notification counter `counter` by 1, as
    /// [`Target::put_notify`] does.
    ///
    /// # Errors
    /// As for [`Target::put_strided`]; the target has no such counter, in which case nothing is put.
    pub fn put_notify_strided(
        &self,
        to: impl Into<Region>,
        src: &'op [T],
        from: impl Into<Region>,
        counter: u32,
    ) -> Result<()> {
        const OPERATION: &str = "put_notify_strided";
        let (near, far) = rows::<T>(OPERATION, from.into(), src.len(), to.into())?;
        let (aim, origin) = (self.aim(OPERATION), src.as_ptr().cast());
        // SAFETY: as for `put_strided`; the row is inside the slice.
        unsafe { lower::put_notify_row(self.raw, aim, origin, near, far, counter) }
    }

    /// One-sided. Copies the elements `from` of the target's part to the elements `to` of `dst`, one
    /// by one in their order (MPI-4.1, section 12.3.2).
    ///
    /// # Errors
    /// As for [`Target::put_strided`].
    pub fn get_strided(
        &self,
        from: impl Into<Region>,
        dst: &'op mut [T],
        to: impl Into<Region>,
    ) -> Result<()> {
        // SAFETY: as for `put_strided`, and uniquely.
        unsafe { self.get_region("get_strided", from.into(), dst, to.into()) }
    }

    /// One-sided. As [`Target::put_strided`], but complete at the target when it returns.
    ///
    /// # Errors
    /// As for [`Target::put_strided`].
    pub fn put_strided_blocking(
        &self,
        to: impl Into<Region>,
        src: &[T],
        from: impl Into<Region>,
    ) -> Result<()> {
        const OPERATION: &str = "put_strided_blocking";
        // SAFETY: the flush completes the operation while the source is borrowed; if it fails, the device no longer
        // uses the source either.
        unsafe { self.put_region(OPERATION, to.into(), src, from.into())? };
        lower::flush(self.raw, self.aim(OPERATION))
    }

    /// One-sided. As [`Target::get_strided`], but complete when it returns.
    ///
    /// # Errors
    /// As for [`Target::put_strided`].
    pub fn get_strided_blocking(
        &self,
        from: impl Into<Region>,
        dst: &mut [T],
        to: impl Into<Region>,
    ) -> Result<()> {
        const OPERATION: &str = "get_strided_blocking";
        // SAFETY: as for `put_strided_blocking`, and uniquely.
        unsafe { self.get_region(OPERATION, from.into(), dst, to.into())? };
        self.complete(OPERATION)
    }

    /// One-sided. Combines the elements `from` of `src` into the elements `to` of the target's part,
    /// one by one in their order: `target = target op src`, atomically for each element (MPI-4.1,
    /// section 12.3.4).
    ///
    /// # Errors
    /// As for [`Target::put_strided`]; an operation that is not defined for the type.
    pub fn accumulate_strided(
        &self,
        op: Op,
        to: impl Into<Region>,
        src: &'op [T],
        from: impl Into<Region>,
    ) -> Result<()>
    where
        T: Accumulate,
    {
        const OPERATION: &str = "accumulate_strided";
        let (near, far) = rows::<T>(OPERATION, from.into(), src.len(), to.into())?;
        let origin = src.as_ptr().cast();
        // SAFETY: as for `put_strided`; the row is inside the slice, and the trait `Accumulate` guarantees the type of
        // the elements.
        unsafe {
            lower::accumulate_row(
                self.raw,
                self.aim(OPERATION),
                origin,
                near,
                far,
                T::TYPE,
                op,
            )
        }
    }

    /// # Safety
    /// `src` stays borrowed until the operation is complete, and is not what the operation writes to.
    unsafe fn put_region(
        &self,
        operation: &'static str,
        to: Region,
        src: &[T],
        from: Region,
    ) -> Result<()> {
        let (near, far) = rows::<T>(operation, from, src.len(), to)?;
        let origin = src.as_ptr().cast();
        // SAFETY: the caller's promise; the row is inside the slice.
        unsafe { lower::put_row(self.raw, self.aim(operation), origin, near, far) }
    }

    /// # Safety
    /// `dst` stays borrowed until the operation is complete, and is not what the operation reads.
    unsafe fn get_region(
        &self,
        operation: &'static str,
        from: Region,
        dst: &mut [T],
        to: Region,
    ) -> Result<()> {
        let (near, far) = rows::<T>(operation, to, dst.len(), from)?;
        let origin = dst.as_mut_ptr().cast();
        // SAFETY: the caller's promise; the row is inside the slice.
        unsafe { lower::get_row(self.raw, self.aim(operation), origin, near, far) }
    }
}

impl<'op, T: Element> Target<'op, T, Passive> {
    /// One-sided. As [`Target::put_strided`], with a request: once it is complete, the buffer may be
    /// used again; the data may arrive later (MPI-4.1, section 12.3.5).
    ///
    /// # Errors
    /// As for [`Target::put_strided`].
    pub fn rput_strided(
        &self,
        to: impl Into<Region>,
        src: &'op mut [T],
        from: impl Into<Region>,
    ) -> Result<Request<'op, &'op mut [T]>> {
        // SAFETY: the buffer is borrowed until the epoch has closed.
        unsafe { self.put_region_from("rput_strided", to.into(), src, from.into()) }
    }

    /// One-sided. As [`Target::get_strided`], with a request: once it is complete, the data is there
    /// (MPI-4.1, section 12.3.5).
    ///
    /// # Errors
    /// As for [`Target::put_strided`].
    pub fn rget_strided(
        &self,
        from: impl Into<Region>,
        dst: &'op mut [T],
        to: impl Into<Region>,
    ) -> Result<Request<'op, &'op mut [T]>> {
        // SAFETY: the buffer is borrowed until the epoch has closed.
        unsafe { self.get_region_into("rget_strided", from.into(), dst, to.into()) }
    }

    /// One-sided. As [`Target::rput_strided`], but the request owns the buffer until it is complete. The buffer is lost
    /// if the operation fails.
    ///
    /// # Errors
    /// As for [`Target::put_strided`].
    pub fn rput_strided_owned(
        &self,
        to: impl Into<Region>,
        src: Vec<T>,
        from: impl Into<Region>,
    ) -> Result<Request<'op, Vec<T>>> {
        // SAFETY: only the request can free the buffer, and it waits before it does.
        unsafe { self.put_region_from("rput_strided_owned", to.into(), src, from.into()) }
    }

    /// One-sided. As [`Target::rget_strided`], but the request owns the buffer until it is complete. The buffer is lost
    /// if the operation fails.
    ///
    /// # Errors
    /// As for [`Target::put_strided`].
    pub fn rget_strided_owned(
        &self,
        from: impl Into<Region>,
        dst: Vec<T>,
        to: impl Into<Region>,
    ) -> Result<Request<'op, Vec<T>>> {
        // SAFETY: only the request can free the buffer, and it waits before it does.
        unsafe { self.get_region_into("rget_strided_owned", from.into(), dst, to.into()) }
    }

    /// # Safety
    /// The memory behind `src` stays untouched until the request or the epoch has completed the
    /// operation, even if the request is forgotten.
    unsafe fn put_region_from<B: AsMut<[T]>>(
        &self,
        operation: &'static str,
        to: Region,
        src: B,
        from: Region,
    ) -> Result<Request<'op, B>> {
        Request::start(src, |origin: *mut T, len| {
            let (near, far) = rows::<T>(operation, from, len / size_of::<T>(), to)?;
            // SAFETY: the caller's promise, for the buffer that the request now holds; the row is inside.
            unsafe { lower::rput_row(self.raw, self.aim(operation), origin.cast(), near, far) }
        })
    }

    /// # Safety
    /// As for `put_region_from`.
    unsafe fn get_region_into<B: AsMut<[T]>>(
        &self,
        operation: &'static str,
        from: Region,
        dst: B,
        to: Region,
    ) -> Result<Request<'op, B>> {
        Request::start(dst, |origin: *mut T, len| {
            let (near, far) = rows::<T>(operation, to, len / size_of::<T>(), from)?;
            // SAFETY: the caller's promise, for the buffer that the request now holds; the row is inside.
            unsafe { lower::rget_row(self.raw, self.aim(operation), origin.cast(), near, far) }
        })
    }
}
