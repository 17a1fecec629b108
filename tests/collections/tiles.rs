//! Tiles against serial models: halos, steps, arguments that are refused, and a rank that dies.

use transom::{ErrorClass, Job};
use transom_collections::{Edges, Error, Result, Tiles};

use crate::{Scenario, scenarios};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = scenarios![
        halos_hold_what_is_around: [1, 2, 4, 6, 8],
        steps_equal_a_serial_model: [1, 3, 6],
        elements_of_one_rank_reach_all_tiles: [1, 4, 6],
        tiles_that_are_refused: [1, 3],
    ];
    all.push(Scenario::new("a_neighbour_dies", &[3], a_neighbour_dies).exits(9));
    all
}

/// The whole array, as one rank has it.
#[derive(Clone)]
struct Model {
    rows: usize,
    columns: usize,
    edges: Edges,
    cells: Vec<u64>,
}

impl Model {
    fn new(rows: usize, columns: usize, edges: Edges) -> Self {
        let of = |index: usize| start(index / columns, index % columns);
        let cells = (0..rows * columns).map(of).collect();
        Self {
            rows,
            columns,
            edges,
            cells,
        }
    }

    /// An element; beyond edges, that of the opposite one, or 0.
    fn at(&self, row: isize, column: isize) -> u64 {
        let (rows, columns) = (self.rows as isize, self.columns as isize);
        let is_inside = (0..rows).contains(&row) && (0..columns).contains(&column);
        if self.edges == Edges::Fixed && !is_inside {
            return 0;
        }
        let (row, column) = (row.rem_euclid(rows), column.rem_euclid(columns));
        self.cells[(row * columns + column) as usize]
    }

    fn step(&mut self, halo: isize) {
        let old = self.clone();
        for (index, cell) in self.cells.iter_mut().enumerate() {
            let (row, column) = (
                (index / self.columns) as isize,
                (index % self.columns) as isize,
            );
            *cell = mixed(halo, |down, across| old.at(row + down, column + across));
        }
    }
}

fn start(row: usize, column: usize) -> u64 {
    (1000 * row + column + 1) as u64
}

/// Each element around counts differently.
fn mixed(halo: isize, near: impl Fn(isize, isize) -> u64) -> u64 {
    let mut sum = 0_u64;
    for down in -halo..=halo {
        for across in -halo..=halo {
            sum = sum.wrapping_mul(31).wrapping_add(near(down, across));
        }
    }
    sum
}

/// Rows and columns, and halos that are wide, narrow, or none.
const SHAPES: [(usize, usize, usize); 4] = [(16, 17, 2), (9, 30, 1), (40, 8, 1), (8, 8, 0)];

fn halos_hold_what_is_around(job: &Job) -> Result<()> {
    let world = job.world();
    for edges in [Edges::Fixed, Edges::Periodic] {
        for (rows, columns, halo) in SHAPES {
            let model = Model::new(rows, columns, edges);
            let mut tiles = Tiles::from_fn(world, rows, columns, halo, edges, start)?;
            let sizes = [tiles.rows().len() * tiles.columns().len()];
            let all = world.allreduce(&sizes.map(|size| size as u64), transom::Op::Sum)?;
            assert_eq!(all, [(rows * columns) as u64]);
            for own in tiles.own_rows()? {
                assert_eq!(own.len(), tiles.columns().len());
            }
            for _ in 0..3 {
                tiles.exchange()?;
                let far = tiles.halo() as isize;
                let first_row = tiles.rows().start as isize - far;
                let first_column = tiles.columns().start as isize - far;
                for (row, cells) in (first_row..).zip(tiles.cells()?.chunks(tiles.stride())) {
                    for (column, &cell) in (first_column..).zip(cells) {
                        assert_eq!(cell, model.at(row, column), "{row} {column} {tiles:?}");
                    }
                }
            }
            let gathered = tiles.gather(0)?;
            assert_eq!(gathered, (world.rank() == 0).then_some(model.cells));
            tiles.free()?;
        }
    }
    Ok(())
}

