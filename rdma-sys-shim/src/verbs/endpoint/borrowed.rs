//! Origin buffers that the device uses where they are, until the requests that name them are complete.

use std::sync::Arc;

use crate::verbs::objects::MemoryRegion;

/// What a connection's requests use in place. Numbers of requests are tickets.
#[derive(Default)]
pub(super) struct Borrowed(Vec<Loan>);

/// A region that requests use. It was registered for an origin buffer, or else peers see it as well, and its owner may give
/// it up meanwhile.
struct Loan {
    region: Arc<MemoryRegion>,
    /// The origin buffer; empty if it was not registered for one.
    base: *mut u8,
    len: usize,
    written: bool,
    /// The newest request that uses all of the buffer, and the newest that uses any of the region: the highest number while
    /// such requests are being posted.
    whole: u64,
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
        let loan = self.0.iter_mut().find(|loan| {
            let at = base.addr().wrapping_sub(loan.base.addr());
            let inside = at <= loan.len && len <= loan.len - at;
            inside && loan.whole > completed && (loan.written || !written)
        })?;
        loan.newest = u64::MAX;
        Some(loan.region.lkey())
    }

    /// Keeps a region that was registered for an origin buffer, and gives its key; `note_use` follows.
    pub(super) fn lend(
        &mut self,
        region: MemoryRegion,
        base: *mut u8,
        len: usize,
        written: bool,
    ) -> u32 {
        let lkey = region.lkey();
        self.0.push(Loan {
            region: Arc::new(region),
            base,
            len,
            written,
            whole: 0,
            newest: u64::MAX,
        });
        lkey
    }

    /// Keeps a region, and gives its key; `note_use` follows.
    pub(super) fn hold(&mut self, region: &Arc<MemoryRegion>) -> u32 {
        let mut known = self.0.iter_mut();
        match known.find(|loan| Arc::ptr_eq(&loan.region, region)) {
            Some(loan) => loan.newest = u64::MAX,
            None => self.0.push(Loan {
                region: region.clone(),
                base: std::ptr::null_mut(),
                len: 0,
                written: false,
                whole: 0,
                newest: u64::MAX,
            }),
        }
        region.lkey()
    }

    /// Notes that request `newest` is the last of those that use the buffer with this key.
    pub(super) fn note_use(&mut self, lkey: u32, base: *mut u8, len: usize, newest: u64) {
        if let Some(loan) = self.0.iter_mut().find(|loan| loan.region.lkey() == lkey) {
            loan.newest = newest;
            if len > 0 && (loan.base, loan.len) == (base, len) {
                loan.whole = newest;
            }
        }
    }

    /// Gives back what no request after `completed` uses.
    #[inline]
    pub(super) fn give_back(&mut self, completed: u64) {
        if !self.0.is_empty() {
            self.0.retain(|loan| loan.newest > completed);
        }
    }

    /// Gives back everything: nothing is under way any more.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
