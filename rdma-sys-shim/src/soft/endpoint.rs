//! A peer of the soft provider. The ways to its memory are the processor's own loads and stores for this process, threads of
//! the peer that wait, the kernel's cross-memory attach, or the peer's agent: `select` says which one a transfer takes.

mod assist;

use std::io;
use std::ptr;
use std::sync::Arc;

use assist::{Asked, AssistState};

use super::Options;
use super::iovec::copy_blocks;
use super::memory_file;
use super::packed::{Packed, cut};
use super::peer::PeerProcess;
use super::request::{self, Operation, Request, TAKEN_AWAY};
use super::segment::{SLOT_BYTES, Segment};
use super::select::{self, Path, Way};
use super::{agent, attached, table};
use crate::cross_memory::Stopped;
use crate::device::batch::{BatchError, StridedBlocks, TransferBatch};
use crate::device::combine::{Combination, CombinedElements, ElementRuns, GivenCombiner};
use crate::memory::{Buffer, Rows, copy};
use crate::{
    Access, Direction, Endpoint, Error, Fetch, Mapping, RemoteAddress, RemoteRegion, Result,
    Ticket, Update, Via, Width,
};

pub(crate) struct SoftEndpoint {
    pub(crate) peer: PeerProcess,
    segment: Arc<Segment>,
    path: Path,
    options: Options,
    /// Tells how elements lie, here as at the peer.
    combiner: GivenCombiner,
    assist: AssistState,
}

impl SoftEndpoint {
    pub(crate) fn to_self(peer: PeerProcess, segment: Arc<Segment>, options: Options) -> Self {
        Self {
            peer,
            combiner: segment.combiner.clone(),
            segment,
            path: Path::Direct,
            options,
            assist: AssistState::default(),
        }
    }

    pub(crate) fn to_peer(
        peer: PeerProcess,
        segment: Segment,
        options: Options,
        combiner: GivenCombiner,
    ) -> Result<Self> {
        let path = match peer.try_reach() {
            Ok(()) if options.cross_memory => Path::CrossMemory,
            Ok(()) => Path::Agent,
            Err(Stopped::Forbidden(error)) => {
                tracing::debug!(pid = peer.pid(), %error, "no cross-memory attach");
                Path::Agent
            }
            Err(Stopped::Failed(error)) => {
                return Err(Error::os("reading a peer's memory", error));
            }
            Err(Stopped::Gone | Stopped::Fault) => return Err(peer.gone()),
        };
        Ok(Self {
            peer,
            segment: Arc::new(segment),
            path,
            options,
            combiner,
            assist: AssistState::default(),
        })
    }

    /// Whether the peer's memory is accessed without its agent.
    pub(crate) fn attaches(&self) -> bool {
        self.path != Path::Agent
    }

    fn check(&self, at: RemoteAddress, len: u64, operation: Operation) -> Result<()> {
        table::allows(&self.segment, at.rkey, at.address, len, operation.need())
            .map_err(|reason| self.peer.refusal(operation.name(), at, len, reason))
    }

    /// Checks parts of memory, all at once if one contiguous region contains them. The error names the first refused
    /// block.
    fn check_parts(
        &self,
        operation: Operation,
        parts: impl Iterator<Item = StridedBlocks> + Clone,
    ) -> Result<()> {
        let Some(first) = parts.clone().next() else {
            return Ok(());
        };
        let rkey = first.at.rkey;
        let hull = parts.clone().try_fold((u64::MAX, 0), |(low, high), part| {
            let (from, to) = part.extent().filter(|_| part.at.rkey == rkey)?;
            Some((low.min(from), high.max(to)))
        });
        let is_allowed = |(low, high): (u64, u64)| {
            table::allows(&self.segment, rkey, low, high - low, operation.need()).is_ok()
        };
        if hull.is_some_and(is_allowed) {
            return Ok(());
        }
        let mut blocks = parts.flat_map(StridedBlocks::each);
        blocks.try_for_each(|(piece, at)| self.check(at, piece.len as u64, operation))
    }

