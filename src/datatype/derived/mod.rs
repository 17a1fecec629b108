//! Derived datatypes: layouts of memory, made of others (MPI-4.1, chapter 5, with 64-bit counts and
//! displacements throughout).
//!
//! A [`Datatype`] is a tree that constructors build, each looking at its children's outlines only.
//! Committing it flattens it once into a [`Piece`], a normal form of loops and lists of equal blocks
//! in which adjacent runs are one: that is all that operations see. Trees, normal forms and walks
//! are as deep as the program likes; none of it recurses.
//!
//! A `Committed` type is the only one that operations accept. An `Outline` has size, bounds, and the type signature as
//! a polynomial over a prime field, so signatures of any size are compared by a few multiplications. Checks use true
//! bounds and signatures, without walking the layout. `Together` walks two or three layouts side by side in strips: a
//! number of blocks of equal length, with a stride for each layout.

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
