//! Collections whose elements lie on all ranks of a job, for [Transom](transom): on its typed interface, and on
//! nothing else.
//!
//! - [`DistArray`]: an array by global index, in blocks or dealt cyclically; single elements, ranges, and lists of indices
//!   in one call; saved to one file, and loaded on another number of ranks.
//! - [`Tiles`]: rows and columns, in a tile for each rank with a halo of what neighbours have around it.
//! - [`DistMap`]: a hash map, in which each operation on a key takes effect as a whole.
//! - [`Deque`]: tasks, which ranks take from each other until none is left anywhere.
//! - [`Arena`]: memory on all ranks for elements that point to each other by [`GlobalPtr`].
//!
//! Operations on elements are one-sided: no other rank has to take part. Calls that are collective say so; what they make
//! is there on every rank or on none; where ranks disagree on what they make, each gets [`Error::RanksDiffer`].
#![forbid(unsafe_code)]

mod agreement;
mod arena;
mod array;
mod deque;
mod distribution;
mod error;
mod file;
mod map;
mod tiles;
mod waiting;
mod words;

pub use arena::{Arena, GlobalPtr};
pub use array::DistArray;
pub use deque::{Deque, Task};
pub use distribution::Distribution;
pub use error::{Error, Result};
pub use map::DistMap;
pub use tiles::{Edges, Near, Tiles};
