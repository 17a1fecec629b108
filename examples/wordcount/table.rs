//! A hash table of counts that all ranks share, and that each updates without the others' help.
//!
//! A slot is a *descriptor* of a word, and its count. A word of up to seven bytes is in the
//! descriptor itself. For a longer one, the descriptor has some bits of its hash and the address of
//! its bytes in the heap; they are written there, and complete, before a compare_and_swap from 0
//! puts the descriptor into the first free slot in the word's order of places. Slots are never
//! freed, so all ranks try the same slots in the same order, and only the first of those that
//! bring the same word finds one free: the others meet its descriptor there, compare, and count
//! on it.

use std::ops::Range;

use transom::{Communicator, LockAll, LockedTarget, Window};

use crate::error::Error;
use crate::hash::{of_word, reduce};
use crate::heap::{ADDRESS_BITS, Heap, Shape};
use crate::layout::{BUCKET_LEN, Layout, Level, SLOT};

/// Elements of the table that are read at a time: whole buckets.
const BLOCK: usize = 512 * BUCKET_LEN;

pub(crate) struct Table<'c> {
    slots: Window<'c, u64>,
    heap: Window<'c, u64>,
    layout: Layout,
    shape: Shape,
}

impl<'c> Table<'c> {
    /// Collective. A table of `slots` slots, and `heap` bytes for long words, on each rank.
    pub(crate) fn new(comm: &'c Communicator, slots: usize, heap: usize) -> Result<Self, Error> {
        let layout = Layout::new(slots);
        let shape = Shape {
            rank: comm.rank(),
            ranks: comm.size(),
            part: heap.div_ceil(size_of::<u64>()).max(1),
        };
        let addresses = (shape.part as u128) * u128::from(shape.ranks);
        if addresses > 1 << ADDRESS_BITS {
            let most = (8 << ADDRESS_BITS) / u64::from(shape.ranks);
            return Err(Error::HeapTooLarge { heap, most });
        }
        Ok(Self {
            slots: Window::allocate(comm, layout.len())?,
            heap: Window::allocate(comm, shape.part)?,
            layout,
            shape,
        })
    }

    /// Collective at both ends. In `body`, each rank adds what it likes, when it likes.
    pub(crate) fn access<R>(
        &mut self,
        body: impl FnOnce(&mut Access<'_, '_, '_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let Self { slots, heap, .. } = self;
        let (layout, shape) = (&self.layout, self.shape);
        slots.passive(|slots| {
            heap.passive(|heap| {
                let (slots, heap) = (slots.lock_all()?, heap.lock_all()?);
                let result = body(&mut Access {
                    slots: &slots,
                    heap: Heap::new(&heap, shape),
                    layout,
                    shape,
                });
                slots.unlock()?;
                heap.unlock()?;
                result
            })?
        })?
    }

    /// Collective. The words and counts in this rank's part.
    pub(crate) fn part(&mut self) -> Result<Vec<(Vec<u8>, u64)>, Error> {
        let rank = self.shape.rank;
        self.access(|access| access.part_of(rank))
    }

    /// Collective.
    pub(crate) fn free(self) -> Result<(), Error> {
        self.slots.free()?;
        Ok(self.heap.free()?)
    }
}

/// Access to the table in an epoch.
pub(crate) struct Access<'lock, 's, 'h> {
    slots: &'lock LockAll<'s, u64>,
    heap: Heap<'lock, 'h>,
    layout: &'lock Layout,
    shape: Shape,
}

type Home<'lock, 's> = LockedTarget<'lock, 's, u64>;

