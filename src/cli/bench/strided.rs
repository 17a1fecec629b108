//! A put between layouts and a flush, under `lock_all`.

use std::hint::black_box;

use transom::BasicType;
use transom::raw::{Committed, Datatype, Window};

use super::args::COLUMNS;
use super::engine::{Bench, Line, Scale, Subject, TARGET};
use super::error::Result;

pub(super) const LINES: usize = 1;

/// Rows and columns of the matrix.
const SIDE: i64 = COLUMNS as i64;

#[inline(never)]
pub(super) fn run(bench: &mut Bench<'_>, window: &Window, buffer: *mut u8) -> Result<()> {
    bench.group("1,024 elements of a column, then flush")?;
    let column = Datatype::vector(SIDE, 1, SIDE, &BasicType::F64.into())?.commit();
    let dense = Committed::of(BasicType::F64);
    let line = Line {
        name: "put_col1024",
        subject: Subject::new("put_strided", 8 * COLUMNS, "flush"),
        iterations: 200,
        scale: Scale::Microseconds,
    };
    let (from, near, target, at, far) =
        black_box((buffer, dense.times(SIDE as u64), TARGET, 0, column.times(1)));
    bench.origin(line, move || {
        // SAFETY: the buffer has the elements, and nobody writes to it before the flush.
        unsafe { window.put_layout(from, near, target, at, far)? };
        window.flush(target)
    })?;
    Ok(())
}
