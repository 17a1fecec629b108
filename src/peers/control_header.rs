//! The header of every control region: words by which each rank tells the others how it is, and its list of slabs.

use crate::memory::control::{LINE, SLAB_LIST_BYTES};
use crate::memory::in_flight;

/// Offset in every control region of its rank's abort word.
pub(super) const ABORT: u64 = 0;
/// Offset of the word in which a rank says that it left.
pub(super) const STATE: u64 = LINE;
/// Offset of the text of the call in which a rank has waited for long; otherwise zeros. It shares a line with the
/// previous word, which is seldom written.
pub(crate) const CALL: u64 = STATE + 8;
pub(crate) const CALL_BYTES: usize = LINE as usize - 8;
/// Offset of the list of the region's slabs.
pub(super) const SLAB_LIST: u64 = in_flight::AT + in_flight::BYTES;
/// Offset of the world communicator's block.
pub(super) const WORLD: u64 = SLAB_LIST + SLAB_LIST_BYTES;

pub(crate) const STATE_LEFT: u64 = 1;
