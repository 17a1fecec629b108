//! One-sided operations.
//!
//! Which way an accumulate goes (accumulate, get_accumulate, fetch_and_op, compare_and_swap) depends on its elements: their
//! type and alignment, and whether the target's memory is mapped here. It never depends on the operation.
//!
//! | the target's memory | elements that single atomics update | other elements |
//! |---|---|---|
//! | mapped | the processor's atomics (`elementwise`, `narrow`), many at a time under the accumulate lock (`words`, `bulk_mode`) | combined under the accumulate lock (`locked`) |
//! | not mapped, a thread of the target serves | one request for a block (`at_target`); the thread does what is said above (`combiner`) | the same |
//! | not mapped, else | the device's atomics, or loops of its compare-and-swap (`by_device`) | read, combined and written back under the lock (`locked_by_device`) |
//!
//! The call of one element on mapped memory is inlined (`accumulate`, `fetch`). All other calls go through
//! `accumulate_layouts`, which checks the place (`bounds`, `spot`) and walks the blocks (`layout_work`, `work`). Special
//! cases before that: layouts that divide runs of narrow elements (`runs`), several regions of a dynamic window (`apart`),
//! and lists of places (`indexed`).

mod accumulate;
mod accumulate_layouts;
mod accumulate_lock;
mod apart;
mod at_target;
mod bounds;
mod bulk_mode;
mod by_device;
mod combiner;
mod elementwise;
mod fetch;
mod get_accumulate;
mod indexed;
mod layout_work;
mod locked;
mod locked_by_device;
mod narrow;
mod notify;
mod post;
mod put_get;
mod request;
mod rows;
mod runs;
mod spot;
mod transfer;
mod whole_words;
mod words;
mod work;

pub use accumulate::add_at_once;
pub(crate) use combiner::OfOthers;
pub use fetch::{fetch_at_once, swap_at_once};
pub use notify::put_notify_row;
pub use put_get::InPlace;
pub use request::Request;
pub use rows::{accumulate_row, get_row, put_row, rget_row, rput_row};

/// A target that is not a rank, like a neighbour beyond the edge of a grid. Every communication call of
/// [`raw::Window`](crate::raw::Window) accepts it, needs no epoch for it and transfers nothing; its request is complete
/// at once (MPI-4.1, section 12.3, `MPI_PROC_NULL`).
// Not u32::MAX, which is what a rank less one becomes where it wraps.
pub const PROC_NULL: u32 = 1 << 31;