fn steps_equal_a_serial_model(job: &Job) -> Result<()> {
    let world = job.world();
    for edges in [Edges::Fixed, Edges::Periodic] {
        for (rows, columns, halo) in SHAPES {
            let mut model = Model::new(rows, columns, edges);
            let mut tiles = Tiles::from_fn(world, rows, columns, halo, edges, start)?;
            for _ in 0..5 {
                // Ranks may be steps ahead of each other: nothing waits for all.
                tiles.exchange()?;
                tiles.update(|near| mixed(halo as isize, |down, across| near.at(down, across)))?;
                model.step(halo as isize);
            }
            let root = world.size() - 1;
            let gathered = tiles.gather(root)?;
            assert_eq!(gathered, (world.rank() == root).then_some(model.cells));
            // Each is told where it is.
            tiles.update(|near| start(near.row(), near.column()))?;
            let (own_rows, own_columns) = (tiles.rows(), tiles.columns());
            for (own, row) in tiles.own_rows()?.zip(own_rows) {
                let expected = own_columns.clone().map(|column| start(row, column));
                assert!(own.iter().copied().eq(expected));
            }
            // Changed in place, and seen by neighbours.
            tiles.own_rows_mut()?.for_each(|row| row.fill(5));
            tiles.exchange()?;
            let beyond = |cell: &u64| edges == Edges::Fixed && *cell == 0;
            assert!(tiles.cells()?.iter().all(|cell| *cell == 5 || beyond(cell)));
            tiles.free()?;
        }
    }
    Ok(())
}

fn elements_of_one_rank_reach_all_tiles(job: &Job) -> Result<()> {
    let world = job.world();
    let root = world.size() / 2;
    for (rows, columns, halo) in SHAPES {
        let model = Model::new(rows, columns, Edges::Fixed);
        let mut tiles = Tiles::from_fn(world, rows, columns, halo, Edges::Fixed, |_, _| 5)?;
        tiles.exchange()?;
        let all = match world.rank() == root {
            true => &model.cells[..],
            false => &[3],
        };
        tiles.scatter(all, root)?;
        let (first_row, first_column) = (tiles.rows().start, tiles.columns().start);
        for (row, own) in (first_row..).zip(tiles.own_rows()?) {
            for (column, &cell) in (first_column..).zip(own) {
                assert_eq!(cell, start(row, column), "{tiles:?}");
            }
        }
        // The halos are still what the exchange made them.
        let (stride, width) = (tiles.stride(), tiles.columns().len());
        for (at, &cell) in tiles.cells()?.iter().enumerate() {
            let (row, column) = (at / stride, at % stride);
            let is_own = (halo..halo + tiles.rows().len()).contains(&row)
                && (halo..halo + width).contains(&column);
            assert!(is_own || cell == 0 || cell == 5, "{row} {column}: {cell}");
        }
        let error = tiles.scatter(&model.cells[1..], root).unwrap_err();
        let said = format!(
            "scatter: rank {root} failed: {} elements for {rows} rows and {columns} columns",
            rows * columns - 1
        );
        assert_eq!(error.to_string(), said);
        let error = tiles.scatter(&model.cells, world.size()).unwrap_err();
        assert!(error.to_string().contains("scatterv"), "{error}");
        let gathered = tiles.gather(0)?;
        assert_eq!(gathered, (world.rank() == 0).then_some(model.cells));
        tiles.free()?;
    }
    Ok(())
}

fn tiles_that_are_refused(job: &Job) -> Result<()> {
    let world = job.world();
    let ranks = world.size();
    for (rows, columns, halo) in [
        (0, 5, 1),
        (5, 0, 0),
        (2, 2, 3),
        (1, 1, usize::MAX),
        (usize::MAX, 1, usize::MAX),
        (usize::MAX, 1, usize::MAX / 3),
    ] {
        let error = Tiles::<u64>::new(world, rows, columns, halo, Edges::Fixed);
        let error = error.map(drop).unwrap_err();
        let cut = format!(
            "Tiles::new: {rows} rows and {columns} columns cannot be cut into {ranks} tiles with halos of {halo}"
        );
        let is_told = error.to_string() == cut || error.class() == ErrorClass::Size;
        assert!(is_told, "{error}");
    }
    if ranks > 1 {
        let edges = match world.rank() {
            0 => Edges::Fixed,
            _ => Edges::Periodic,
        };
        let error = Tiles::<u64>::new(world, 9, 9, 1, edges).map(drop);
        let error = error.unwrap_err();
        assert!(matches!(error, Error::RanksDiffer { .. }), "{error}");
    }
    // And the communicator goes on.
    Tiles::<u64>::new(world, 9, 9, 1, Edges::Fixed)?.free()
}

fn a_neighbour_dies(job: &Job) -> Result<()> {
    let world = job.world();
    let mut tiles = Tiles::from_fn(world, 30, 3, 1, Edges::Periodic, start)?;
    tiles.exchange()?;
    world.barrier()?;
    if world.rank() == 2 {
        std::process::exit(9);
    }
    let error = loop {
        if let Err(error) = tiles.exchange() {
            break error;
        }
    };
    assert!(matches!(error, Error::Transom(_)), "{error}");
    for error in [
        tiles.exchange().unwrap_err(),
        tiles.cells().map(drop).unwrap_err(),
        tiles.update(|near| near.at(0, 0)).unwrap_err(),
    ] {
        assert!(error.to_string().contains("poisoned"), "{error}");
    }
    Ok(())
}
