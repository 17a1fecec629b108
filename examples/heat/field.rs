//! The temperatures of one tile, in a frame of the neighbouring cells, and one step in time.

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

    /// The cells along a side: a row is one slice, of a column every cell is.
    pub(crate) fn edge(&self, side: Side) -> impl Iterator<Item = &[f64]> {
        let (start, len, pieces) = match side {
            Side::North => (self.at(0, 0), self.width, 1),
            Side::South => (self.at(0, self.height - 1), self.width, 1),
            Side::West => (self.at(0, 0), 1, self.height),
            Side::East => (self.at(self.width - 1, 0), 1, self.height),
        };
        (0..pieces).map(move |piece| &self.cells[start + piece * self.stride()..][..len])
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
        let edge: Vec<f64> = self.edge(side).flatten().copied().collect();
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

    /// Where cell `x`, `y` of the tile is.
    fn at(&self, x: usize, y: usize) -> usize {
        (y + 1) * self.stride() + x + 1
    }
}
