//! Derived datatypes: layouts of memory, made of others (MPI-4.1, chapter 5, with 64-bit counts and
//! displacements throughout).
//!
//! A [`Datatype`] is a tree that constructors build, each looking at its children's outlines only.
//! Committing it flattens it once into a [`Piece`], a normal form of loops and lists of equal blocks
//! in which adjacent runs are one: that is all that operations see. Trees, normal forms and walks
//! are as deep as the program likes; none of it recurses.

mod bounds;
mod committed;
mod construct;
mod cursor;
mod flatten;
mod layout;
mod list;
mod outline;
mod piece;
mod row;
mod signature;
mod subarray;
mod together;
mod tree;

pub(crate) use bounds::Span;
pub use committed::Committed;
pub use layout::Layout;
pub(crate) use piece::Piece;
pub use row::Row;
pub use subarray::Order;
pub(crate) use together::{Strip, Together};
pub use tree::Datatype;

#[cfg(test)]
mod tests;
