//! How the cells are cut into tiles, one for each rank.

use std::ops::Range;

use transom::block;

/// A side of a tile. As a number, it is the notification counter that its neighbour raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    North,
    South,
    West,
    East,
}

impl Side {
    pub(crate) const ALL: [Self; 4] = [Self::North, Self::South, Self::West, Self::East];

    pub(crate) fn opposite(self) -> Self {
        match self {
            Self::North => Self::South,
            Self::South => Self::North,
            Self::West => Self::East,
            Self::East => Self::West,
        }
    }
}

/// The cells of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    pub(crate) x: Range<usize>,
    pub(crate) y: Range<usize>,
}

impl Tile {
    pub(crate) fn width(&self) -> usize {
        self.x.len()
    }

    pub(crate) fn height(&self) -> usize {
        self.y.len()
    }
}

/// Ranks in rows and columns, row by row, over a grid of cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) columns: u32,
    pub(crate) rows: u32,
}

impl Grid {
    /// Of all ways to lay out so many ranks, the one with the shortest borders between them; `None`
    /// if in every one some tile would have no cell.
    pub(crate) fn new(width: usize, height: usize, ranks: u32) -> Option<Self> {
        let layouts = (1..=ranks).filter(|columns| ranks.is_multiple_of(*columns));
        let grids = layouts.map(|columns| Self {
            width,
            height,
            columns,
            rows: ranks / columns,
        });
        grids
            .filter(|grid| grid.columns as usize <= width && grid.rows as usize <= height)
            .min_by_key(Grid::border)
    }

    /// Cells on one side of the borders between tiles.
    fn border(&self) -> usize {
        (self.columns as usize - 1) * self.height + (self.rows as usize - 1) * self.width
    }

    pub(crate) fn tile(&self, rank: u32) -> Tile {
        let (column, row) = self.place(rank);
        Tile {
            x: block(self.width, self.columns, column),
            y: block(self.height, self.rows, row),
        }
    }

    pub(crate) fn neighbour(&self, rank: u32, side: Side) -> Option<u32> {
        let (column, row) = self.place(rank);
        match side {
            Side::North => (row > 0).then(|| rank - self.columns),
            Side::South => (row + 1 < self.rows).then(|| rank + self.columns),
            Side::West => (column > 0).then(|| rank - 1),
            Side::East => (column + 1 < self.columns).then(|| rank + 1),
        }
    }

    fn place(&self, rank: u32) -> (u32, u32) {
        (rank % self.columns, rank / self.columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_every_cell_once() {
        for (width, height, ranks) in [(7, 5, 6), (1, 9, 4), (9, 1, 9), (10, 10, 7), (3, 4, 12)] {
            let grid = Grid::new(width, height, ranks).unwrap();
            assert_eq!(grid.columns * grid.rows, ranks);
            let mut covered = vec![0; width * height];
            for rank in 0..ranks {
                let tile = grid.tile(rank);
                assert!(tile.width() > 0 && tile.height() > 0, "{grid:?} {rank}");
                for y in tile.y {
                    for x in tile.x.clone() {
                        covered[y * width + x] += 1;
                    }
                }
            }
            assert!(covered.iter().all(|&times| times == 1), "{grid:?}");
        }
    }

    #[test]
    fn neighbours_share_a_border() {
        let grid = Grid::new(20, 30, 12).unwrap();
        for rank in 0..12 {
            let tile = grid.tile(rank);
            for side in Side::ALL {
                let Some(other) = grid.neighbour(rank, side) else {
                    let at_the_edge = match side {
                        Side::North => tile.y.start == 0,
                        Side::South => tile.y.end == grid.height,
                        Side::West => tile.x.start == 0,
                        Side::East => tile.x.end == grid.width,
                    };
                    assert!(at_the_edge);
                    continue;
                };
                assert_eq!(grid.neighbour(other, side.opposite()), Some(rank));
                let its = grid.tile(other);
                match side {
                    Side::North => assert_eq!((its.y.end, its.x), (tile.y.start, tile.x.clone())),
                    Side::South => assert_eq!((its.y.start, its.x), (tile.y.end, tile.x.clone())),
                    Side::West => assert_eq!((its.x.end, its.y), (tile.x.start, tile.y.clone())),
                    Side::East => assert_eq!((its.x.start, its.y), (tile.x.end, tile.y.clone())),
                }
            }
        }
    }

    #[test]
    fn borders_are_short() {
        let layout = |width, height, ranks| {
            Grid::new(width, height, ranks).map(|grid| (grid.columns, grid.rows))
        };
        assert_eq!(layout(100, 100, 4), Some((2, 2)));
        assert_eq!(layout(1000, 10, 4), Some((4, 1)));
        assert_eq!(layout(10, 1000, 6), Some((1, 6)));
        assert_eq!(layout(2, 2, 4), Some((2, 2)));
        assert_eq!(layout(2, 2, 3), None);
        assert_eq!(layout(3, 1, 3), Some((3, 1)));
    }
}
