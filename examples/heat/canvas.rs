//! The whole grid, on rank 0: every rank gets its tile from there, and puts it back.

use transom::{Communicator, Result, Window};

use crate::field::Field;
use crate::grid::{Grid, Tile};

pub(crate) struct Canvas<'c> {
    window: Window<'c, f64>,
    width: usize,
    tile: Tile,
}

impl<'c> Canvas<'c> {
    /// Collective. `cells` are the whole grid on rank 0, and nothing on the others.
    pub(crate) fn new(comm: &'c Communicator, grid: &Grid, cells: Vec<f64>) -> Result<Self> {
        Ok(Self {
            window: Window::create(comm, cells)?,
            width: grid.width,
            tile: grid.tile(comm.rank()),
        })
    }

    /// Collective. Every rank gets its tile, row by row.
    pub(crate) fn hand_out(&mut self) -> Result<Field> {
        let Self { window, tile, .. } = self;
        let mut field = Field::new(tile.width(), tile.height());
        let starts = tile.y.clone().map(|y| y * self.width + tile.x.start);
        window.fence(|epoch| -> Result<()> {
            let whole = epoch.target(0)?;
            for (at, row) in starts.zip(field.rows_mut()) {
                whole.get(at, row)?;
            }
            Ok(())
        })??;
        Ok(field)
    }

    /// Collective. Every rank puts its tile back.
    pub(crate) fn collect(&mut self, field: &Field) -> Result<()> {
        let Self { window, tile, .. } = self;
        let starts = tile.y.clone().map(|y| y * self.width + tile.x.start);
        window.fence(|epoch| -> Result<()> {
            let whole = epoch.target(0)?;
            for (at, row) in starts.zip(field.rows()) {
                whole.put(at, row)?;
            }
            Ok(())
        })?
    }

    /// Local. All cells on rank 0, none elsewhere.
    pub(crate) fn cells(&self) -> Result<&[f64]> {
        self.window.local()
    }

    /// Collective.
    pub(crate) fn free(self) -> Result<()> {
        self.window.free()
    }
}
