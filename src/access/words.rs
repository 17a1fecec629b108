//! Work on words of mapped memory that single atomics update: one by one with atomics, or many at once under
//! the accumulate lock, with the processor's vector instructions.
//!
//! In windows without in-flight flags (see `bulk_mode`) it is always one by one.

use std::sync::atomic::{AtomicU64, Ordering};

use rdma_sys_shim::{Width, fence_all};

use super::bulk_mode::{InFlight, begin, begin_single, enter_bulk_mode, found_bulk_mode, is_off};
use super::narrow::update_words;
use super::work::Work;
use crate::datatype::BasicType;
use crate::error::{ErrorKind, PeerError, Result};
use crate::liveness::Awaited;
use crate::memory::displacement::Displacement;
use crate::memory::word::SharedWord;
use crate::window::target::{Route, Target};
use crate::window::{OnTarget, Window};

/// Fewer elements are updated faster one by one.
pub(super) const MANY: usize = 16;

/// Bulk mode costs as much as combining this many elements one by one, so it begins after as many.
const BULK_MODE_AFTER: usize = 4096;

/// Bulk mode ends after this many single atomics that took the lock because of it.
const SINGLES: u64 = 256;

/// What separates single atomics from work on many elements.
pub(super) enum Singles<'w> {
    /// Nothing: no such work is done in this window.
    Free,
    /// The in-flight flag, set.
    InFlight { _flag: InFlight<'w, AtomicU64> },
}

/// A mapped element; single atomics may update it while this lives.
pub(super) struct MappedWord<'w> {
    pub(super) at: *mut u8,
    pub(super) width: Width,
    pub(super) target: &'w Target,
    _singles: Singles<'w>,
}

impl Window {
    /// The integer at displacement `disp` of a target, for the fast path: if the target was entered, and the element is
    /// mapped, has four or eight bytes, and is updated by single atomics.
    #[inline(always)]
    pub(super) fn mapped_integer(
        &self,
        ty: BasicType,
        rank: u32,
        disp: u64,
    ) -> Option<MappedWord<'_>> {
        let target = self.open_target(rank)?;
        let width = target.widths().fast_word(ty)?;
        let at = target.reach(Displacement(disp), width.bytes() as u64);
        if at.is_null() || at.addr() & (width.bytes() - 1) != 0 {
            return None;
        }
        let _singles = self.begin_singles(target)?;
        Some(MappedWord {
            at,
            width,
            target,
            _singles,
        })
    }

    /// For single atomics on the mapped words of a target that was entered; `None` if they take the lock.
    #[inline(always)]
    pub(super) fn begin_singles<'w>(&'w self, target: &'w Target) -> Option<Singles<'w>> {
        let Some(flags) = self.flags.as_ref() else {
            return Some(Singles::Free);
        };
        let flag = flags.own()?;
        let bulk_mode = target.route()?.bulk_mode.atomic()?;
        let _flag = begin_single(flag, bulk_mode)?;
        Some(Singles::InFlight { _flag })
    }

    /// As [`Window::begin_singles`], for several targets; [`Singles::are_free_at`] has to be asked for each. `None` if
    /// this thread has no flag.
    #[inline(always)]
    pub(super) fn begin_list(&self) -> Option<Singles<'_>> {
        let Some(flags) = self.flags.as_ref() else {
            return Some(Singles::Free);
        };
        flags.enter();
        let _flag = begin(flags.own()?);
        Some(Singles::InFlight { _flag })
    }
}

impl Singles<'_> {
    /// Whether single atomics may change the mapped words of an entered target. If not, they take the lock.
    #[inline(always)]
    pub(super) fn are_free_at(&self, target: &Target) -> bool {
        match self {
            Self::Free => true,
            Self::InFlight { .. } => {
                let bulk_mode = target.route().and_then(|route| route.bulk_mode.atomic());
                bulk_mode.is_some_and(is_off)
            }
        }
    }
}

