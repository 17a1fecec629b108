//! What a window knows of one of its ranks.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use bytemuck::Zeroable;
use rdma_sys_shim::{Endpoint, Mapping, RemoteRegion};

use super::dynamic::RegionCache;
use super::entry::Entry;
use super::epochs::TargetEpoch;
use super::unflushed::{LastPosted, Stored};
use crate::datatype::{AtomicWidths, Span};
use crate::liveness::Checks;
use crate::memory::displacement::Displacement;
use crate::memory::reach::Reach;
use crate::memory::remote::RemoteWord;

/// One rank of a window: all data that put and get need, in one cache line. All zero is the state
/// "never used", so the table of a large window costs nothing for ranks that are never used.
#[derive(Zeroable)]
#[repr(C)]
pub(crate) struct Target {
    epoch: TargetEpoch,
    /// The address at which the target's memory is mapped.
    base: AtomicPtr<u8>,
    /// The number of mapped bytes.
    span: AtomicU64,
    /// Set once; owned by the window.
    route: AtomicPtr<Route>,
    pub(crate) posted: LastPosted<AtomicU64>,
    unit: AtomicU64,
    pub(crate) stored: Stored<AtomicU8>,
    /// 1 while a thread enters this target.
    entering: AtomicU8,
    /// The [`AtomicWidths`] of the target's memory, once its route is known.
    widths: AtomicU8,
    /// See [`Checks`] for both.
    calls_to_check: AtomicU8,
    checked_at: AtomicU32,
}

const _: () = assert!(size_of::<Target>() == 64, "indexing by a shift");

/// The route to a target, which is found once and kept until the window is freed.
pub(crate) struct Route {
    pub(crate) endpoint: Arc<dyn Endpoint>,
    /// The target's description of its part.
    pub(super) entry: Entry,
    pub(crate) region: RemoteRegion,
    pub(crate) size: u64,
    pub(crate) lock: RemoteWord,
    pub(crate) accumulate_lock: RemoteWord,
    /// Whether bulk mode is on at the target.
    pub(crate) bulk_mode: RemoteWord,
    /// The number of elements that this rank has combined one by one since bulk mode was off.
    pub(crate) one_by_one: AtomicUsize,
    pub(crate) mapping: Option<Mapping>,
    /// The part of the target's memory that is mapped, even if [`Target`] does not show it.
    pub(crate) mapped: Reach,
    /// The known regions of the target, in a dynamic window.
    pub(crate) attached: Option<RegionCache>,
}

impl Target {
    /// Whether the target may be accessed, and how it is locked.
    #[inline]
    pub(crate) fn epoch(&self) -> &TargetEpoch {
        &self.epoch
    }

    /// The address at which `len` bytes at a displacement are mapped, or null; then the slow path
    /// finds the reason.
    #[inline]
    pub(crate) fn reach(&self, disp: Displacement, len: u64) -> *mut u8 {
        match disp.in_mapped_bytes(self.unit()) {
            Some(offset) => self.mapped().at(offset, len),
            None => ptr::null_mut(),
        }
    }

    /// The number of displacements, from 0 on, at which `len` bytes are mapped.
    pub(crate) fn mapped_count(&self, len: u64) -> u64 {
        let Reach { base, len: mapped } = self.mapped();
        match mapped.checked_sub(len) {
            Some(last) if !base.is_null() => {
                last.checked_div(self.unit()).map_or(0, |last| last + 1)
            }
            _ => 0,
        }
    }

    /// The address of a displacement for which [`Target::reach`] found a mapping.
    #[inline(always)]
    pub(crate) fn mapped_at(&self, disp: Displacement) -> *mut u8 {
        let offset = disp.0.wrapping_mul(self.unit());
        self.mapped().base.wrapping_add(offset as usize)
    }

    /// The address of a displacement, if all of `span` around it is mapped.
    #[inline]
    pub(crate) fn reach_span(&self, disp: Displacement, span: Span) -> Option<*mut u8> {
        let offset = disp.in_bytes(self.unit())?;
        self.mapped().around(offset, span.lo, span.bytes())
    }

    /// The mapped part of the target's memory, once its route is known.
    #[inline]
    fn mapped(&self) -> Reach {
        Reach {
            base: self.base.load(Ordering::Relaxed),
            len: self.span.load(Ordering::Relaxed),
        }
    }

    /// The elements that single atomics update; none before the route is known.
    #[inline]
    pub(crate) fn widths(&self) -> AtomicWidths {
        AtomicWidths::from_bits(self.widths.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn unit(&self) -> u64 {
        self.unit.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn route(&self) -> Option<&Route> {
        // SAFETY: null, or set by `set_route` from a box that is freed with the window.
        unsafe { self.route.load(Ordering::Acquire).as_ref() }
    }

    /// Publishes the route to this target. The window takes it back with `take_route`. `reach`
    /// stays mapped as long as the route is kept.
    pub(crate) fn set_route(&self, route: Route, reach: Reach, widths: AtomicWidths) -> &Route {
        self.base.store(reach.base, Ordering::Relaxed);
        self.span.store(reach.len, Ordering::Relaxed);
        self.unit.store(route.entry.unit, Ordering::Relaxed);
        self.widths.store(widths.bits(), Ordering::Relaxed);
        let route = Box::into_raw(Box::new(route));
        self.route.store(route, Ordering::Release);
        // SAFETY: just made from a box.
        unsafe { &*route }
    }

    /// Whether the target is known to have this notification counter.
    #[inline]
    pub(crate) fn has_counter(&self, counter: u32) -> bool {
        (self.route()).is_some_and(|route| u64::from(counter) < route.entry.counters)
    }

    pub(crate) fn take_route(&mut self) -> Option<Box<Route>> {
        let route = std::mem::replace(self.route.get_mut(), ptr::null_mut());
        // SAFETY: `set_route` made it from a box; with `&mut self` nobody else refers to it.
        (!route.is_null()).then(|| unsafe { Box::from_raw(route) })
    }

    /// Records that data was stored, perhaps by another process on this rank's behalf.
    #[inline]
    pub(crate) fn set_dirty(&self) {
        self.stored.note();
    }

    #[inline(always)]
    pub(crate) fn checks(&self) -> Checks<'_> {
        Checks {
            count: &self.calls_to_check,
            at: &self.checked_at,
        }
    }

    /// For one thread at a time.
    pub(super) fn begin_entering(&self) -> Option<Entering<'_>> {
        let order = Ordering::Acquire;
        let begun = (self.entering).compare_exchange(0, 1, order, Ordering::Relaxed);
        begun.ok().map(|_| Entering(self))
    }
}

/// Held by the thread that works on the state of a target. If it panics, the others are not kept
/// out.
pub(super) struct Entering<'a>(&'a Target);

impl Drop for Entering<'_> {
    fn drop(&mut self) {
        self.0.entering.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_thread_that_panics_in_a_target_keeps_nobody_out() {
        let target = Target::zeroed();
        let inside = target.begin_entering().unwrap();
        assert!(target.begin_entering().is_none());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _inside = inside;
            panic!("on purpose");
        }));
        assert!(panicked.is_err() && target.begin_entering().is_some());
    }
}
