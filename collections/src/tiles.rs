//! Two-dimensional arrays in tiles with halos.

use std::any::type_name;
use std::fmt;
use std::ops::Range;

use transom::{Block2d, Communicator, Element, Group, OwnedWindow, Window};

use crate::{Error, Result, agreement};

/// How [`Tiles`] continue beyond their edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edges {
    /// Not at all: halos there contain what the program writes to them, and initially zeros.
    Fixed,
    /// At the opposite edge.
    Periodic,
}

/// An array of rows and columns, divided into one tile for each rank. Each rank has its tile in its own memory,
/// surrounded by a halo: copies of the elements around it, up to a number of rows and columns away.
/// [`exchange`](Self::exchange) updates the halo.
///
/// ```
/// use transom::Job;
/// use transom_collections::{Edges, Result, Tiles};
///
/// # fn main() -> Result<()> {
/// // Heat on a plate: each element becomes the mean of those around it.
/// let job = Job::init()?;
/// let hot = |row, column| if (row, column) == (20, 30) { 100.0 } else { 0.0 };
/// let mut plate = Tiles::from_fn(job.world(), 40, 60, 1, Edges::Periodic, hot)?;
/// for _ in 0..10 {
///     plate.exchange()?;
///     plate.update(|near| {
///         (near.at(-1, 0) + near.at(1, 0) + near.at(0, -1) + near.at(0, 1)) / 4.0
///     })?;
/// }
/// if let Some(all) = plate.gather(0)? {
///     assert!((all.iter().sum::<f64>() - 100.0).abs() < 1e-9);
/// }
/// plate.free()
/// # }
/// ```
///
/// Tiles that are dropped without [`free`](Self::free) leak their memory, and log this.
pub struct Tiles<T: Element> {
    window: OwnedWindow<T>,
    grid: Grid,
    halo: usize,
    /// The neighbours to which this rank sends the elements along an edge or in a corner.
    neighbours: Vec<Neighbour>,
    group: Group,
    /// The elements that are sent, or the rows that [`Tiles::update`] computed last.
    buffer: Vec<T>,
}

/// The layout of the ranks in rows and columns, row by row, over the array.
#[derive(Clone, Copy, Debug)]
struct Grid {
    rows: Cut,
    columns: Cut,
}

/// A number of elements, divided into parts whose lengths differ by at most one.
#[derive(Clone, Copy, Debug)]
struct Cut {
    len: usize,
    parts: u32,
}

/// What one neighbour gets: a block of this rank's tile, and its place in the neighbour's.
struct Neighbour {
    rank: u32,
    from: Block2d,
    to: Block2d,
}

/// One element, with those around it, for [`Tiles::update`].
#[derive(Debug)]
pub struct Near<'a, T> {
    /// From the first element within reach to the last one, row by row.
    around: &'a [T],
    stride: usize,
    halo: usize,
    row: usize,
    column: usize,
}

impl<T: Copy> Near<'_, T> {
    /// Local. The element `rows` below and `columns` to the right. Negative numbers are above and to the left.
    ///
    /// # Panics
    /// The element is farther away than the halo is wide.
    #[inline]
    #[must_use]
    #[track_caller]
    pub fn at(&self, rows: isize, columns: isize) -> T {
        let far = rows.unsigned_abs().max(columns.unsigned_abs());
        assert!(
            far <= self.halo,
            "Near::at: {far} away, in a halo of {}",
            self.halo
        );
        let [down, across] = [rows, columns].map(|away| self.halo.wrapping_add_signed(away));
        self.around[down * self.stride + across]
    }

    /// Local. The element's row in the whole array.
    #[inline]
    #[must_use]
    pub fn row(&self) -> usize {
        self.row
    }

    /// Local. The element's column in the whole array.
    #[inline]
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }
}

impl Cut {
    fn part(self, number: u32) -> Range<usize> {
        transom::block(self.len, self.parts, number)
    }

    /// The next or the previous part.
    fn next(self, number: u32, direction: i32, edges: Edges) -> Option<u32> {
        let next = i64::from(number) + i64::from(direction);
        match edges {
            Edges::Fixed => u32::try_from(next).ok().filter(|&next| next < self.parts),
            Edges::Periodic => Some(next.rem_euclid(i64::from(self.parts)) as u32),
        }
    }
}