    /// Moves lists of parts. `pieces`: as for [`way`](Self::way).
    ///
    /// # Safety
    /// The parts are readable (for a write) or writable (for a read).
    unsafe fn transfer_list(
        &self,
        direction: Direction,
        pieces: usize,
        parts: impl Iterator<Item = StridedBlocks> + Clone,
    ) -> Result<Ticket> {
        let operation = direction.into();
        self.check_parts(operation, parts.clone())?;
        let way = self.way(pieces);
        if way != Way::Assist {
            // SAFETY: the caller's promise.
            return unsafe { self.transfer_by(way, direction, parts) };
        }
        // SAFETY: the caller's promise.
        let left = unsafe { self.ask_assist(direction, parts)? };
        if left.is_empty() {
            return Ok(Ticket::DONE);
        }
        let left = left.into_iter();
        self.check_parts(operation, left.clone())?;
        // SAFETY: as above.
        unsafe { self.transfer_by(Way::Kernel, direction, left) }
    }

    /// Has a thread of the target move parts. Returns those that are left, which the caller checks again: the peer may
    /// have refused the request, if the memory was withdrawn after it was checked.
    ///
    /// # Safety
    /// The parts are readable (for a write) or writable (for a read).
    unsafe fn ask_assist(
        &self,
        direction: Direction,
        parts: impl Iterator<Item = StridedBlocks> + Clone,
    ) -> Result<Vec<StridedBlocks>> {
        let results = (direction == Direction::Read).then(|| parts.clone());
        let there = (&*self.segment, &self.peer);
        // SAFETY: the caller's promise.
        unsafe { (self.assist).ask(there, direction.into(), parts, results) }
    }

    /// Moves a run that takes several requests, on the path by the kernel. A thread of the target that sleeps is called,
    /// and takes the rest once it polls.
    ///
    /// # Safety
    /// The run is readable (for a write) or writable (for a read).
    unsafe fn transfer_long(&self, direction: Direction, run: StridedBlocks) -> Result<Ticket> {
        let check = || self.check(run.at, run.len as u64, direction.into());
        check()?;
        let mut buffer = Buffer::default();
        for part in run.shortened(select::ASKED_ANEW) {
            let mut left = vec![part];
            if self.way(part.len / select::OF_ASSIST.run) == Way::Assist {
                // SAFETY: the caller's promise.
                left = unsafe { self.ask_assist(direction, std::iter::once(part))? };
                if !left.is_empty() {
                    check()?;
                }
            }
            for part in left {
                // SAFETY: the caller's promise.
                unsafe {
                    attached::transfer_run_of(&self.peer, direction, part, run, &mut buffer)?
                };
            }
        }
        Ok(Ticket::DONE)
    }

    /// Moves checked parts by any way other than assist.
    ///
    /// # Safety
    /// The parts are readable (for a write) or writable (for a read).
    unsafe fn transfer_by(
        &self,
        way: Way,
        direction: Direction,
        parts: impl Iterator<Item = StridedBlocks> + Clone,
    ) -> Result<Ticket> {
        // SAFETY: the caller's promise. For `Way::Own`, our own table says that it is registered memory, which stays
        // mapped while registered.
        unsafe {
            match way {
                Way::Own => parts.for_each(|part| move_own(direction, part)),
                Way::Agent => self.transfer_by_agent(direction.into(), parts)?,
                Way::Kernel | Way::Assist => attached::transfer(&self.peer, direction, parts)?,
            }
        }
        Ok(Ticket::DONE)
    }

    /// The way of a transfer for which the kernel takes as long as for so many short ones.
    fn way(&self, parts: usize) -> Way {
        select::way(self.path, || {
            self.options.assist && self.assist.poll(&self.segment, parts)
        })
    }

    /// Lets the agent move the parts of a transfer, with short ones in lists.
    ///
    /// # Safety
    /// As for [`transfer_by`](Self::transfer_by).
    unsafe fn transfer_by_agent(
        &self,
        operation: Operation,
        parts: impl Iterator<Item = StridedBlocks> + Clone,
    ) -> Result<()> {
        let mut rest = cut(parts, select::OF_AGENT);
        loop {
            let list = match Packed::of(operation, rest.clone(), select::OF_AGENT) {
                Some(packed) if packed.is_list => Some(packed),
                _ => None,
            };
            let count = list.map_or(1, |list| list.count);
            let these = rest.clone().take(count);
            let is_done = match list {
                // SAFETY: the caller's promise.
                Some(list) => unsafe { self.ask_for_list(list, these.clone())? },
                None => false,
            };
            if !is_done {
                for (piece, at) in these.flat_map(StridedBlocks::each) {
                    let request = Request::of(operation, 0, at, 0, piece.len);
                    let (send, receive) = operation.buffers(piece.base);
                    // SAFETY: the caller's promise.
                    unsafe { self.ask(request, send, receive)? };
                }
            }
            if rest.nth(count - 1).is_none() {
                return Ok(());
            }
        }
    }

