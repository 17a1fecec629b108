//! Lists of elements at arbitrary places: many operations in one call.
//!
//! All places are checked before anything is transferred. If all places are mapped, a loop then accesses them in the
//! caller's order. It repeats no check, because a target's mapping and unit do not change until the window is freed.
//! Otherwise the list is divided by target, and each target's part is posted together.

use rdma_sys_shim::memory::prefetch_for_write;
use rdma_sys_shim::{Direction, Width};

use super::PROC_NULL;
use super::accumulate_layouts::AT_A_TIME;
use super::bounds::{byte_len, null_buffer};
use super::elementwise::{self, Fetching};
use super::layout_work::{ElementBlock, LayoutWork};
use super::narrow::update_words;
use super::post::Poster;
use super::spot::{Spot, Use};
use super::work::Work;
use crate::datatype::{AtomicWidths, BasicType, Op, Piece, Span};
use crate::diagnostics::OperationKind;
use crate::error::Result;
use crate::memory::displacement::{Displacement, Offset};
use crate::terms::Aim;
use crate::window::target::Target;
use crate::window::{OnTarget, Window};

/// The number of elements ahead for which cache lines are prefetched during updates.
const AHEAD: usize = 24;

/// The number of elements that are divided by target at a time.
const DIVIDED: usize = 16 << 10;

/// Rank and displacement of each element.
type Places<'a> = &'a [(u32, usize)];

/// For one target: the displacements below which an element is mapped, and whether a loop accesses it there.
struct MappedPart {
    limit: u64,
    in_loop: bool,
}

impl Window {
    /// One-sided. Copies elements of `len` bytes, contiguous from `origin` on, to `places`, each a rank and a
    /// displacement (in that rank's units). As a [`Window::put`] of each, but all places are checked before anything is
    /// transferred. If a place occurs twice, it gets one of its elements. Complete at the next synchronisation of each
    /// target: fence, flush or unlock.
    ///
    /// Mapped memory is stored to in a loop, which takes a few nanoseconds for each element. Over a network, the
    /// elements for one target go together.
    ///
    /// # Errors
    /// As for [`Window::put`], with the index of the place in the list; nothing was transferred.
    ///
    /// # Safety
    /// As for [`Window::put`], for `places.len() * len` bytes at `origin`.
    pub unsafe fn put_indexed(
        &self,
        origin: *const u8,
        len: usize,
        places: &[(u32, usize)],
    ) -> Result<()> {
        let from = origin.cast_mut();
        // SAFETY: the caller's promise.
        unsafe { self.move_list("put_indexed", Direction::Write, from, len, places) }
    }