impl<'lock, 's> Access<'lock, 's, '_> {
    /// One-sided. Counts `word` another `times` times.
    pub(crate) fn add(&mut self, word: &[u8], times: u64) -> Result<(), Error> {
        let word = Word::new(word);
        let home = reduce(word.hash, u64::from(self.shape.ranks)) as u32;
        let home = self.slots.target(home)?;
        let slot = match self.find(&home, &word)? {
            Some(slot) => slot,
            None => self.claim(&home, &word)?,
        };
        home.fetch_add(slot + 1, times)?;
        Ok(())
    }

    /// Looks for the word with one get for each bucket.
    ///
    /// A get that meets a compare_and_swap may see half of a descriptor (MPI-4.1, section 12.7). It
    /// matches no word then: no word has a byte 0, and half an address leads to other bytes. So a
    /// word may be missed here, but not taken for another.
    fn find(&mut self, home: &Home<'lock, 's>, word: &Word<'_>) -> Result<Option<usize>, Error> {
        for start in self.layout.probes(word.hash) {
            let mut bucket = [0; BUCKET_LEN];
            home.get_blocking(start, &mut bucket)?;
            for (at, slot) in (start..).step_by(SLOT).zip(bucket.chunks_exact(SLOT)) {
                if slot[0] == 0 {
                    return Ok(None);
                }
                if word.is(slot[0], &mut self.heap)? {
                    return Ok(Some(at));
                }
            }
        }
        Ok(None)
    }

    /// Puts the word into the first free slot, unless another rank is found to have done so. Here
    /// every slot is looked at by an atomic, so no half of a descriptor is seen.
    fn claim(&mut self, home: &Home<'lock, 's>, word: &Word<'_>) -> Result<usize, Error> {
        let descriptor = word.describe(&mut self.heap)?;
        for start in self.layout.probes(word.hash) {
            for at in (start..start + BUCKET_LEN).step_by(SLOT) {
                let found = home.compare_swap(at, 0, descriptor)?;
                if found == 0 {
                    word.keep(&mut self.heap);
                    return Ok(at);
                }
                if word.is(found, &mut self.heap)? {
                    return Ok(at);
                }
            }
        }
        Err(Error::TableFull {
            rank: home.rank(),
            slots: self.layout.slots(),
        })
    }

    /// One-sided. The words and counts in the part of `rank`, when nobody changes it.
    fn part_of(&mut self, rank: u32) -> Result<Vec<(Vec<u8>, u64)>, Error> {
        let home = self.slots.target(rank)?;
        let mut words = Vec::new();
        let mut block = vec![0; BLOCK];
        for level in self.layout.levels() {
            // A word comes to the next level only if its bucket in this one is full.
            let mut full = false;
            for places in blocks(level) {
                let block = &mut block[..places.len()];
                home.get_blocking(places.start, block)?;
                for bucket in block.chunks_exact(BUCKET_LEN) {
                    full |= bucket[BUCKET_LEN - SLOT] != 0;
                    for slot in bucket.chunks_exact(SLOT).take_while(|slot| slot[0] != 0) {
                        words.push((read(slot[0], &mut self.heap)?, slot[1]));
                    }
                }
            }
            if !full {
                break;
            }
        }
        Ok(words)
    }
}

/// The elements of a level, some at a time.
fn blocks(level: &Level) -> impl Iterator<Item = Range<usize>> + use<> {
    let start = level.first * BUCKET_LEN;
    let end = start + level.buckets * BUCKET_LEN;
    let starts = (start..end).step_by(BLOCK);
    starts.map(move |start| start..end.min(start + BLOCK))
}

/// The longest word that is its own descriptor.
const SHORT: usize = 7;
/// The lowest byte of a long word's descriptor; of a short one's, it is the length.
const LONG: u8 = 0xff;
/// Above it, and above 16 bits of the hash, comes the address.
const ADDRESS_AT: u32 = u64::BITS - ADDRESS_BITS;

/// A word to be looked up.
struct Word<'w> {
    bytes: &'w [u8],
    hash: u64,
    /// The descriptor; of a long word, without the address.
    tag: u64,
}

impl<'w> Word<'w> {
    fn new(bytes: &'w [u8]) -> Self {
        let hash = of_word(bytes);
        let tag = if bytes.len() <= SHORT {
            let mut tag = [0; 8];
            tag[0] = bytes.len() as u8;
            tag[1..=bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(tag)
        } else {
            u64::from(hash as u16) << 8 | u64::from(LONG)
        };
        Self { bytes, hash, tag }
    }

    fn is_short(&self) -> bool {
        self.bytes.len() <= SHORT
    }

    /// True if `descriptor` is of this word.
    fn is(&self, descriptor: u64, heap: &mut Heap<'_, '_>) -> Result<bool, Error> {
        if self.is_short() {
            return Ok(descriptor == self.tag);
        }
        let same_tag = descriptor & ((1 << ADDRESS_AT) - 1) == self.tag;
        Ok(same_tag && heap.holds(descriptor >> ADDRESS_AT, self.bytes)?)
    }

    /// Makes a descriptor.
    fn describe(&self, heap: &mut Heap<'_, '_>) -> Result<u64, Error> {
        if self.is_short() {
            return Ok(self.tag);
        }
        Ok(heap.write(self.bytes)? << ADDRESS_AT | self.tag)
    }

    /// The descriptor made last is in the table now.
    fn keep(&self, heap: &mut Heap<'_, '_>) {
        if !self.is_short() {
            heap.keep(self.bytes);
        }
    }
}

/// The word that a descriptor stands for.
fn read(descriptor: u64, heap: &mut Heap<'_, '_>) -> Result<Vec<u8>, Error> {
    let [len, bytes @ ..] = descriptor.to_le_bytes();
    match len {
        LONG => heap.read(descriptor >> ADDRESS_AT),
        len => Ok(bytes[..usize::from(len)].to_vec()),
    }
}