    /// Asks the agent to carry out a list. False if there is no agent: then nothing was done.
    ///
    /// # Safety
    /// The parts were packed in the list, and are readable (for a write) or writable (for a read).
    unsafe fn ask_for_list(
        &self,
        list: Packed,
        parts: impl Iterator<Item = StridedBlocks> + Clone,
    ) -> Result<bool> {
        // SAFETY: the slot is claimed; the caller's promise.
        let fill = |slot| unsafe { list.fill(&self.segment, slot, parts.clone()) };
        let take = |slot| {
            if list.request.operation == Operation::Gather {
                // SAFETY: the slot was filled with the list, and is answered; the caller's promise.
                unsafe { list.take(&self.segment, slot, parts.clone()) };
            }
        };
        let asked = list
            .request
            .ask_with(&self.segment, &self.peer, fill, take)?;
        Ok(asked.is_some())
    }

    /// # Safety
    /// As for [`Request::ask`].
    unsafe fn ask(&self, request: Request, send: *const u8, receive: *mut u8) -> Result<u64> {
        // SAFETY: the caller's promise.
        if let Some(old) = unsafe { request.ask(&self.segment, &self.peer, send, receive)? } {
            return Ok(old);
        }
        let forbidden = || {
            let error = io::Error::from_raw_os_error(libc::EPERM);
            attached::forbidden(request.operation, request.len, error)
        };
        let (mapping, there) = self.place(&request)?.ok_or_else(forbidden)?;
        let data = if send.is_null() {
            receive
        } else {
            send.cast_mut()
        };
        // SAFETY: `there` leads to `len` mapped bytes, and the table granted the right; the buffers
        // are the caller's promise, and `send` is only read by operations that send.
        let old = unsafe {
            let Request {
                operation,
                width,
                len,
                operands,
                ..
            } = request;
            agent::apply(operation, there, width as usize, len, operands, data)
        };
        drop(mapping);
        old.ok_or_else(|| request.refused(&self.peer, "the memory does not allow it"))
    }

    /// Maps the memory of a request if the target has no agent, since all its memory can be mapped.
    fn place(&self, request: &Request) -> Result<Option<(Mapping, *mut u8)>> {
        let rkey = request.rkey;
        let Some(found) = table::look_up(&self.segment, rkey) else {
            return Err(request.refused(&self.peer, "the memory is not registered any more"));
        };
        let region = RemoteRegion {
            address: found.address,
            len: found.len,
            rkey,
        };
        let Some(mapping) = self.map(&region)? else {
            return Ok(None);
        };
        let at = request.address.wrapping_sub(region.address);
        let inside = at <= mapping.len() && request.len as u64 <= mapping.len() - at;
        let there = mapping.base().wrapping_add(at as usize);
        Ok(inside.then_some((mapping, there)))
    }

