//! Collections whose elements lie on all ranks of a job, for [Transom](transom): on its typed interface, and on
//! nothing else.
#![forbid(unsafe_code)]

mod agree;
mod arena;
mod deque;
mod error;
mod map;
mod words;

pub use arena::{Arena, GlobalPtr};
pub use deque::{Deque, Task};
pub use error::{Error, Result};
pub use map::DistMap;
