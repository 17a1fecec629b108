//! The halo: where the edges of a rank's neighbours arrive, and the three ways to bring them there.
//!
//! The window holds, on each rank, one slot for each side of its tile. Before a step, everybody puts
//! the edges of its tile into the slots of its neighbours; then it copies its own slots to the frame
//! of its field. What the ways differ in is who waits for whom:
//!
//! - [`by_fence`](Way::Fence): all ranks for all;
//! - [`by_pscw`](Way::Pscw): each for its neighbours, by post, start, complete and wait;
//! - [`by_notify`](Way::Notify): each for its neighbours' data alone, as it comes.

mod by_fence;
mod by_notify;
mod by_pscw;

use std::ops::Range;

use clap::ValueEnum;
use transom::{Communicator, Group, Result, Target, Window};

use crate::field::Field;
use crate::grid::{Grid, Side, Tile};
use crate::plate::Plate;

/// How the ranks synchronise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// Fences: all ranks wait for all
    Fence,
    /// Post, start, complete and wait: neighbours wait for each other
    Pscw,
    /// Put with notification: nobody waits for anything but its neighbours' data
    Notify,
}

/// The slots in one rank's part: north, south, west, east.
#[derive(Clone, Copy)]
struct Slots {
    width: usize,
    height: usize,
}

impl Slots {
    fn of(tile: &Tile) -> Self {
        Self {
            width: tile.width(),
            height: tile.height(),
        }
    }

    fn len(self) -> usize {
        2 * (self.width + self.height)
    }

    fn of_side(self, side: Side) -> Range<usize> {
        let Self { width, height } = self;
        match side {
            Side::North => 0..width,
            Side::South => width..2 * width,
            Side::West => 2 * width..2 * width + height,
            Side::East => 2 * width + height..self.len(),
        }
    }
}

/// A rank that shares a border with this one.
struct Neighbour {
    rank: u32,
    /// Where it is, seen from here.
    side: Side,
    /// Its slot for this rank's edge.
    slot: usize,
    /// Elements of all its slots.
    slots: usize,
    /// Where its edge arrives here.
    arrives: Range<usize>,
}

impl Neighbour {
    /// One-sided. Puts this rank's edge there. A row's cells are neighbours in memory, a column's are
    /// not; the slot's are.
    fn put_edge<'op, M>(&self, target: &Target<'op, f64, M>, field: &'op Field) -> Result<()> {
        let slot = self.slot..self.slot + self.arrives.len();
        target.put_strided(slot, field.cells(), field.edge(self.side))
    }
}

/// What one step moves between ranks.
#[derive(Clone, Copy, Default)]
pub(crate) struct Traffic {
    pub(crate) puts: u64,
    pub(crate) bytes: u64,
}

pub(crate) struct Halo<'c> {
    window: Window<'c, f64>,
    slots: Slots,
    neighbours: Vec<Neighbour>,
    /// The neighbours' ranks.
    group: Group,
    /// Steps taken.
    steps: u64,
}

impl<'c> Halo<'c> {
    /// Collective.
    pub(crate) fn new(comm: &'c Communicator, grid: &Grid) -> Result<Self> {
        let rank = comm.rank();
        let slots = Slots::of(&grid.tile(rank));
        let neighbour = |side| {
            let rank = grid.neighbour(rank, side)?;
            let its = Slots::of(&grid.tile(rank));
            Some(Neighbour {
                rank,
                side,
                slot: its.of_side(side.opposite()).start,
                slots: its.len(),
                arrives: slots.of_side(side),
            })
        };
        let neighbours: Vec<_> = Side::ALL.into_iter().filter_map(neighbour).collect();
        let ranks: Vec<_> = neighbours.iter().map(|neighbour| neighbour.rank).collect();
        Ok(Self {
            // Notified ranks may be a step ahead of their neighbours: they have two sets.
            window: Window::allocate(comm, 2 * slots.len())?,
            slots,
            neighbours,
            group: comm.group().include(&ranks)?,
            steps: 0,
        })
    }

    /// The sides of this rank's tile where the plate ends.
    pub(crate) fn insulated(&self) -> Vec<Side> {
        let ends = |side: &Side| self.neighbours.iter().all(|other| other.side != *side);
        Side::ALL.into_iter().filter(ends).collect()
    }

    /// Collective, at least over neighbours. Takes `count` steps, and calls `tick` after each.
    pub(crate) fn advance(
        &mut self,
        way: Way,
        plate: &mut Plate,
        count: u64,
        tick: &dyn Fn(),
    ) -> Result<()> {
        match way {
            Way::Fence => self.by_fence(plate, count, tick)?,
            Way::Pscw => self.by_pscw(plate, count, tick)?,
            Way::Notify => self.by_notify(plate, count, tick)?,
        }
        self.steps += count;
        Ok(())
    }

    /// Collective.
    pub(crate) fn free(self) -> Result<()> {
        self.window.free()
    }

    /// What this rank sends in one step.
    pub(crate) fn traffic(&self) -> Traffic {
        let cells: usize = self.neighbours.iter().map(|it| it.arrives.len()).sum();
        Traffic {
            puts: self.neighbours.len() as u64,
            bytes: (size_of::<f64>() * cells) as u64,
        }
    }
}

/// Copies what has arrived to the frame, and takes a step.
fn step(plate: &mut Plate, neighbours: &[Neighbour], arrived: &[f64]) {
    for neighbour in neighbours {
        plate.set_frame(neighbour.side, &arrived[neighbour.arrives.clone()]);
    }
    plate.step();
}