impl OnTarget<'_> {
    /// Carries out work on the words from `there` on.
    ///
    /// # Safety
    /// As for [`update_words`].
    pub(super) unsafe fn accumulate_words(
        self,
        there: *mut u8,
        width: Width,
        work: &Work,
    ) -> Result<()> {
        self.at_words(work.count, |alone| {
            // SAFETY: the caller's promise; alone, no other accumulate changes the words.
            unsafe {
                match alone {
                    true => work.combine_in_place(there),
                    false => update_words(there, width, work),
                }
            }
            if alone || work.overwrites() {
                self.target.set_dirty();
            }
        })
    }

    /// Calls `update` for work on `count` mapped words of the target. Its argument says whether no other accumulate
    /// touches them meanwhile; if false, each word takes an atomic.
    pub(super) fn at_words(self, count: usize, update: impl FnOnce(bool)) -> Result<()> {
        let window = self.window;
        let flags = window.flags.as_ref();
        let many = count >= MANY && flags.is_some();
        let pays = many && pays(self.route()?, count);
        if !pays && let Some(flags) = flags {
            flags.enter();
        }
        if !pays && let Some(_singles) = window.begin_singles(self.target) {
            update(false);
            return Ok(());
        }
        let route = self.route()?;
        self.with_accumulate_lock(&route.accumulate_lock, || {
            match route.bulk_mode.atomic() {
                // Work too small to pay comes here only without a flag, or because bulk mode is on.
                Some(bulk_mode) if pays || many && bulk_mode.look() != 0 => {
                    update(self.is_alone(bulk_mode)?);
                }
                Some(bulk_mode) => {
                    update(false);
                    found_bulk_mode(bulk_mode);
                }
                None => update(false),
            }
            Ok(())
        })
    }

    /// With the lock held: keeps single atomics out, if possible.
    fn is_alone(self, bulk_mode: &AtomicU64) -> Result<bool> {
        if !enter_bulk_mode(bulk_mode, SINGLES) {
            return Ok(true);
        }
        let alone = match fence_all() {
            true => self.await_in_flight().map(|()| true),
            false => Ok(false),
        };
        if !matches!(alone, Ok(true)) {
            bulk_mode.publish(0);
        }
        alone
    }

    /// Returns once the in-flight flag of each thread of each rank was seen clear; this thread has set none.
    #[cold]
    fn await_in_flight(self) -> Result<()> {
        let (team, operation) = (&self.window.team, self.aim.operation);
        for rank in 0..team.size() {
            let blame = |error| team.blame(operation, rank, error);
            let flags = match self.window.in_flight_flags_of(rank) {
                Ok(flags) => flags,
                // A rank that left the job does no more operations.
                Err(error) if matches!(error.kind(), ErrorKind::Peer(PeerError::Left { .. })) => {
                    continue;
                }
                Err(error) => return Err(blame(error)),
            };
            let check = || match team.group.in_world(rank) {
                Some(awaited) => self.window.check(operation, Awaited::Rank(awaited)),
                None => Ok(()),
            };
            for flag in flags {
                let unmarked = || Ok(flag.load().map_err(blame)? == 0);
                // In a loop of single atomics, the flag is clear only for moments.
                let patience = team.context.patience().among_rivals();
                patience.wait(unmarked, check)?;
            }
        }
        Ok(())
    }
}

/// Whether work on `count` elements should take the lock. Elements updated one by one count towards later calls.
fn pays(route: &Route, count: usize) -> bool {
    let bulk_mode = route.bulk_mode.atomic();
    if bulk_mode.is_none_or(|bulk_mode| bulk_mode.look() != 0) {
        return true;
    }
    let so_far = route.one_by_one.load(Ordering::Relaxed) + count;
    let pays = so_far >= BULK_MODE_AFTER;
    let left = if pays { 0 } else { so_far };
    route.one_by_one.store(left, Ordering::Relaxed);
    pays
}