    /// Asks a thread of the peer to carry out an accumulate that fits into a slot. False if none did, or another process
    /// has the lock.
    ///
    /// # Safety
    /// As for [`Endpoint::combine`].
    unsafe fn combine_part(
        &self,
        way: Way,
        (what, element): (Combination, ElementRuns),
        lock: RemoteAddress,
        at: RemoteAddress,
        elements: CombinedElements,
    ) -> Result<bool> {
        let request = Request {
            operands: [lock.address, lock.rkey],
            width: u32::from_ne_bytes(what.encode()),
            ..Request::of(Operation::Combine, 0, at, 0, element.span(elements.count))
        };
        let segment = &*self.segment;
        let (sent, fetched) = (
            elements.sent(what, element),
            elements.fetched(what, element),
        );
        let bytes = [what.sent(&element), what.fetched(&element)].map(|each| each * elements.count);
        let data = |slot| request::combined(segment, slot, bytes[0], bytes[1]);
        let fill = |slot| {
            let (mut to, _) = data(slot);
            for (from, len) in sent.clone() {
                // SAFETY: the caller's promise; the slot is claimed, and has room for what is sent and fetched.
                unsafe { copy(to, from, len) };
                to = to.wrapping_add(len);
            }
            request.sign(segment, slot);
        };
        let take = |slot| {
            let (_, mut from) = data(slot);
            for (to, len) in fetched {
                // SAFETY: the caller's promise; the slot is answered.
                unsafe { copy(to, from, len) };
                from = from.wrapping_add(len);
            }
        };
        match way {
            Way::Assist => {
                let there = (segment, &self.peer);
                match self.assist.ask_with(there, fill, take)? {
                    // Who does it again would combine some operands twice.
                    Asked::Faulted => Err(request.refused(&self.peer, TAKEN_AWAY)),
                    answer => Ok(answer == Asked::Done),
                }
            }
            _ => Ok(request.ask_with(segment, &self.peer, fill, take)?.is_some()),
        }
    }

    fn misaligned(&self, operation: Operation, at: RemoteAddress, width: Width) -> Error {
        let reason = "the word is not aligned to its size";
        self.peer
            .refusal(operation.name(), at, width.bytes() as u64, reason)
    }

    /// As [`Endpoint::map`], for a region that is known only by its address: the process allocated it for another
    /// device, which has its own key for it. `None` if it is not in such memory.
    pub(crate) fn map_by_place(&self, region: &RemoteRegion) -> Result<Option<Mapping>> {
        match table::find(&self.segment, region.address, region.len) {
            Some(rkey) => self.map(&RemoteRegion { rkey, ..*region }),
            None => Ok(None),
        }
    }
}

/// Copies blocks of memory of this process.
///
/// # Safety
/// The blocks are valid on both sides, and the destination is writable.
unsafe fn move_own(direction: Direction, part: StridedBlocks) {
    let there = part.at.address as usize as *mut u8;
    let stride_there = part.stride_there as isize;
    let (to, to_stride, from, from_stride) = match direction {
        Direction::Write => (there, stride_there, part.here, part.stride_here),
        Direction::Read => (part.here, part.stride_here, there, stride_there),
    };
    let rows = Rows {
        len: part.len,
        count: part.count,
        to_stride,
        from_stride,
    };
    // SAFETY: the caller's promise.
    unsafe { copy_blocks(to, from, rows) };
}

impl Endpoint for SoftEndpoint {
    unsafe fn transfer(
        &self,
        direction: Direction,
        local: *mut u8,
        len: usize,
        at: RemoteAddress,
    ) -> Result<Ticket> {
        let run = StridedBlocks::run(local, len, at);
        if len > select::OF_ASSIST.run && self.path == Path::CrossMemory {
            // SAFETY: the caller's promise.
            return unsafe { self.transfer_long(direction, run) };
        }
        let operation = Operation::from(direction);
        self.check(at, len as u64, operation)?;
        let mut way = self.way(1);
        if way == Way::Assist {
            let request = Request::of(operation, 0, at, 0, len);
            let (send, receive) = operation.buffers(local);
            let there = (&*self.segment, &self.peer);
            // SAFETY: the caller's promise.
            let is_done = unsafe { self.assist.ask_for_one(there, request, send, receive)? };
            if is_done {
                return Ok(Ticket::DONE);
            }
            // The peer may have refused the request: the memory checked above may have been withdrawn meanwhile.
            self.check(at, len as u64, operation)?;
            way = Way::Kernel;
        }
        // SAFETY: the caller's promise.
        let moved = unsafe { self.transfer_by(way, direction, std::iter::once(run)) };
        moved.map_err(|error| match error {
            // The agent moves it in parts, and the error names one.
            Error::RemoteAccess { need, reason, .. } => {
                self.peer.refusal(need, at, len as u64, reason)
            }
            other => other,
        })
    }

    unsafe fn transfer_batch(
        &self,
        direction: Direction,
        batch: &TransferBatch<'_>,
    ) -> std::result::Result<Ticket, BatchError> {
        let parts = batch.each();
        let parts = parts.map(|(piece, at)| StridedBlocks::run(piece.base, piece.len, at));
        // SAFETY: the caller's promise.
        unsafe { Ok(self.transfer_list(direction, batch.pieces.len(), parts)?) }
    }

