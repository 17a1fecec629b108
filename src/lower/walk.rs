//! Walks of layouts.

use std::borrow::Cow;
use std::ops::Range;

use crate::access::{Way, copy_layouts};
use crate::datatype::{BasicType, Cursor, Layout, Piece, Row};
use crate::error::{Error, Misuse, Result};

/// The bytes of a layout, in the order of its type map: what a datatype of so many elements has of a
/// buffer.
///
/// ```
/// use transom::BasicType;
/// use transom::lower::Walk;
/// use transom::raw::Datatype;
///
/// # fn main() -> transom::Result<()> {
/// // Two columns of a matrix of three rows of four integers.
/// let columns = Datatype::vector(3, 2, 4, &BasicType::I32.into())?.commit();
/// let walk = Walk::of(columns.times(1))?;
/// assert_eq!(walk.runs().collect::<Vec<_>>(), [(0, 8), (16, 8), (32, 8)]);
/// assert_eq!(walk.rows().count(), 1);
/// assert_eq!(walk.type_map().nth(2), Some((16, BasicType::I32)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Walk<'t> {
    layout: Layout<'t>,
    size: u64,
    bounds: Range<i64>,
    /// `None` without data.
    piece: Option<Cow<'t, Piece>>,
}

impl<'t> Walk<'t> {
    /// Local. Begins a walk of `layout`, which takes no memory for its length.
    ///
    /// # Errors
    /// Its size or bounds leave 64 bits.
    pub fn of(layout: Layout<'t>) -> Result<Self> {
        let measure = layout.measure("walk")?;
        Ok(Self {
            layout,
            size: measure.size,
            bounds: measure.span.lo..measure.span.hi,
            piece: layout.bytes(),
        })
    }

    /// Local. Bytes of data.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Local. The true bounds: where the data lies, from where the layout is placed. Empty without
    /// data.
    #[must_use]
    pub fn bounds(&self) -> Range<i64> {
        self.bounds.clone()
    }

    /// Local. Rows of equal blocks: as few as are found.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        self.piece.as_deref().map(Cursor::new).into_iter().flatten()
    }

    /// Local. Displacement and length of each contiguous run of bytes. Adjacent elements are one run;
    /// runs of different parts of a type may touch.
    pub fn runs(&self) -> impl Iterator<Item = (i64, u64)> {
        self.rows().flat_map(|row| {
            (0..row.count as i64).map(move |block| (row.at + block * row.stride, row.len))
        })
    }

    /// Local. Displacement and type of each predefined element; a pair of a value and an index is one.
    pub fn type_map(&self) -> impl Iterator<Item = (i64, BasicType)> + use<'t> {
        self.layout.type_map()
    }

    /// Local. Copies the data from the buffer at `buffer` to `packed`, without gaps (compare MPI-4.1,
    /// section 5.2, `MPI_Pack`).
    ///
    /// # Errors
    /// `packed` has another length than the data.
    ///
    /// # Safety
    /// The layout, placed at `buffer`, is in memory that may be read, and does not overlap `packed`.
    pub unsafe fn pack(&self, buffer: *const u8, packed: &mut [u8]) -> Result<()> {
        self.check_length("pack", packed.len())?;
        // SAFETY: the caller's promise, and the length was checked.
        unsafe { self.copy(packed.as_mut_ptr(), buffer.cast_mut(), false) };
        Ok(())
    }

    /// Local. Copies `packed` to the places of the data in the buffer at `buffer`; what is between
    /// them stays (compare MPI-4.1, section 5.2, `MPI_Unpack`).
    ///
    /// # Errors
    /// `packed` has another length than the data.
    ///
    /// # Safety
    /// The layout, placed at `buffer`, is in memory that may be written, and does not overlap `packed`.
    pub unsafe fn unpack(&self, packed: &[u8], buffer: *mut u8) -> Result<()> {
        self.check_length("unpack", packed.len())?;
        // SAFETY: the caller's promise, and the length was checked.
        unsafe { self.copy(packed.as_ptr().cast_mut(), buffer, true) };
        Ok(())
    }

    fn check_length(&self, operation: &'static str, len: usize) -> Result<()> {
        if len as u64 == self.size {
            return Ok(());
        }
        let misuse = Misuse::LengthsDiffer {
            origin: self.size,
            other: len as u64,
            side: "packed, in bytes",
        };
        Err(Error::new(operation, misuse))
    }

    /// # Safety
    /// `packed` is valid for the data's bytes and `buffer` for the layout, for reading or for writing
    /// as `unpacks` says.
    unsafe fn copy(&self, packed: *mut u8, buffer: *mut u8, unpacks: bool) {
        let Some(piece) = self.piece.as_deref() else {
            return;
        };
        let way = if unpacks { Way::Put } else { Way::Get };
        let layouts = [&Piece::run(0, self.size), piece];
        // SAFETY: the caller's promise.
        unsafe { copy_layouts(way, packed, buffer, layouts) };
    }
}
