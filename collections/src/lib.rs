//! Collections whose elements are distributed over all ranks of a job, for [Transom](transom). They use only its typed
//! interface.
//!
//! - [`DistArray`]: an array by global index, in blocks or distributed cyclically; single elements, ranges, and lists
//!   of indices in one call; saved to one file, and loaded on another number of ranks.
//! - [`Tiles`]: rows and columns, in one tile for each rank, with a halo of the neighbours' elements around it.
//! - [`DistMap`]: a hash map. Each operation on a key is atomic.
//! - [`Deque`]: tasks, which ranks take from each other until none is left.
//! - [`Arena`]: memory on all ranks for elements that point to each other by [`GlobalPtr`].
//!
//! Operations on elements are one-sided: no other rank has to take part. Calls that are collective say so. A collective
//! call makes its collection on every rank or on none. If ranks disagree on it, each gets [`Error::RanksDiffer`].
//!
//! After a death, [`DistArray::carry_over`] and [`DistMap::carry_over`] bring what the survivors have to their
//! [communicator](transom::Communicator::survivors). The others cannot be carried over: a [`Deque`] does not know
//! which tasks a rank had taken, the pointers in an [`Arena`] name ranks, and the shape of [`Tiles`] depends on the
//! number of ranks. Make them anew.
#![forbid(unsafe_code)]

mod agreement;
mod arena;
mod array;
mod deque;
mod distribution;
mod error;
mod file;
mod map;
mod survivors;
mod tiles;
mod words;

pub use arena::{Arena, GlobalPtr};
pub use array::DistArray;
pub use deque::{Deque, Task};
pub use distribution::Distribution;
pub use error::{Error, Result};
pub use map::DistMap;
pub use survivors::LostKeys;
pub use tiles::{Edges, Near, Tiles};