    /// One-sided. Copies elements of `len` bytes at `places` to `origin`, contiguously: as a [`Window::get`] of each.
    /// See [`Window::put_indexed`].
    ///
    /// # Errors
    /// As for [`Window::put_indexed`].
    ///
    /// # Safety
    /// As for [`Window::get`], for `places.len() * len` bytes at `origin`.
    pub unsafe fn get_indexed(
        &self,
        origin: *mut u8,
        len: usize,
        places: &[(u32, usize)],
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.move_list("get_indexed", Direction::Read, origin, len, places) }
    }

    /// One-sided. Combines elements of type `ty`, contiguous from `origin` on, into those at `places`: as a
    /// [`Window::accumulate`] of each, in their order. A place may occur several times. Elements that overlap without
    /// being identical may lose updates, as in MPI. See [`Window::put_indexed`].
    ///
    /// # Errors
    /// As for [`Window::put_indexed`]; an operation that is not defined for the type, or [`Op::NoOp`].
    ///
    /// # Safety
    /// As for [`Window::accumulate`], of as many elements as there are places.
    pub unsafe fn accumulate_indexed(
        &self,
        origin: *const u8,
        ty: BasicType,
        places: &[(u32, usize)],
        op: Op,
    ) -> Result<()> {
        const OPERATION: &str = "accumulate_indexed";
        Work::check_changes(OPERATION, op)?;
        let result = std::ptr::null_mut();
        let kind = OperationKind::Accumulate;
        let work = Work::of(kind, origin, result, places.len(), ty, op);
        // SAFETY: the caller's promise.
        unsafe { self.accumulate_list(OPERATION, &work, places) }
    }

    /// One-sided. As [`Window::accumulate_indexed`], and stores the previous values contiguously at `result`: as a
    /// [`Window::fetch_and_op`] of each. With [`Op::NoOp`], all are read atomically, and `origin` may be null.
    ///
    /// # Errors
    /// As for [`Window::accumulate_indexed`].
    ///
    /// # Safety
    /// As for [`Window::get_accumulate`], of as many elements as there are places.
    pub unsafe fn get_accumulate_indexed(
        &self,
        origin: *const u8,
        result: *mut u8,
        ty: BasicType,
        places: &[(u32, usize)],
        op: Op,
    ) -> Result<()> {
        let work = Work::of(OperationKind::Fetch, origin, result, places.len(), ty, op);
        // SAFETY: the caller's promise.
        unsafe { self.accumulate_list("get_accumulate_indexed", &work, places) }
    }

    /// # Safety
    /// As for [`Window::put_indexed`] or [`Window::get_indexed`]; a put only reads `origin`.
    unsafe fn move_list(
        &self,
        operation: &'static str,
        direction: Direction,
        origin: *mut u8,
        len: usize,
        places: Places<'_>,
    ) -> Result<()> {
        let whole = byte_len(operation, places.len(), len)?;
        let all_mapped = self.check_list(operation, places, len, Use::Moved(direction))?;
        let is_nobody = |&(rank, _): &(u32, usize)| rank == PROC_NULL;
        if len == 0 || places.iter().all(is_nobody) {
            return Ok(());
        }
        if origin.is_null() {
            return Err(null_buffer(operation, whole));
        }
        if !all_mapped {
            // SAFETY: the caller's promise.
            return self.each_target(operation, places, |on, list| unsafe {
                on.move_elements(direction, origin, len, list, places)
            });
        }
        // SAFETY: `origin` is the caller's promise. All places were found inside mappings, which stay until the window
        // is freed, as do their bases and units.
        unsafe {
            match len {
                8 => self.copy_mapped(direction, origin, 8, places),
                4 => self.copy_mapped(direction, origin, 4, places),
                _ => self.copy_mapped(direction, origin, len, places),
            }
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Window::move_list`], and all places were found in mapped memory.
    #[inline(always)]
    unsafe fn copy_mapped(
        &self,
        direction: Direction,
        origin: *mut u8,
        len: usize,
        places: Places<'_>,
    ) {
        for (index, (target, there)) in self.mapped(places) {
            // SAFETY: the caller's promise.
            unsafe { direction.copy(origin.wrapping_add(index * len), there, len) };
            if let Direction::Write = direction {
                target.set_dirty();
            }
        }
    }

    /// The addresses of a list's elements, all of which were found mapped, except those of `PROC_NULL`.
    #[inline(always)]
    fn mapped<'w>(
        &'w self,
        places: Places<'w>,
    ) -> impl Iterator<Item = (usize, (&'w Target, *mut u8))> {
        let found = |&(rank, disp): &(u32, usize)| {
            let target = self.targets.get(rank as usize)?;
            Some((target, target.mapped_at(Displacement(disp as u64))))
        };
        let each = places.iter().enumerate();
        each.filter_map(move |(index, place)| Some((index, found(place)?)))
    }

    /// Checks each place for an element of `len` bytes, and enters its target. Returns whether a loop accesses all of
    /// them.
    fn check_list(
        &self,
        operation: &'static str,
        places: Places<'_>,
        len: usize,
        usage: Use,
    ) -> Result<bool> {
        let parts = self.mapped_parts(places.len(), len, usage);
        let mut all_in_loop = true;
        for (index, &(rank, disp)) in places.iter().enumerate() {
            match parts.get(rank as usize) {
                Some(part) if (disp as u64) < part.limit => all_in_loop &= part.in_loop,
                _ if rank == PROC_NULL => {}
                _ => {
                    let aim = Aim::new(operation, rank);
                    let checked = self.check_place(aim, disp, len, usage);
                    all_in_loop &= checked.map_err(|error| error.at_place(index, rank, disp))?;
                }
            }
        }
        Ok(all_in_loop)
    }

    /// The mapped part of each entered target. Empty for a short list, whose places are checked one by one.
    fn mapped_parts(&self, places: usize, len: usize, usage: Use) -> Vec<MappedPart> {
        let part = |target: &Target| MappedPart {
            limit: match self.epochs.is_entered(target.epoch()) {
                true => target.mapped_count(len as u64),
                false => 0,
            },
            in_loop: usage.is_in_loop_anywhere(target),
        };
        match self.targets.len() <= places {
            true => self.targets.iter().map(part).collect(),
            false => Vec::new(),
        }
    }

    /// Checks a place, and enters its target. Returns whether a loop accesses an element there.
    #[inline(never)]
    fn check_place(&self, aim: Aim, disp: usize, len: usize, usage: Use) -> Result<bool> {
        let on = self.open_or_enter(aim)?;
        let (disp, len) = (Displacement(disp as u64), len as u64);
        let there = on.target.reach(disp, len);
        if !there.is_null() && usage.is_in_loop(on.target, there) {
            return Ok(true);
        }
        if len > 0
            && let Err(error) = on.place(disp, Span::of(len))
        {
            on.check_apart(disp, Some(&Piece::run(0, len)), usage.element(), error)?;
        }
        Ok(false)
    }

    /// Calls `act` for each target with the indices of its places, in the caller's order. After an error, no posted
    /// operation uses the buffers any more.
    fn each_target<'w>(
        &'w self,
        operation: &'static str,
        places: Places<'_>,
        act: impl Fn(OnTarget<'w>, &[usize]) -> Result<()>,
    ) -> Result<()> {
        let rank_of = |index: usize| places[index].0;
        let on = |list: &[usize]| self.on(Aim::new(operation, rank_of(list[0])));
        let mut order = Vec::with_capacity(places.len().min(DIVIDED));
        for first in (0..places.len()).step_by(DIVIDED) {
            let some = first..places.len().min(first + DIVIDED);
            order.clear();
            order.extend(some.filter(|&index| rank_of(index) != PROC_NULL));
            order.sort_by_key(|&index| rank_of(index));
            let mut lists = order.chunk_by(|&one, &next| rank_of(one) == rank_of(next));
            lists
                .try_for_each(|list| act(on(list), list))
                .inspect_err(|_| self.await_ends(operation))?;
        }
        Ok(())
    }

    /// As [`OnTarget::await_end`], for all operations posted to any target.
    #[cold]
    fn await_ends(&self, operation: &'static str) {
        for on in self.on_used(operation) {
            on.await_end(on.target.posted.last());
        }
    }

    /// # Safety
    /// As for [`Window::get_accumulate_indexed`]; `result` is not used if `work` has none.
    unsafe fn accumulate_list(
        &self,
        operation: &'static str,
        work: &Work,
        places: Places<'_>,
    ) -> Result<()> {
        let &Work { ty, op, .. } = work;
        let len = work.check(operation)?;
        let usage = Use::Accumulated {
            ty,
            kind: work.kind,
        };
        let all_words = self.check_list(operation, places, ty.true_extent(), usage)?;
        if places.iter().all(|&(rank, _)| rank == PROC_NULL) {
            return Ok(());
        }
        work.check_buffers(operation, len)?;
        // SAFETY: the buffers are the caller's promise. If all elements are words, they were found aligned inside
        // mappings, which stay until the window is freed, as do their bases and units.
        unsafe {
            if !all_words {
                return self.each_target(operation, places, |on, list| {
                    on.accumulate_elements(work, list, places)
                });
            }
            let extent = ty.extent();
            match (Fetching::of(op), ty.size(), work.result.is_null()) {
                (Some(Fetching::Add), 8, true) => {
                    self.update_mapped(operation, places, true, |index, at| {
                        let operand = Width::W8.load(work.operands.add(index * 8));
                        elementwise::fetch_op(at, Width::W8, Fetching::Add, operand);
                    })
                }
                (Some(Fetching::Add), 8, false) => {
                    self.update_mapped(operation, places, true, |index, at| {
                        let operand = Width::W8.load(work.operands.add(index * 8));
                        let old = elementwise::fetch_op(at, Width::W8, Fetching::Add, operand);
                        Width::W8.store(work.result.add(index * 8), old);
                    })
                }
                (Some(Fetching::Load), 8, false) => {
                    self.update_mapped(operation, places, false, |index, at| {
                        let old = elementwise::fetch_op(at, Width::W8, Fetching::Load, 0);
                        Width::W8.store(work.result.add(index * 8), old);
                    })
                }
                _ => {
                    let all = AtomicWidths::of_processor(0);
                    let width = all.word(ty, 0).unwrap_or(Width::W8);
                    self.update_mapped(operation, places, op != Op::NoOp, |index, at| {
                        update_words(at, width, &work.part(index * extent, 1));
                    })?;
                    // Stores are not fences, unlike other atomics.
                    if work.overwrites() {
                        self.mapped(places)
                            .for_each(|(_, (target, _))| target.set_dirty());
                    }
                    Ok(())
                }
            }
        }
    }

    /// Calls `update` for each mapped word of a list with its index and address. `writes`: it changes most of them.
    #[inline(always)]
    fn update_mapped(
        &self,
        operation: &'static str,
        places: Places<'_>,
        writes: bool,
        update: impl Fn(usize, *mut u8),
    ) -> Result<()> {
        // A locked instruction waits for its cache line, and later ones wait for it.
        let lines = self.mapped(if writes { places } else { &[] });
        let mut lines = lines.map(|(_, (_, at))| at);
        lines
            .by_ref()
            .take(AHEAD)
            .for_each(|at| prefetch_for_write(at));
        for (number, some) in places.chunks(AT_A_TIME).enumerate() {
            let first = number * AT_A_TIME;
            let mut next = 0;
            while next < some.len() {
                next += self.update_singles(&some[next..], &mut lines, |index, at| {
                    update(first + next + index, at);
                });
                // The rest begins with an element that takes the lock.
                if let Some((index, (target, at))) = self.mapped(&some[next..]).next() {
                    let index = next + index;
                    let on = self.on_known(Aim::new(operation, some[index].0), target);
                    on.at_words(1, |_| update(first + index, at))?;
                    next = index + 1;
                } else {
                    break;
                }
            }
        }
        Ok(())
    }

    /// As [`Window::update_mapped`], up to the first element that takes the lock; returns the number of finished
    /// places. With each element, prefetches the next of `lines`.
    #[inline(always)]
    fn update_singles(
        &self,
        places: Places<'_>,
        lines: &mut impl Iterator<Item = *mut u8>,
        update: impl Fn(usize, *mut u8),
    ) -> usize {
        let Some(singles) = self.begin_list() else {
            return 0;
        };
        for (index, (target, at)) in self.mapped(places) {
            if let Some(line) = lines.next() {
                prefetch_for_write(line);
            }
            if !singles.are_free_at(target) {
                return index;
            }
            update(index, at);
        }
        places.len()
    }
}

impl OnTarget<'_> {
    /// The offset in the target's memory of a place that was checked; in a dynamic window, its address.
    pub(super) fn offset(self, disp: Displacement) -> Offset {
        Offset(disp.0.wrapping_mul(self.target.unit()))
    }

    fn count_list(self, spot: &Spot<'_>, usage: Use, list: &[usize], bytes: usize) {
        for _ in list {
            self.count_at(spot, usage, bytes as u64);
        }
    }

    /// Moves the elements of a list whose indices are in `list`; all are at this target.
    ///
    /// # Safety
    /// As for [`Window::put_indexed`] or [`Window::get_indexed`]; a put only reads `origin`. The places were checked.
    unsafe fn move_elements(
        self,
        direction: Direction,
        origin: *mut u8,
        len: usize,
        list: &[usize],
        places: Places<'_>,
    ) -> Result<()> {
        let usage = Use::Moved(direction);
        let spot = self.spot_of_list(usage)?;
        self.count_list(&spot, usage, list, len);
        let elements = list.iter().map(|&index| {
            let disp = Displacement(places[index].1 as u64);
            (origin.wrapping_add(index * len), disp)
        });
        match &spot {
            Spot::Mapped(place) => {
                for (here, disp) in elements {
                    let there = place.there.wrapping_add(self.offset(disp).0 as usize);
                    // SAFETY: the caller's promise; all of the target's memory is mapped there.
                    unsafe { direction.copy(here, there, len) };
                }
                self.target.set_dirty();
            }
            Spot::Device(place) => {
                let (endpoint, patience) =
                    (&*place.route.endpoint, self.window.context().patience());
                let mut poster = Poster::new(endpoint, patience, direction, place.at.rkey);
                let post = || {
                    for (here, disp) in elements {
                        let address = place.at.address.wrapping_add(self.offset(disp).0);
                        // SAFETY: the caller's promise.
                        unsafe { poster.push(here, address, len)? };
                    }
                    // SAFETY: as above.
                    unsafe { poster.finish() }
                };
                self.note_posted(post().map_err(|error| self.failed(error))?);
            }
            Spot::Apart(_) => {
                for (here, disp) in elements {
                    // SAFETY: the caller's promise.
                    unsafe { (self.window).transfer(self.aim, direction, here, len, disp)? };
                }
            }
        }
        Ok(())
    }

    /// Does the work on the elements of a list whose indices are in `list`; all are at this target.
    ///
    /// # Safety
    /// As for [`Window::get_accumulate_indexed`]. The places were checked.
    unsafe fn accumulate_elements(
        self,
        work: &Work,
        list: &[usize],
        places: Places<'_>,
    ) -> Result<()> {
        let &Work { ty, kind, .. } = work;
        let (extent, usage) = (ty.extent(), Use::Accumulated { ty, kind });
        let spot = self.spot_of_list(usage)?;
        self.count_list(&spot, usage, list, ty.true_extent());
        let run = Piece::run(0, (work.count * extent) as u64);
        // SAFETY: the caller's promise.
        let parts = unsafe { LayoutWork::of(work, &run, &run) };
        let block = |&index: &usize| {
            let target = self.offset(Displacement(places[index].1 as u64)).0 as i64;
            ElementBlock::of(index * extent, target, extent)
        };
        let at_a_time = match spot {
            // Other ranks get the lock in between.
            Spot::Mapped(_) => AT_A_TIME,
            Spot::Device(_) | Spot::Apart(_) => list.len(),
        };
        list.chunks(at_a_time).try_for_each(|some| {
            let blocks = || some.iter().map(block);
            self.accumulate_blocks(&spot, &parts, blocks).map(drop)
        })
    }
}
