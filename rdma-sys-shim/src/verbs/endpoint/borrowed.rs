//! Origin buffers that the device uses where they are, until the requests that name them are complete.

use std::sync::Arc;

use crate::verbs::objects::MemoryRegion;

/// The memory that a connection's requests use in place. Request numbers are tickets.
#[derive(Default)]
pub(super) struct Borrowed {
    loans: Vec<Loan>,
    /// Regions that no request uses any more, and nobody else.
    ended: Vec<Arc<MemoryRegion>>,
}

/// A region that requests use. Either it was registered for an origin buffer, or it is also visible to peers, and its
/// owner may release it meanwhile.
struct Loan {
    region: Arc<MemoryRegion>,
    /// The origin buffer; empty if the region was not registered for one.
    base: *mut u8,
    len: usize,
    written: bool,
    /// The newest request that uses all of the buffer, and the newest that uses any part of the region. While such
    /// requests are being posted, it is the highest number.
    whole: u64,
    newest: u64,
}

impl Borrowed {
    /// The key of a loan that is in use and contains the buffer; `note_use` follows.
    pub(super) fn find(
        &mut self,
        base: *mut u8,
        len: usize,
        written: bool,
        completed: u64,
    ) -> Option<u32> {
        // An incomplete request that uses the whole of a loan guarantees that its memory is mapped.
        let loan = self.loans.iter_mut().find(|loan| {
            let at = base.addr().wrapping_sub(loan.base.addr());
            let inside = at <= loan.len && len <= loan.len - at;
            inside && loan.whole > completed && (loan.written || !written)
        })?;
        loan.newest = u64::MAX;
        Some(loan.region.lkey())
    }

    /// Keeps a region that was registered for an origin buffer, and returns its key; `note_use` follows.
    pub(super) fn lend(
        &mut self,
        region: MemoryRegion,
        base: *mut u8,
        len: usize,
        written: bool,
    ) -> u32 {
        let lkey = region.lkey();
        self.loans.push(Loan {
            region: Arc::new(region),
            base,
            len,
            written,
            whole: 0,
            newest: u64::MAX,
        });
        lkey
    }

    /// Keeps a region, and returns its key; `note_use` follows.
    pub(super) fn hold(&mut self, region: &Arc<MemoryRegion>) -> u32 {
        let mut known = self.loans.iter_mut();
        match known.find(|loan| Arc::ptr_eq(&loan.region, region)) {
            Some(loan) => loan.newest = u64::MAX,
            None => self.loans.push(Loan {
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

    /// Notes that request `newest` is the last that uses the buffer with this key.
    pub(super) fn note_use(&mut self, lkey: u32, base: *mut u8, len: usize, newest: u64) {
        if let Some(loan) = (self.loans.iter_mut()).find(|loan| loan.region.lkey() == lkey) {
            loan.newest = newest;
            if len > 0 && (loan.base, loan.len) == (base, len) {
                loan.whole = newest;
            }
        }
    }

    /// Releases the loans that no request after `completed` uses.
    #[inline]
    pub(super) fn give_back(&mut self, completed: u64) {
        if !self.loans.is_empty() {
            let unused = self.loans.extract_if(.., |loan| loan.newest <= completed);
            let regions = unused.map(|loan| loan.region);
            (self.ended).extend(regions.filter(|region| Arc::strong_count(region) == 1));
        }
    }

    /// Releases all loans: nothing is under way any more.
    pub(super) fn clear(&mut self) {
        self.give_back(u64::MAX);
    }

    /// The regions that nobody uses any more. Dropping them deregisters them, which takes the system long.
    #[inline]
    pub(super) fn take_ended(&mut self) -> Vec<Arc<MemoryRegion>> {
        std::mem::take(&mut self.ended)
    }
}
