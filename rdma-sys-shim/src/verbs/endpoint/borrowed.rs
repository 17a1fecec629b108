//! Origin buffers that the device uses where they are, until the requests that name them are complete.

use std::sync::Arc;

use crate::verbs::memory::Lent;
use crate::verbs::objects::MemoryRegion;

/// What a connection's requests use in place. Numbers of requests are tickets.
#[derive(Default)]
pub(super) struct Borrowed {
    lent: Vec<Loan>,
    held: Vec<Held>,
}

/// An origin buffer that stays registered while requests use it.
struct Loan {
    base: *mut u8,
    len: usize,
    written: bool,
    lent: Lent,
    /// The newest request that uses all of it, and the newest that uses any of it: the highest
    /// number while such requests are being posted.
    whole: u64,
    newest: u64,
}

/// A region that peers see as well. Its owner may give it up while requests use it as an origin
/// buffer.
struct Held {
    region: Arc<MemoryRegion>,
    /// As a loan's.
    newest: u64,
}

impl Borrowed {
    /// The key of a loan that contains the buffer and is in use; `note_use` follows.
    pub(super) fn find(
        &mut self,
        base: *mut u8,
        len: usize,
        written: bool,
        completed: u64,
    ) -> Option<u32> {
        // A request that uses the whole of a loan and is not complete vouches for its memory.
        let loan = self.lent.iter_mut().find(|loan| {
            let at = base.addr().wrapping_sub(loan.base.addr());
            let inside = at <= loan.len && len <= loan.len - at;
            inside && loan.whole > completed && (loan.written || !written)
        })?;
        loan.newest = u64::MAX;
        Some(loan.lent.lkey())
    }

    /// Keeps a new loan, and gives its key; `note_use` follows.
    pub(super) fn lend(&mut self, lent: Lent, base: *mut u8, len: usize, written: bool) -> u32 {
        let lkey = lent.lkey();
        self.lent.push(Loan {
            base,
            len,
            written,
            lent,
            whole: 0,
            newest: u64::MAX,
        });
        lkey
    }

    /// Keeps a region, and gives its key; `note_use` follows.
    pub(super) fn hold(&mut self, region: &Arc<MemoryRegion>) -> u32 {
        let mut known = self.held.iter_mut();
        match known.find(|held| Arc::ptr_eq(&held.region, region)) {
            Some(held) => held.newest = u64::MAX,
            None => self.held.push(Held {
                region: region.clone(),
                newest: u64::MAX,
            }),
        }
        region.lkey()
    }

    /// Notes that request `newest` is the last of those that use the buffer with this key.
    pub(super) fn note_use(&mut self, lkey: u32, base: *mut u8, len: usize, newest: u64) {
        if let Some(held) = self.held.iter_mut().find(|held| held.region.lkey() == lkey) {
            held.newest = newest;
        } else if let Some(loan) = self.lent.iter_mut().find(|loan| loan.lent.lkey() == lkey) {
            loan.newest = newest;
            if loan.base == base && loan.len == len {
                loan.whole = newest;
            }
        }
    }

    /// Gives back what no request after `completed` uses.
    #[inline]
    pub(super) fn give_back(&mut self, completed: u64) {
        if !self.lent.is_empty() {
            self.lent.retain(|loan| loan.newest > completed);
        }
        if !self.held.is_empty() {
            self.held.retain(|held| held.newest > completed);
        }
    }

    /// Gives back everything: nothing is under way any more.
    pub(super) fn clear(&mut self) {
        self.lent.clear();
        self.held.clear();
    }
}
