//! The plate, of which each rank has a tile, and time passing on it.

use std::ops::Range;

use transom::Communicator;
use transom_collections::{Edges, Result, Tiles};

use crate::picture::Picture;

pub(crate) struct Plate {
    pub(crate) width: usize,
    pub(crate) height: usize,
    diffusivity: f64,
    tiles: Tiles<f64>,
}

impl Plate {
    /// Collective. A plate as warm as the picture, which rank 0 has.
    pub(crate) fn new(
        comm: &Communicator,
        picture: Option<&Picture>,
        diffusivity: f64,
    ) -> Result<Self> {
        let size = picture.map_or([0; 2], |it| [it.width, it.height]);
        let [width, height] = comm.bcast_value(size, 0)?;
        let mut tiles = Tiles::new(comm, height, width, 1, Edges::Fixed)?;
        tiles.scatter(picture.map_or(&[][..], |it| &it.cells), 0)?;
        Ok(Self {
            width,
            height,
            diffusivity,
            tiles,
        })
    }

    /// Local. The columns and rows of this rank's tile.
    pub(crate) fn tile(&self) -> [Range<usize>; 2] {
        [self.tiles.columns(), self.tiles.rows()]
    }

    /// Collective over neighbours. Every cell is one expression of five, so the result does not depend on how the plate is
    /// cut.
    pub(crate) fn step(&mut self) -> Result<()> {
        self.tiles.exchange()?;
        self.insulate()?;
        let diffusivity = self.diffusivity;
        self.tiles.update(|near| {
            let around = (near.at(-1, 0) + near.at(1, 0)) + (near.at(0, -1) + near.at(0, 1));
            near.at(0, 0) + diffusivity * (around - 4.0 * near.at(0, 0))
        })
    }

    /// No heat leaves where the plate ends, as if it were equally warm beyond.
    fn insulate(&mut self) -> Result<()> {
        let ([columns, rows], stride) = (self.tile(), self.tiles.stride());
        let cells = self.tiles.cells_mut()?;
        if rows.start == 0 {
            cells.copy_within(stride..2 * stride, 0);
        }
        if rows.end == self.height {
            let last = rows.len() * stride;
            cells.copy_within(last..last + stride, last + stride);
        }
        for row in cells.chunks_exact_mut(stride) {
            if columns.start == 0 {
                row[0] = row[1];
            }
            if columns.end == self.width {
                row[stride - 1] = row[stride - 2];
            }
        }
        Ok(())
    }

    /// Collective. All cells on rank 0, none elsewhere.
    pub(crate) fn cells(&self) -> Result<Option<Vec<f64>>> {
        self.tiles.gather(0)
    }

    /// Collective.
    pub(crate) fn free(self) -> Result<()> {
        self.tiles.free()
    }
}
