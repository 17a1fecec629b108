//! Which part of something a rank has: of a line, and of a grid of ranks.

use std::ops::Range;

use super::IntoRank;
use crate::error::{Error, Misuse, Result};

/// Local. The elements of part `part` if `count` elements are cut into `parts` contiguous parts whose lengths differ by
/// at most one. Empty if `part` is not below `parts`, or negative.
///
/// ```
/// use transom::block;
///
/// assert_eq!(block(10, 3, 0), 0..3);
/// assert_eq!(block(10, 3, 1), 3..6);
/// assert_eq!(block(10, 3, 2), 6..10);
/// ```
#[must_use]
pub fn block(count: usize, parts: u32, part: impl IntoRank) -> Range<usize> {
    let part = part.into_rank("block", parts).unwrap_or(parts);
    let at = |part: u32| match part < parts {
        true => (count as u128 * u128::from(part) / u128::from(parts)) as usize,
        false => count,
    };
    at(part)..at(part.saturating_add(1))
}

/// Ranks in rows and columns, or in a grid of more dimensions. Consecutive ranks are neighbours in the last dimension
/// (MPI-4.1, section 8.5). A grid is only numbers: it fits any communicator or window of the same size.
///
/// ```
/// # fn main() -> transom::Result<()> {
/// use transom::Grid;
///
/// let grid = Grid::new(6, [2, 0])?;
/// assert_eq!(grid.dims(), [2, 3]);
/// // 0 1 2
/// // 3 4 5
/// assert_eq!(grid.coords(5)?, [1, 2]);
/// assert_eq!(grid.shift(1, [1, 0])?, Some(4));
/// assert_eq!(grid.shift(1, [-1, 0])?, None);
/// let ring = grid.periodic([false, true]);
/// assert_eq!(ring.shift(5, [0, 1])?, Some(3));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid<const D: usize> {
    dims: [u32; D],
    periodic: [bool; D],
    ranks: u32,
}

impl<const D: usize> Grid<D> {
    /// Local. A grid of `ranks` ranks with edges on all sides. Dimensions that are 0 are chosen: close to each other,
    /// in descending order (MPI-4.1, section 8.5.2, `MPI_Dims_create`).
    ///
    /// # Errors
    /// The product of the dimensions cannot be `ranks`.
    pub fn new(ranks: u32, dims: [u32; D]) -> Result<Self> {
        let refused = || {
            let dims = dims.to_vec();
            Error::new("grid", Misuse::NoGrid { ranks, dims })
        };
        let mut given = dims.iter().filter(|&&dim| dim > 0);
        let given = given.try_fold(1_u32, |product, &dim| product.checked_mul(dim));
        let given = given.ok_or_else(refused)?;
        if ranks == 0 || !ranks.is_multiple_of(given) {
            return Err(refused());
        }
        let free = dims.iter().filter(|&&dim| dim == 0).count();
        if free == 0 && given != ranks {
            return Err(refused());
        }
        let mut chosen = balanced(ranks / given, free).into_iter();
        Ok(Self {
            dims: dims.map(|dim| match dim {
                0 => chosen.next().unwrap_or(1),
                dim => dim,
            }),
            periodic: [false; D],
            ranks,
        })
    }

    /// Local. The same grid, without edges in the dimensions for which `periodic` is true: there, the first and the
    /// last rank are neighbours.
    #[must_use]
    pub fn periodic(self, periodic: [bool; D]) -> Self {
        Self { periodic, ..self }
    }

    /// Local. The number of ranks in each dimension.
    #[must_use]
    pub fn dims(&self) -> [u32; D] {
        self.dims
    }

    /// Local. The coordinates of a rank (MPI-4.1, section 8.5.5, `MPI_Cart_coords`).
    ///
    /// # Errors
    /// `rank` is not in the grid.
    pub fn coords(&self, rank: impl IntoRank) -> Result<[u32; D]> {
        let mut rest = rank.into_rank("coords", self.ranks)?;
        let mut coords = [0; D];
        for (coord, dim) in coords.iter_mut().zip(self.dims).rev() {
            *coord = rest % dim;
            rest /= dim;
        }
        Ok(coords)
    }

    /// Local. The rank at these coordinates (MPI-4.1, section 8.5.5, `MPI_Cart_rank`).
    ///
    /// # Errors
    /// `coords` are outside the grid.
    pub fn rank_of(&self, coords: [u32; D]) -> Result<u32> {
        self.rank_at(coords.map(i64::from)).ok_or_else(|| {
            let (coords, dims) = (coords.to_vec(), self.dims.to_vec());
            Error::new("rank_of", Misuse::OutsideGrid { coords, dims })
        })
    }

    /// Local. The rank at a distance of `by` from `rank` in each dimension; `None` beyond an edge. The result can be
    /// passed as a target: `None` stands for `MPI_PROC_NULL` (MPI-4.1, section 8.5.6, `MPI_Cart_shift`).
    ///
    /// # Errors
    /// `rank` is not in the grid.
    pub fn shift(&self, rank: impl IntoRank, by: [i32; D]) -> Result<Option<u32>> {
        let rank = rank.into_rank("shift", self.ranks)?;
        let mut coords = self.coords(rank)?.map(i64::from);
        for (coord, by) in coords.iter_mut().zip(by) {
            *coord += i64::from(by);
        }
        Ok(self.rank_at(coords))
    }

    fn rank_at(&self, coords: [i64; D]) -> Option<u32> {
        let mut rank = 0;
        for ((coord, dim), periodic) in coords.into_iter().zip(self.dims).zip(self.periodic) {
            let coord = match periodic {
                true => coord.rem_euclid(dim.into()),
                false => coord,
            };
            let coord = u32::try_from(coord).ok().filter(|&coord| coord < dim)?;
            rank = rank * dim + coord;
        }
        Some(rank)
    }
}