impl Grid {
    /// The layout of the ranks with the shortest edges between tiles. `None` if in every layout some part would have
    /// fewer than `least` elements.
    fn new(rows: usize, columns: usize, ranks: u32, least: usize) -> Option<Self> {
        let layouts = (1..=ranks).filter(|across| ranks.is_multiple_of(*across));
        let cut = |len, parts| Cut { len, parts };
        let grids = layouts.map(|across| Self {
            rows: cut(rows, ranks / across),
            columns: cut(columns, across),
        });
        let is_wide = |cut: Cut| cut.len / cut.parts as usize >= least;
        let between = |grid: &Self| {
            let lines = |cut: Cut, len: usize| (u128::from(cut.parts) - 1) * len as u128;
            lines(grid.rows, columns) + lines(grid.columns, rows)
        };
        (grids.filter(|grid| is_wide(grid.rows) && is_wide(grid.columns))).min_by_key(between)
    }

    fn rank(&self, row: u32, column: u32) -> u32 {
        row * self.columns.parts + column
    }

    fn tile(&self, rank: u32) -> [Range<usize>; 2] {
        let across = self.columns.parts;
        [
            self.rows.part(rank / across),
            self.columns.part(rank % across),
        ]
    }

    fn neighbours(&self, rank: u32, halo: usize, edges: Edges) -> Vec<Neighbour> {
        let (row, column) = (rank / self.columns.parts, rank % self.columns.parts);
        let shape = |rank| self.tile(rank).map(|range| range.len());
        let [height, width] = shape(rank);
        let directions = (-1..=1).flat_map(|down| (-1..=1).map(move |across| (down, across)));
        let sent = directions.filter(|&direction| halo > 0 && direction != (0, 0));
        let to_neighbour = |(down, across)| {
            let row = self.rows.next(row, down, edges)?;
            let column = self.columns.next(column, across, edges)?;
            let rank = self.rank(row, column);
            let [its_height, its_width] = shape(rank);
            let from = [edge(down, height, halo), edge(across, width, halo)];
            let to = [
                beyond(-down, its_height, halo),
                beyond(-across, its_width, halo),
            ];
            Some(Neighbour {
                rank,
                from: block(from, width + 2 * halo),
                to: block(to, its_width + 2 * halo),
            })
        };
        sent.filter_map(to_neighbour).collect()
    }
}

/// The rows, or columns, of a tile that the neighbours in a direction have in their halos.
fn edge(direction: i32, len: usize, halo: usize) -> Range<usize> {
    match direction {
        -1 => halo..2 * halo,
        0 => halo..halo + len,
        _ => len..len + halo,
    }
}

/// The rows, or columns, of the halo in a direction, or of the tile itself.
fn beyond(direction: i32, len: usize, halo: usize) -> Range<usize> {
    match direction {
        -1 => 0..halo,
        0 => halo..halo + len,
        _ => halo + len..len + 2 * halo,
    }
}

fn block([rows, columns]: [Range<usize>; 2], width: usize) -> Block2d {
    Block2d {
        width,
        row: rows.start,
        column: columns.start,
        rows: rows.len(),
        columns: columns.len(),
    }
}

/// The rows of a block of a matrix.
fn rows_of<T>(cells: &[T], block: Block2d) -> impl Iterator<Item = &[T]> {
    let rows = cells.chunks_exact(block.width);
    let rows = rows.skip(block.row).take(block.rows);
    rows.map(move |row| &row[block.column..][..block.columns])
}

impl<T: Element> Tiles<T> {
    /// Collective. An array of `rows` and `columns`, with halos of `halo` rows and columns, all bytes zero. The layout
    /// of the ranks has as few elements as possible along edges between tiles.
    ///
    /// # Errors
    /// On every rank: arguments or types differ between ranks; there are more ranks than tiles that are at least as
    /// wide as the halo; no memory on a rank; a rank died or left.
    pub fn new(
        comm: &Communicator,
        rows: usize,
        columns: usize,
        halo: usize,
        edges: Edges,
    ) -> Result<Self> {
        Self::make("Tiles::new", comm, [rows, columns], halo, edges)
    }

    /// Collective. As [`Tiles::new`], but each element is the result of `of` for its row and column in the whole array.
    /// Each rank calls `of` for its own tile. Halos are zero until the first [`exchange`](Self::exchange).
    ///
    /// # Errors
    /// As for [`Tiles::new`].
    pub fn from_fn(
        comm: &Communicator,
        rows: usize,
        columns: usize,
        halo: usize,
        edges: Edges,
        mut of: impl FnMut(usize, usize) -> T,
    ) -> Result<Self> {
        let mut tiles = Self::make("Tiles::from_fn", comm, [rows, columns], halo, edges)?;
        let (rows, columns) = (tiles.rows(), tiles.columns());
        for (own, row) in tiles.own_rows_mut()?.zip(rows) {
            for (element, column) in own.iter_mut().zip(columns.clone()) {
                *element = of(row, column);
            }
        }
        Ok(tiles)
    }