    unsafe fn transfer_blocks(
        &self,
        direction: Direction,
        blocks: StridedBlocks,
    ) -> std::result::Result<Ticket, BatchError> {
        let blocks = match blocks.stride_there < 0 {
            true => blocks.reversed(),
            false => blocks,
        };
        // A thread may begin to poll for requests between two chunks.
        for some in blocks.chunks(StridedBlocks::OF_A_BATCH) {
            // SAFETY: the caller's promise.
            unsafe { self.transfer_list(direction, some.count, std::iter::once(some))? };
        }
        Ok(Ticket::DONE)
    }

    unsafe fn fetch(
        &self,
        at: RemoteAddress,
        width: Width,
        fetch: Fetch,
        old: *mut u64,
    ) -> Result<Ticket> {
        let (operation, operands) = match fetch {
            Fetch::Add(add) => (Operation::FetchAdd, [add, 0]),
            Fetch::CompareSwap { expect, new } => (Operation::CompareSwap, [expect, new]),
        };
        let bytes = width.bytes();
        self.check(at, bytes as u64, operation)?;
        if !at.address.is_multiple_of(bytes as u64) {
            return Err(self.misaligned(operation, at, width));
        }
        let found = if self.path == Path::Direct {
            let here = at.address as usize as *mut u8;
            let data = ptr::null_mut();
            // SAFETY: registered memory of this process, as our own table says; a single word uses no data.
            let done = unsafe { agent::apply(operation, here, bytes, bytes, operands, data) };
            done.ok_or_else(|| self.misaligned(operation, at, width))?
        } else {
            let request = Request {
                operands,
                ..Request::of(operation, bytes, at, 0, bytes)
            };
            // SAFETY: no buffers.
            unsafe { self.ask(request, ptr::null(), ptr::null_mut())? }
        };
        // SAFETY: `old` is the caller's promise.
        unsafe { old.write(found) };
        Ok(Ticket::DONE)
    }

    unsafe fn update_each(
        &self,
        at: RemoteAddress,
        width: Width,
        update: Update,
        values: *const u8,
        count: usize,
    ) -> Result<Ticket> {
        let operation = match update {
            Update::Add => Operation::AddEach,
            Update::Store => Operation::StoreEach,
        };
        let bytes = width.bytes();
        let len = count.saturating_mul(bytes);
        self.check(at, len as u64, operation)?;
        if !at.address.is_multiple_of(bytes as u64) {
            return Err(self.misaligned(operation, at, width));
        }
        if self.path == Path::Direct {
            let there = at.address as usize as *mut u8;
            // SAFETY: `values` is the caller's promise. Our own table says that the words lie in registered memory of
            // this process.
            let done =
                unsafe { agent::apply(operation, there, bytes, len, [0; 2], values.cast_mut()) };
            return match done {
                Some(_) => Ok(Ticket::DONE),
                None => Err(self.misaligned(operation, at, width)),
            };
        }
        for start in (0..len).step_by(SLOT_BYTES) {
            let part = SLOT_BYTES.min(len - start);
            let send = values.wrapping_add(start);
            let request = Request::of(operation, bytes, at, start, part);
            // SAFETY: a part of the values that the caller vouches for.
            unsafe { self.ask(request, send, ptr::null_mut())? };
        }
        Ok(Ticket::DONE)
    }

