//! Prepared requests that share one doorbell.

use ibverbs_sys as ffi;

use super::request::{Elements, Request};

/// The longest data that travels in its request, if the device allows it. With 188 bytes, or twelve pieces of
/// memory, a request takes 384 bytes of mlx5's send queue, which is locked memory.
pub(super) const INLINE: u32 = 188;
/// The most requests for which one bell is rung.
pub(super) const CHAIN: usize = 16;
/// Single requests of a stream that share one bell: all except the last wait.
const SHARE: usize = 8;

pub(super) struct Unposted {
    works: Box<[ffi::ibv_send_wr; CHAIN]>,
    elements: Box<[ffi::ibv_sge; CHAIN]>,
    /// Copies of the waiting requests' inline data, since callers may change the original.
    carried: Box<[[u8; INLINE as usize]; SHARE - 1]>,
    len: usize,
}

impl Unposted {
    pub(super) fn new() -> Self {
        Self {
            works: Box::new([ffi::ibv_send_wr::default(); CHAIN]),
            elements: Box::new([ffi::ibv_sge::default(); CHAIN]),
            carried: Box::new([[0; INLINE as usize]; SHARE - 1]),
            len: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether one more request can wait here after the call that posts it returns.
    #[inline]
    pub(super) fn can_keep(&self, request: &Request) -> bool {
        let too_long = request.local.inline && request.local.len > INLINE;
        self.len + 1 < SHARE && request.elements == Elements::ONE && !too_long
    }

    /// Adds a request; there must be room for it.
    #[inline]
    pub(super) fn add(&mut self, request: &Request, ticket: u64, report: bool) {
        self.elements[self.len] = request.element();
        request.write_to(&mut self.works[self.len], ticket, report);
        self.len += 1;
    }

    /// Copies the inline data of the newest request, so that it can wait.
    ///
    /// # Safety
    /// The request names readable memory.
    #[inline]
    pub(super) unsafe fn carry(&mut self, request: &Request) {
        let (index, len) = (self.len - 1, request.local.len as usize);
        let room = &mut self.carried[index][..len];
        // SAFETY: `len` readable bytes by the caller's promise, and as many of our own, which the caller has no pointer
        // to.
        unsafe {
            request
                .local
                .base
                .copy_to_nonoverlapping(room.as_mut_ptr(), len)
        };
        self.elements[index].addr = room.as_ptr().expose_provenance() as u64;
    }

    /// Makes the newest request report its completion.
    pub(super) fn signal_newest(&mut self) {
        if let Some(newest) = self.len.checked_sub(1) {
            self.works[newest].send_flags |= ffi::ibv_send_flags::IBV_SEND_SIGNALED.0;
        }
    }

    /// Takes all requests, linked to one another. They are valid until another request is added.
    #[inline]
    pub(super) fn take(&mut self) -> *mut ffi::ibv_send_wr {
        let element = self.elements.as_mut_ptr();
        let first = self.works.as_mut_ptr();
        for index in 0..self.len {
            let next = first.wrapping_add(index + 1);
            // SAFETY: the first `len` requests of the array.
            let work = unsafe { &mut *first.wrapping_add(index) };
            if work.sg_list.is_null() {
                work.sg_list = element.wrapping_add(index);
            }
            work.next = match index + 1 == self.len {
                true => std::ptr::null_mut(),
                false => next,
            };
        }
        self.len = 0;
        first
    }

    /// Drops all requests.
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }
}
