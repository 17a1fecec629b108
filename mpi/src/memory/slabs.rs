//! Small pieces, cut from slabs. Each slab is an object of the operating system.

use std::collections::{BTreeMap, HashSet};
use std::ptr::NonNull;

/// Pieces begin at cache lines.
const SMALLEST: usize = 64;
const LARGEST: usize = 16 << 10;
const CLASSES: usize = (LARGEST / SMALLEST).ilog2() as usize + 1;
/// The size of a class's first slab. Each further slab of the class is twice as large, up to the largest size.
const FIRST_SLAB: usize = 64 << 10;
const MOST_SLAB: usize = 4 << 20;

/// A size of pieces: the smallest size, doubled this many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(usize);

/// The smallest class whose pieces have at least this many bytes, if there is one.
pub(super) fn class(size: usize) -> Option<Class> {
    let class = size.max(SMALLEST).next_power_of_two() / SMALLEST;
    (size <= LARGEST).then(|| Class(class.ilog2() as usize))
}

impl Class {
    fn bytes(self) -> usize {
        SMALLEST << self.0
    }
}

#[derive(Default)]
struct Pieces {
    free: Vec<NonNull<u8>>,
    last_slab: usize,
}

/// All small pieces of a process.
#[derive(Default)]
pub(super) struct Slabs {
    pieces: [Pieces; CLASSES],
    /// By address, with the class of their pieces.
    slabs: BTreeMap<usize, (NonNull<u8>, Class)>,
    taken: HashSet<usize>,
}

// SAFETY: the pointers are to memory of the whole process, which this type does not access.
unsafe impl Send for Slabs {}

impl Slabs {
    /// A piece of this class. If none is free, `more` allocates a slab of the given size.
    pub(super) fn take<E>(
        &mut self,
        class: Class,
        more: impl FnOnce(usize) -> Result<NonNull<u8>, E>,
    ) -> Result<NonNull<u8>, E> {
        let pieces = &mut self.pieces[class.0];
        if pieces.free.is_empty() {
            let size = (2 * pieces.last_slab).clamp(FIRST_SLAB, MOST_SLAB);
            let slab = more(size)?;
            pieces.last_slab = size;
            self.slabs.insert(slab.addr().get(), (slab, class));
            let all = (0..size / class.bytes()).rev();
            // SAFETY: the address is inside the slab.
            let cut = all.map(|at| unsafe { slab.add(at * class.bytes()) });
            pieces.free.extend(cut);
        }
        let piece = pieces.free.pop().unwrap_or(NonNull::dangling());
        self.taken.insert(piece.addr().get());
        Ok(piece)
    }

    /// Frees the piece at this address. Returns false if no allocated piece begins there.
    pub(super) fn give_back(&mut self, address: usize) -> bool {
        if !self.taken.remove(&address) {
            return false;
        }
        if let Some((_, &(slab, class))) = self.slabs.range(..=address).next_back() {
            // SAFETY: an allocated piece is inside the last slab that begins before it.
            let piece = unsafe { slab.add(address - slab.addr().get()) };
            self.pieces[class.0].free.push(piece);
        }
        true
    }
}
