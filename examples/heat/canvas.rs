//! The whole grid, on rank 0: every rank gets its tile from there, and puts it back.

use transom::{Block2d, Communicator, Result, Window};

use crate::field::Field;
use crate::grid::{Grid, Tile};

pub(crate) struct Canvas<'c> {
    window: Window<'c, f64>,
    /// This rank's tile, as a part of the whole.
    tile: Block2d,
}

impl<'c> Canvas<'c> {
    /// Collective. `cells` are the whole grid on rank 0, and nothing on the others.
    pub(crate) fn new(comm: &'c Communicator, grid: &Grid, cells: Vec<f64>) -> Result<Self> {
        let Tile { x, y } = grid.tile(comm.rank());
        let tile = Block2d {
            width: grid.width,
            row: y.start,
            column: x.start,
            rows: y.len(),
            columns: x.len(),
        };
        Ok(Self {
            window: Window::create(comm, cells)?,
            tile,
        })
    }

    /// Collective. Every rank gets its tile.
    pub(crate) fn hand_out(&mut self) -> Result<Field> {
        let tile = self.tile;
        let mut field = Field::new(tile.columns, tile.rows);
        let inside = field.inside();
        let cells = field.cells_mut();
        self.window
            .fence(|epoch| epoch.target(0)?.get_strided(tile, cells, inside))??;
        Ok(field)
    }

    /// Collective. Every rank puts its tile back.
    pub(crate) fn collect(&mut self, field: &Field) -> Result<()> {
        let (tile, inside) = (self.tile, field.inside());
        self.window
            .fence(|epoch| epoch.target(0)?.put_strided(tile, field.cells(), inside))?
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