/// Splits `number` into `count` factors in descending order. Each step takes the smallest factor that is at least the
/// value that all would have if they were equal.
fn balanced(number: u32, count: usize) -> Vec<u32> {
    let small = (1..=number.isqrt()).filter(|&factor| number.is_multiple_of(factor));
    let mut factors: Vec<u32> = small.flat_map(|one| [one, number / one]).collect();
    factors.sort_unstable();
    let mut rest = number;
    let mut chosen = Vec::with_capacity(count);
    for left in (1..=count as u32).rev() {
        let is_enough = |factor: u32| {
            let power = u128::from(factor).saturating_pow(left);
            rest.is_multiple_of(factor) && power >= rest.into()
        };
        let factor = factors.iter().copied().find(|&factor| is_enough(factor));
        let factor = factor.unwrap_or(rest);
        chosen.push(factor);
        rest /= factor;
    }
    chosen.sort_unstable_by(|one, other| other.cmp(one));
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorClass;

    #[test]
    fn parts_cover_a_line_once_and_differ_by_one() {
        for count in [0, 1, 7, 100, usize::MAX] {
            for parts in [1, 2, 3, 7, 8, 1000] {
                let mut end = 0;
                let mut lens = Vec::new();
                for part in 0..parts {
                    let block = block(count, parts, part);
                    assert_eq!(block.start, end);
                    end = block.end;
                    lens.push(block.len());
                }
                assert_eq!(end, count);
                let (least, most) = (lens.iter().min().unwrap(), lens.iter().max().unwrap());
                assert!(most - least <= 1, "{count} {parts}");
            }
        }
        assert_eq!(
            [
                block(5, 2, 2),
                block(5, 0, 0),
                block(5, 2, u32::MAX),
                block(5, 2, -1),
                block(5, 2, 1_usize << 40)
            ],
            [5..5, 5..5, 5..5, 5..5, 5..5]
        );
    }

    #[test]
    fn dimensions_are_close_to_each_other() {
        let square = |ranks| Grid::new(ranks, [0, 0]).unwrap().dims();
        assert_eq!(
            [1, 2, 6, 12, 36, 72].map(square),
            [[1, 1], [2, 1], [3, 2], [4, 3], [6, 6], [9, 8]]
        );
        assert_eq!(square(7919), [7919, 1]);
        assert_eq!(square(u32::MAX), [65537, 65535]);
        let cube = |ranks| Grid::new(ranks, [0, 0, 0]).unwrap().dims();
        assert_eq!(
            [8, 12, 36, 64, 100].map(cube),
            [[2, 2, 2], [3, 2, 2], [4, 3, 3], [4, 4, 4], [5, 5, 4]]
        );
        assert_eq!(Grid::new(24, [0, 2, 0]).unwrap().dims(), [4, 2, 3]);
        assert_eq!(Grid::new(24, [0, 24]).unwrap().dims(), [1, 24]);
        assert_eq!(Grid::new(24, [4, 6]).unwrap().dims(), [4, 6]);
        for dims in [[5, 0], [4, 5], [0, 25], [u32::MAX, u32::MAX]] {
            let error = Grid::new(24, dims).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Arg, "{error}");
            assert!(error.to_string().contains(&format!("{dims:?}")), "{error}");
        }
        assert!(Grid::new(0, [0, 0]).is_err());
        assert!(Grid::new(2, []).is_err() && Grid::new(1, []).is_ok());
    }

    #[test]
    fn ranks_and_coordinates_name_each_other() {
        for grid in [
            Grid::new(24, [2, 3, 4]).unwrap(),
            Grid::new(24, [0; 3]).unwrap(),
        ] {
            let mut next = 0;
            let [planes, rows, columns] = grid.dims();
            for plane in 0..planes {
                for row in 0..rows {
                    for column in 0..columns {
                        let coords = [plane, row, column];
                        assert_eq!(grid.rank_of(coords).unwrap(), next);
                        assert_eq!(grid.coords(next).unwrap(), coords);
                        next += 1;
                    }
                }
            }
            assert_eq!(next, 24);
            assert_eq!(grid.coords(24).unwrap_err().class(), ErrorClass::Rank);
            assert_eq!(grid.coords(-1).unwrap_err().class(), ErrorClass::Rank);
            let error = grid.rank_of([planes, 0, 0]).unwrap_err();
            assert!(error.to_string().contains("outside"), "{error}");
        }
    }

    #[test]
    fn a_shift_ends_at_an_edge_or_goes_around() {
        let grid = Grid::new(6, [2, 3]).unwrap();
        let around = grid.periodic([true, false]);
        for rank in 0..6_u32 {
            let (row, column) = (i64::from(rank / 3), i64::from(rank % 3));
            for by in [
                [0, 0],
                [1, 0],
                [-1, 0],
                [0, 1],
                [0, -1],
                [1, -1],
                [3, 2],
                [i32::MIN, i32::MAX],
            ] {
                let (row, column) = (row + i64::from(by[0]), column + i64::from(by[1]));
                let inside = (0..3).contains(&column);
                let edges = (inside && (0..2).contains(&row)).then(|| (row * 3 + column) as u32);
                assert_eq!(grid.shift(rank, by).unwrap(), edges);
                let wrapped = inside.then(|| (row.rem_euclid(2) * 3 + column) as u32);
                assert_eq!(around.shift(rank, by).unwrap(), wrapped);
            }
        }
        assert_eq!(grid.shift(6, [0, 0]).unwrap_err().class(), ErrorClass::Rank);
    }
}
