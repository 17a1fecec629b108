//! The bytes of words too long for a slot.
//!
//! Each rank hosts a part of the heap: in its first element the number of those given away, in the
//! others *entries*, each a length and the bytes. A rank takes space for many entries with one
//! fetch_add, in its own part while there is room, and then gives it out by itself; so an entry that
//! turns out not to be needed costs nothing.

use transom::{LockAll, Op};

use crate::error::Error;

/// Elements that a rank takes at a time.
const ARENA: usize = 8 << 10;

/// Bits of an address, which is the number of an element, counted through all parts.
pub(crate) const ADDRESS_BITS: u32 = 40;

/// Access to the heap in an epoch.
pub(crate) struct Heap<'lock, 'op> {
    lock: &'lock LockAll<'op, u64>,
    shape: Shape,
    arena: Arena,
    /// An entry on its way, to or from the heap.
    entry: Vec<u64>,
}

#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    /// Elements of each rank's part.
    pub(crate) part: usize,
}

/// Space that nobody else will use.
#[derive(Default)]
struct Arena {
    rank: u32,
    start: usize,
    end: usize,
}

impl<'lock, 'op> Heap<'lock, 'op> {
    pub(crate) fn new(lock: &'lock LockAll<'op, u64>, shape: Shape) -> Self {
        Self {
            lock,
            shape,
            arena: Arena::default(),
            entry: Vec::new(),
        }
    }

    /// Writes an entry, and returns its address. The next one takes its place, unless it is kept.
    pub(crate) fn write(&mut self, word: &[u8]) -> Result<u64, Error> {
        self.entry.clear();
        self.entry.resize(entry_len(word.len()), 0);
        self.entry[0] = word.len() as u64;
        bytemuck::cast_slice_mut(&mut self.entry[1..])[..word.len()].copy_from_slice(word);

        if self.arena.end - self.arena.start < self.entry.len() {
            self.arena = self.reserve(self.entry.len(), word.len())?;
        }
        let Arena { rank, start, .. } = self.arena;
        // Complete at the target when this returns: whoever learns the address finds the word.
        self.lock.target(rank)?.put_blocking(start, &self.entry)?;
        Ok(rank as u64 * self.shape.part as u64 + start as u64)
    }

    /// Keeps the entry that was written last, which is of `word`.
    pub(crate) fn keep(&mut self, word: &[u8]) {
        self.arena.start += entry_len(word.len());
    }

    /// True if the entry at `address` is `word`. The address may be nonsense.
    pub(crate) fn holds(&mut self, address: u64, word: &[u8]) -> Result<bool, Error> {
        let (rank, start) = self.locate(address);
        let len = entry_len(word.len());
        if rank >= u64::from(self.shape.ranks) || len > self.shape.part - start {
            return Ok(false);
        }
        self.entry.resize(len, 0);
        let target = self.lock.target(rank as u32)?;
        target.get_blocking(start, &mut self.entry)?;
        let bytes: &[u8] = bytemuck::cast_slice(&self.entry[1..]);
        Ok(self.entry[0] == word.len() as u64 && &bytes[..word.len()] == word)
    }

    /// The word of the entry at `address`.
    pub(crate) fn read(&mut self, address: u64) -> Result<Vec<u8>, Error> {
        let (rank, start) = self.locate(address);
        let target = self.lock.target(rank as u32)?;
        let mut len = [0];
        target.get_blocking(start, &mut len)?;
        let len = len[0] as usize;
        self.entry.resize(entry_len(len) - 1, 0);
        target.get_blocking(start + 1, &mut self.entry)?;
        Ok(bytemuck::cast_slice(&self.entry)[..len].to_vec())
    }

    /// The rank and the element of an address.
    fn locate(&self, address: u64) -> (u64, usize) {
        let part = self.shape.part as u64;
        (address / part, (address % part) as usize)
    }

    /// Takes an arena for an entry of `need` elements at least.
    fn reserve(&self, need: usize, word: usize) -> Result<Arena, Error> {
        let Shape { rank, ranks, part } = self.shape;
        let room = part - 1;
        for rank in (0..ranks).map(|step| (rank + step) % ranks) {
            let target = self.lock.target(rank)?;
            // Looks first, so that what does not fit leaves the rest to what does.
            let taken = target.fetch_and_op(Op::NoOp, 0, 0)? as usize;
            if taken.saturating_add(need) > room {
                continue;
            }
            let want = need.max(ARENA).min(room - taken);
            let taken = target.fetch_add(0, want as u64)? as usize;
            let end = taken.saturating_add(want).min(room);
            if taken.saturating_add(need) <= end {
                let (start, end) = (1 + taken, 1 + end);
                return Ok(Arena { rank, start, end });
            }
        }
        let heap = part * size_of::<u64>();
        Err(Error::HeapFull { ranks, heap, word })
    }
}

/// Elements of an entry for a word of this many bytes.
fn entry_len(word: usize) -> usize {
    1 + word.div_ceil(size_of::<u64>())
}