    fn make(
        operation: &'static str,
        comm: &Communicator,
        [rows, columns]: [usize; 2],
        halo: usize,
        edges: Edges,
    ) -> Result<Self> {
        let (element, ranks) = (type_name::<T>(), comm.size());
        let ours = format!(
            "{rows} rows and {columns} columns of {element} with halos of {halo}, edges {edges:?}"
        );
        agreement::alike(comm, operation, &ours)?;
        let grid = Grid::new(rows, columns, ranks, halo.max(1));
        let grid = grid.ok_or_else(|| Error::BadArgument {
            operation,
            what: format!(
                "{rows} rows and {columns} columns cannot be cut into {ranks} tiles with halos of {halo}"
            ),
        })?;
        let cells = (grid.tile(comm.rank()).iter())
            .map(|range| halo.saturating_mul(2).saturating_add(range.len()))
            .fold(1, usize::saturating_mul);
        let window = Window::allocate(comm, cells)?.into_owned();
        let neighbours = grid.neighbours(comm.rank(), halo, edges);
        let mut ranks: Vec<u32> = neighbours.iter().map(|neighbour| neighbour.rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        Ok(Self {
            window,
            group: comm.group().include(&ranks)?,
            grid,
            halo,
            neighbours,
            buffer: Vec::new(),
        })
    }

    /// Local. The rows of the whole array that this rank's tile has.
    #[must_use]
    pub fn rows(&self) -> Range<usize> {
        self.grid.tile(self.window.rank())[0].clone()
    }

    /// Local. The columns of the whole array that this rank's tile has.
    #[must_use]
    pub fn columns(&self) -> Range<usize> {
        self.grid.tile(self.window.rank())[1].clone()
    }

    /// Local. How many rows and columns wide the halo is.
    #[must_use]
    pub fn halo(&self) -> usize {
        self.halo
    }

    /// Local. The distance from one row of [`cells`](Self::cells) to the next, in elements: the tile's columns, and the
    /// halo on both sides.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.columns().len() + 2 * self.halo
    }

    /// Local. The communicator whose ranks share the array.
    #[must_use]
    pub fn comm(&self) -> &Communicator {
        self.window.comm()
    }

    /// Local. This rank's tile with its halo, row by row: `rows().len() + 2 * halo()` rows of [`stride`](Self::stride)
    /// elements.
    /// Element (`row`, `column`) of the tile is at `(row + halo()) * stride() + column + halo()`.
    ///
    /// # Errors
    /// An exchange failed.
    pub fn cells(&self) -> Result<&[T]> {
        Ok(self.window.local()?)
    }

    /// Local. The same, mutable. Neighbours see changes after the next [`exchange`](Self::exchange).
    ///
    /// # Errors
    /// An exchange failed.
    pub fn cells_mut(&mut self) -> Result<&mut [T]> {
        Ok(self.window.local_mut()?)
    }

    /// The place of this rank's tile inside its halo.
    fn own(&self) -> Block2d {
        let shape = [self.rows().len(), self.columns().len()];
        block(shape.map(|len| edge(0, len, self.halo)), self.stride())
    }

    /// Local. The rows of this rank's tile, without the halo.
    ///
    /// # Errors
    /// An exchange failed.
    pub fn own_rows(&self) -> Result<impl Iterator<Item = &[T]>> {
        Ok(rows_of(self.cells()?, self.own()))
    }

    /// Local. The same rows, mutable.
    ///
    /// # Errors
    /// An exchange failed.
    pub fn own_rows_mut(&mut self) -> Result<impl Iterator<Item = &mut [T]>> {
        let own = self.own();
        let rows = self.cells_mut()?.chunks_exact_mut(own.width);
        let rows = rows.skip(own.row).take(own.rows);
        Ok(rows.map(move |row| &mut row[own.column..][..own.columns]))
    }