    unsafe fn combine(
        &self,
        what: Combination,
        lock: RemoteAddress,
        at: RemoteAddress,
        elements: CombinedElements,
    ) -> Result<(usize, Ticket)> {
        let (mut done, count) = (0, elements.count);
        let known = (self.combiner.get()).and_then(|combiner| combiner.element(what, at.address));
        let Some((element, needs_lock)) = known else {
            return Ok((done, Ticket::DONE));
        };
        let span = element.span(count);
        let way = match needs_lock {
            true => self.way(2),
            // The agent has all atomics.
            false if self.path != Path::Direct => Way::Agent,
            false => Way::Own,
        };
        if !matches!(way, Way::Agent | Way::Assist) {
            return Ok((done, Ticket::DONE));
        }
        // If it is not allowed, the caller's other way says why.
        if self.check(at, span as u64, Operation::Combine).is_err() {
            return Ok((done, Ticket::DONE));
        }
        let each = what.sent(&element) + what.fetched(&element);
        while done < count {
            let at = at.moved((done * element.extent) as i64);
            let some = match select::OF_AGENT.run / each {
                most if most < count - done => element.up_to_a_word(at.address, most),
                _ => count - done,
            };
            let part = elements.part(element, done, some);
            // SAFETY: the caller's promise, of a part.
            let is_done = unsafe { self.combine_part(way, (what, element), lock, at, part)? };
            if !is_done {
                break;
            }
            done += some;
        }
        Ok((done, Ticket::DONE))
    }

    fn store(&self, at: RemoteAddress, _old: u64, new: u64) -> Result<Ticket> {
        let value = new.to_ne_bytes();
        // SAFETY: a local that outlives the operation, which is complete on return.
        unsafe { self.update_each(at, Width::W8, Update::Store, value.as_ptr(), 1) }
    }

    fn completed(&self, _ticket: Ticket) -> Result<bool> {
        Ok(true)
    }

    fn intact(&self) -> Result<()> {
        Ok(())
    }

    fn has_atomics(&self, region: &RemoteRegion) -> bool {
        // If the region is gone, the operation reports it.
        table::look_up(&self.segment, region.rkey)
            .is_none_or(|found| found.len == 0 || found.access.allows(Access::ATOMIC))
    }

    fn map(&self, region: &RemoteRegion) -> Result<Option<Mapping>> {
        if !self.options.map || region.len == 0 {
            return Ok(None);
        }
        // A mapping serves loads and stores without checks, so it needs the rights to both.
        let needs = Access::READ.and(Access::WRITE);
        let granted = table::look_up(&self.segment, region.rkey).map(|found| found.access);
        if granted.is_some_and(|access| !access.allows(needs)) {
            return Ok(None);
        }
        if self.path == Path::Direct {
            self.check(region.at(0), region.len, Operation::Read)?;
            let base = region.address as usize as *mut u8;
            return Ok(Some(Mapping::new(base, region.len, ())));
        }
        let Some(piece) = table::piece(&self.segment, region.rkey) else {
            return Ok(None);
        };
        let unreachable = |reason| Error::Unreachable {
            device: super::DEVICE,
            pid: self.peer.pid(),
            reason,
        };
        let elsewhere = || unreachable(format!("its table says that {piece:?} holds {region:?}"));
        if let Some(base) = self
            .segment
            .in_sub_allocator(piece.fd, piece.offset, piece.len)
        {
            self.check(region.at(0), region.len, Operation::Read)?;
            let skip = piece.place_of(region).ok_or_else(elsewhere)?;
            let base = base.wrapping_add(skip);
            return Ok(Some(Mapping::new(base, region.len, self.segment.clone())));
        }
        let file = self
            .peer
            .open(piece.fd, self.segment.sibling(piece.inode))?;
        // A descriptor number that was closed and reused would name another file: the opened file is valid only if the
        // region is still the same.
        self.check(region.at(0), region.len, Operation::Read)?;
        let skip = piece.place_of(region).ok_or_else(elsewhere)?;
        memory_file::must_hold(&file, piece.offset, piece.len).map_err(unreachable)?;
        let mapped = memory_file::map(&file, piece.offset, piece.len as usize)?;
        memory_file::mark_foreign(&mapped);
        let base = mapped.as_mut_ptr().wrapping_add(skip);
        Ok(Some(Mapping::new(base, region.len, mapped)))
    }

    fn via(&self, atomics: bool) -> Via {
        match self.path {
            Path::Direct => Via::Mapped,
            Path::CrossMemory if !atomics => Via::Attached,
            _ => Via::Agent,
        }
    }

    fn liveness(&self) -> Result<()> {
        let (pid, host) = (self.peer.pid(), None);
        match self.segment.is_closed() {
            true => Err(Error::PeerClosed { pid, host }),
            false => self.peer.liveness(),
        }
    }

    fn known_liveness(&self) -> Result<()> {
        self.liveness()
    }
}
