//! The temperatures of one tile, in a frame of the neighbouring cells, and one step in time.

use transom::Block2d;

use crate::grid::Side;

/// A tile, row by row, with one more cell on each side. The frame's corners are not used.
#[derive(Clone)]
pub(crate) struct Field {
    width: usize,
    height: usize,
    cells: Vec<f64>,
}

impl Field {
    pub(crate) fn new(width: usize, height: usize) -> Self {
        Self {
            width,
            height,
            cells: vec![0.0; (width + 2) * (height + 2)],
        }
    }

    /// Cells from one row to the next.
    fn stride(&self) -> usize {
        self.width + 2
    }

    /// Row `y` of the tile, or of its frame: 0 is the northern frame.
    fn framed_row(&self, y: usize) -> &[f64] {
        &self.cells[y * self.stride()..][..self.stride()]
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &[f64]> {
        let rows = self.cells.chunks_exact(self.stride());
        let width = self.width;
        rows.skip(1)
            .take(self.height)
            .map(move |row| &row[1..=width])
    }

    pub(crate) fn rows_mut(&mut self) -> impl Iterator<Item = &mut [f64]> {
        let (stride, width, height) = (self.stride(), self.width, self.height);
        let rows = self.cells.chunks_exact_mut(stride);
        rows.skip(1)
            .take(height)
            .map(move |row| &mut row[1..=width])
    }

    /// All cells, the frame's included.
    pub(crate) fn cells(&self) -> &[f64] {
        &self.cells
    }

    pub(crate) fn cells_mut(&mut self) -> &mut [f64] {
        &mut self.cells
    }

    /// Where the tile is among all cells.
    pub(crate) fn inside(&self) -> Block2d {
        Block2d {
            width: self.stride(),
            row: 1,
            column: 1,
            rows: self.height,
            columns: self.width,
        }
    }

    /// Where the cells along a side of the tile are: a row, or a column.
    pub(crate) fn edge(&self, side: Side) -> Block2d {
        let inside = self.inside();
        match side {
            Side::North => Block2d { rows: 1, ..inside },
            Side::South => Block2d {
                row: self.height,
                rows: 1,
                ..inside
            },
            Side::West => Block2d {
                columns: 1,
                ..inside
            },
            Side::East => Block2d {
                column: self.width,
                columns: 1,
                ..inside
            },
        }
    }

    /// The cells along a side, one by one.
    pub(crate) fn along(&self, side: Side) -> impl Iterator<Item = f64> {
        let edge = self.edge(side);
        let rows = (edge.row..).take(edge.rows);
        rows.flat_map(move |row| {
            let start = row * edge.width + edge.column;
            self.cells[start..][..edge.columns].iter().copied()
        })
    }

    /// Sets the frame along a side.
    pub(crate) fn set_frame(&mut self, side: Side, beyond: &[f64]) {
        let stride = self.stride();
        let (start, step) = match side {
            Side::North => (1, 1),
            Side::South => ((self.height + 1) * stride + 1, 1),
            Side::West => (stride, stride),
            Side::East => (2 * stride - 1, stride),
        };
        let frame = self.cells[start..].iter_mut().step_by(step);
        for (cell, value) in frame.zip(beyond) {
            *cell = *value;
        }
    }

    /// Sets the frame along a side where the grid ends: no heat leaves there, as if it were equally
    /// warm beyond.
    pub(crate) fn insulate(&mut self, side: Side) {
        let edge: Vec<f64> = self.along(side).collect();
        self.set_frame(side, &edge);
    }

    /// Computes the next step into `next`; its frame stays as it is.
    ///
    /// Every cell is one expression of five, so the result does not depend on how the grid is cut.
    pub(crate) fn step(&self, diffusivity: f64, next: &mut Self) {
        for (y, next) in (1..).zip(next.rows_mut()) {
            let [north, here, south] = [y - 1, y, y + 1].map(|y| self.framed_row(y));
            let across = north[1..].iter().zip(&south[1..]);
            for ((cell, along), (north, south)) in next.iter_mut().zip(here.windows(3)).zip(across)
            {
                let [west, here, east] = *along else {
                    unreachable!("windows of three");
                };
                let around = (north + south) + (west + east);
                *cell = here + diffusivity * (around - 4.0 * here);
            }
        }
    }
}