    /// Collective over neighbours. Updates the halos, corners included: each rank sends its neighbours the elements for
    /// their halos, and waits for theirs. Ranks farther away may be some exchanges ahead.
    ///
    /// # Errors
    /// A neighbour died or left. Then every later call fails, and so do the exchanges of ranks that wait for this one.
    pub fn exchange(&mut self) -> Result<()> {
        let cells = self.window.local()?;
        self.buffer.clear();
        for neighbour in &self.neighbours {
            for row in rows_of(cells, neighbour.from) {
                self.buffer.extend_from_slice(row);
            }
        }
        let (neighbours, buffer) = (&self.neighbours, &self.buffer);
        self.window.exchange(&self.group, &self.group, |epoch| {
            let mut start = 0;
            for &Neighbour { rank, to, .. } in neighbours {
                let end = start + to.rows * to.columns;
                epoch.target(rank)?.put_strided(to, buffer, start..end)?;
                start = end;
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Local. Replaces every element of this rank's tile by the result of `of` for it and the elements around it. `of`
    /// sees the old values of all elements. The halo does not change.
    ///
    /// # Errors
    /// An exchange failed.
    pub fn update(&mut self, mut of: impl FnMut(Near<'_, T>) -> T) -> Result<()> {
        let (halo, stride) = (self.halo, self.stride());
        let (own_rows, own_columns) = (self.rows(), self.columns());
        let (rows, columns) = (own_rows.len(), own_columns.len());
        let reach = 2 * halo * (stride + 1) + 1;
        let cells = self.window.local_mut()?;
        // New rows are kept here as long as rows below them need the old values.
        self.buffer.clear();
        self.buffer.resize((halo + 1) * columns, T::zeroed());
        let waiting = |row: usize| {
            let start = row % (halo + 1) * columns;
            start..start + columns
        };
        for row in 0..rows + halo {
            if row < rows {
                let around = cells[row * stride..][..(2 * halo + 1) * stride].windows(reach);
                let news = self.buffer[waiting(row)].iter_mut().zip(around);
                for ((new, around), column) in news.zip(own_columns.clone()) {
                    *new = of(Near {
                        around,
                        stride,
                        halo,
                        row: own_rows.start + row,
                        column,
                    });
                }
            }
            if row >= halo {
                let own = &mut cells[row * stride + halo..][..columns];
                own.copy_from_slice(&self.buffer[waiting(row - halo)]);
            }
        }
        Ok(())
    }

    /// Collective. Sets all elements to those that rank `root` passes, row by row; arguments of other ranks are
    /// ignored. Halos stay unchanged until the next [`exchange`](Self::exchange).
    ///
    /// # Errors
    /// On every rank: `root` is not a rank, or differs; `root` passes another number of elements; a rank died or left;
    /// an exchange failed.
    pub fn scatter(&mut self, all: &[T], root: u32) -> Result<()> {
        const OPERATION: &str = "scatter";
        let (rows, columns) = (self.grid.rows.len, self.grid.columns.len);
        let is_root = self.comm().rank() == root;
        let ours = match is_root && all.len() != rows * columns {
            true => Err(format!(
                "{} elements for {rows} rows and {columns} columns",
                all.len()
            )),
            false => Ok(&[][..]),
        };
        if let Err(failed) = agreement::gather(self.comm(), ours)? {
            return Err(failed.during(OPERATION));
        }
        let tile = |rank| {
            let own = rows_of(all, block(self.grid.tile(rank), columns));
            own.collect::<Vec<_>>().concat()
        };
        let receivers = if is_root { self.comm().size() } else { 0 };
        let tiles: Vec<Vec<T>> = (0..receivers).map(tile).collect();
        let own = self.comm().scatterv(&tiles, root)?;
        let width = self.columns().len();
        for (row, new) in self.own_rows_mut()?.zip(own.chunks_exact(width)) {
            row.copy_from_slice(new);
        }
        Ok(())
    }

    /// Collective. Returns all elements, row by row, on rank `root`, and `None` on the others.
    ///
    /// # Errors
    /// `root` is not a rank, or differs; a rank died or left; an exchange failed. If `root` has no memory for all
    /// elements, only `root` gets this error.
    pub fn gather(&self, root: u32) -> Result<Option<Vec<T>>> {
        let own = self.own_rows()?.collect::<Vec<_>>().concat();
        let tiles = self.comm().gatherv(&own, root)?;
        if self.comm().rank() != root {
            return Ok(None);
        }
        let (rows, columns) = (self.grid.rows.len, self.grid.columns.len);
        let mut all = crate::array::zeroed("gather", rows * columns)?;
        for (rank, tile) in (0..).zip(&tiles) {
            let [rows, columns] = self.grid.tile(rank);
            for (row, own) in rows.zip(tile.chunks_exact(columns.len())) {
                let start = row * self.grid.columns.len + columns.start;
                all[start..][..own.len()].copy_from_slice(own);
            }
        }
        Ok(Some(all))
    }

    /// Collective. Waits for all ranks, and frees the memory.
    ///
    /// # Errors
    /// An exchange failed; a rank died or left. Then the memory is leaked, because other ranks may still access it.
    pub fn free(self) -> Result<()> {
        Ok(self.window.free()?)
    }
}

impl<T: Element> fmt::Debug for Tiles<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tiles")
            .field("grid", &self.grid)
            .field("halo", &self.halo)
            .field("comm", self.comm())
            .finish_non_exhaustive()
    }
}
