//! Operations with derived datatypes at origin, result and target.
//!
//! The layouts are walked together ([`Together`](crate::datatype::Together)), in strips of equal
//! blocks. In mapped memory a strip is copied or combined in place; elsewhere strips become batches
//! for the device, one run of the target's memory after the other.

mod accumulate;
mod by_device;
mod combined;
mod post;
mod put_get;
mod rows;
mod runs;
mod spot;

pub(super) use combined::Combined;
pub use rows::{accumulate_row, get_row, put_row, rget_row, rput_row};

use super::bounds::null_buffer;
use crate::datatype::Span;
use crate::error::Result;

/// Addresses below this are no memory: what is placed at null may well lie elsewhere, where a type
/// has absolute displacements (`MPI_BOTTOM`).
const FIRST_ADDRESS: usize = 4096;

/// Checks that `size` bytes of data in `span` round `buffer` are not at the null pointer.
fn check_buffer(operation: &'static str, buffer: *const u8, span: Span, size: u64) -> Result<()> {
    let first = buffer.wrapping_offset(span.lo as isize);
    if buffer.is_null() && size > 0 && first.addr() < FIRST_ADDRESS {
        return Err(null_buffer(operation, size as usize));
    }
    Ok(())
}
