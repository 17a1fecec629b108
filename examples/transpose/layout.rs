//! How the transposed matrix lies in memory.

use transom::raw::{Committed, Datatype};
use transom::{BasicType, Result};

/// The elements of a matrix of `columns` rows and `rows` columns, column by column: what a matrix
/// of `rows` rows and `columns` columns has row by row.
///
/// A column is a vector: its elements are a whole row apart. The next column begins one element
/// later, in the midst of this one, which only a stride in bytes can say.
pub(crate) fn transposed(rows: usize, columns: usize) -> Result<Committed> {
    let (rows, columns) = (rows as i64, columns as i64);
    let element = Committed::of(BasicType::I32);
    let column = Datatype::vector(columns, 1, rows, element.datatype())?;
    let matrix = Datatype::hvector(rows, 1, element.extent(), &column)?;
    Ok(matrix.commit())
}
