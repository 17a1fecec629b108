//! Predefined types and operations (MPI-4.1, sections 3.2.2 and 6.9.2), and types derived of them.

mod atomic;
mod basic;
mod combine;
mod composite;
mod derived;
mod element;
#[cfg(target_arch = "x86_64")]
mod long_double;
mod operation;
mod reduce;

pub(crate) use atomic::AtomicWidths;
pub use basic::BasicType;
pub(crate) use combine::{combine, combine_word, copy_elements};
pub use composite::{Complex, ValueIndex};
pub use derived::{Committed, Datatype, Layout, Order, Row};
pub(crate) use derived::{Piece, Span, Strip, Together};
pub use element::{Accumulate, Atomic, Element};
pub use operation::Op;
pub use reduce::Reduce;
