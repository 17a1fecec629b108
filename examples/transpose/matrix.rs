//! What the matrices hold, and what must come out.

use std::slice;

/// The number of each element, row by row.
pub(crate) struct Matrix {
    rows: usize,
    columns: usize,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "the element in row {row} and column {column} is {found}, but {own} + {added} = {expected} was \
     expected"
)]
pub(crate) struct Wrong {
    row: usize,
    column: usize,
    own: i32,
    added: i32,
    expected: i32,
    found: i32,
}

impl Matrix {
    pub(crate) fn new(rows: usize, columns: usize) -> Self {
        Self { rows, columns }
    }

    fn at(&self, row: usize, column: usize) -> i32 {
        (row * self.columns + column) as i32
    }

    fn len(&self) -> usize {
        self.rows * self.columns
    }

    pub(crate) fn elements(&self) -> impl Iterator<Item = i32> {
        (0..self.len()).map(|number| number as i32)
    }

    /// # Safety
    /// `to` is aligned, writable for as many elements, and touched by nobody else.
    pub(crate) unsafe fn write(&self, to: *mut i32) {
        // SAFETY: the caller's promise.
        let there = unsafe { slice::from_raw_parts_mut(to, self.len()) };
        for (there, element) in there.iter_mut().zip(self.elements()) {
            *there = element;
        }
    }
}

/// Looks at every element of the target's matrix after a matrix of `rows` x `columns` was added.
///
/// # Safety
/// `found` is aligned, readable for as many elements, and written to by nobody.
pub(crate) unsafe fn check(rows: usize, columns: usize, found: *const i32) -> Result<(), Wrong> {
    let (own, added) = (Matrix::new(columns, rows), Matrix::new(rows, columns));
    // SAFETY: the caller's promise.
    let found = unsafe { slice::from_raw_parts(found, own.len()) };
    for (number, &found) in found.iter().enumerate() {
        let (row, column) = (number / own.columns, number % own.columns);
        let (own, added) = (own.at(row, column), added.at(column, row));
        if found != own + added {
            return Err(Wrong {
                row,
                column,
                own,
                added,
                expected: own + added,
                found,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_wrong_element_is_found() {
        let (rows, columns) = (4, 3);
        // Own number and that of the place across.
        let right: Vec<i32> = (0..12).map(|i| i + (i % 4) * 3 + i / 4).collect();
        // SAFETY: a vector of as many elements.
        unsafe { check(rows, columns, right.as_ptr()) }.unwrap();
        for wrong in 0..12 {
            let mut found = right.clone();
            found[wrong] += 1;
            // SAFETY: a vector of as many elements.
            let error = unsafe { check(rows, columns, found.as_ptr()) }.unwrap_err();
            let place = format!("row {} and column {} ", wrong / 4, wrong % 4);
            assert!(error.to_string().contains(&place), "{error}");
        }
    }
}
