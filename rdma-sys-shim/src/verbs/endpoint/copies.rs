//! The registered memory of a connection, through which its requests copy: little for the answers to atomics, which
//! stays, and much for data, which others may need, too.

use ibverbs_sys::ibv_access_flags as access;

use super::link::Line;
use super::request::Local;
use super::ring::{Ring, RingPiece};
use crate::Result;
use crate::verbs::memory::Pinned;
use crate::verbs::rings::{LARGE_RING, LargeRing};

/// Room for the results of atomics.
const SMALL_RING: u32 = 8 << 10;

/// Memory for copies. Each ring is made when it is first needed.
#[derive(Default)]
pub(super) struct Copies {
    /// The book of the large ring if there is one, otherwise of the small one.
    book: Option<Ring>,
    small: Option<Pinned>,
    large: Option<LargeRing>,
}

impl Copies {
    /// Takes `len` bytes, if there is room now.
    ///
    /// # Errors
    /// A ring has to be made, and its memory is refused.
    pub(super) fn take(&mut self, len: u32, line: &Line) -> Result<Option<(RingPiece, Local)>> {
        let large = len > SMALL_RING / 4;
        match &self.book {
            Some(_) if !large || self.large.is_some() => {}
            // The small ring is in use.
            Some(book) if !book.is_empty() => {}
            _ if large => self.take_large(line)?,
            _ => self.make_small(line)?,
        }
        let Some((book, memory)) = self.parts() else {
            return Ok(None);
        };
        let Some(piece) = book.take(len) else {
            return Ok(None);
        };
        let base = memory.base().wrapping_add(piece.at as usize);
        let local = Local::at(base, len as usize, memory.lkey());
        Ok(Some((piece, local)))
    }

    /// Also makes the small ring. Errors are expected here, but not in `leave`.
    #[cold]
    fn take_large(&mut self, line: &Line) -> Result<()> {
        if self.small.is_none() {
            self.make_small(line)?;
        }
        self.large = Some(line.rings.take(&line.domain)?);
        self.book = Some(Ring::new(LARGE_RING));
        Ok(())
    }

    #[cold]
    fn make_small(&mut self, line: &Line) -> Result<()> {
        let flags = access::IBV_ACCESS_LOCAL_WRITE;
        self.small = Some(Pinned::new(&line.domain, SMALL_RING as usize, flags)?);
        self.book = Some(Ring::new(SMALL_RING));
        Ok(())
    }

    fn parts(&mut self) -> Option<(&mut Ring, &Pinned)> {
        let memory = match &self.large {
            Some(large) => large.memory(),
            None => self.small.as_ref()?,
        };
        Some((self.book.as_mut()?, memory))
    }

    /// The address of a piece.
    pub(super) fn at(&mut self, piece: RingPiece) -> Option<*mut u8> {
        let (_, memory) = self.parts()?;
        Some(memory.base().wrapping_add(piece.at as usize))
    }

    /// Gives back the oldest piece.
    pub(super) fn give(&mut self, piece: RingPiece) {
        if let Some(book) = &mut self.book {
            book.give(piece);
        }
    }

    /// Whether other connections need the large ring, and nothing is under way in it.
    #[inline]
    pub(super) fn are_to_be_left(&self) -> bool {
        let wanted = self.large.as_ref().is_some_and(LargeRing::is_wanted);
        wanted && self.book.as_ref().is_some_and(Ring::is_empty)
    }

    /// Releases the large ring for others. Atomics, which release locks, then use the small ring, and need no new
    /// memory.
    #[cold]
    pub(super) fn leave(&mut self) {
        self.large = None;
        self.book = Some(Ring::new(SMALL_RING));
    }
}
