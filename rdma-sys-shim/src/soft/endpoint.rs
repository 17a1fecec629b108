//! A peer of the soft provider, and the ways to its memory: the processor's own loads and stores
//! for this process, the kernel's cross-memory attach, or the peer's agent.

mod assist;
mod batch;

use std::io;
use std::ops::Range;
use std::sync::Arc;

use assist::Experience;

use super::Options;
use super::agent;
use super::memory_file::{self, AddressRange};
use super::peer::PeerProcess;
use super::request::{self, Operation, Request};
use super::segment::{SLOT_BYTES, Segment};
use super::table;
use crate::cross_memory::{Course, Direction, Stopped};
use crate::device::batch::{Batch, BatchError, Blocks};
use crate::memory::{Buffer, copy};
use crate::{
    Access, Endpoint, Error, Liveness, Mapping, Number, RemoteAddress, RemoteRegion, Result,
    Ticket, Update, Via, WaitingThreads, Width,
};

/// What helps where only the origin finds that the kernel forbids it.
const FORBIDDEN: &str = "the kernel forbids cross-memory attach, which the target does not expect; start all ranks with \
                         TRANSOM_DEVICE=soft:cma=off";

fn cross_memory_call(operation: Operation, len: usize) -> String {
    format!("cross-memory {} of {len} bytes", operation.name())
}

/// How transfers reach the peer's memory where it is not mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    /// It is our own.
    Direct,
    CrossMemory,
    Agent,
}

pub(crate) struct SoftEndpoint {
    pub(super) peer: PeerProcess,
    segment: Arc<Segment>,
    path: Path,
    options: Options,
    experience: Experience,
}

impl SoftEndpoint {
    pub(crate) fn to_self(peer: PeerProcess, segment: Arc<Segment>, options: Options) -> Self {
        Self {
            peer,
            segment,
            path: Path::Direct,
            options,
            experience: Experience::default(),
        }
    }

    pub(crate) fn to_peer(peer: PeerProcess, segment: Segment, options: Options) -> Result<Self> {
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
            experience: Experience::default(),
        })
    }

    /// Whether the peer's memory is reached without its agent.
    pub(crate) fn attaches(&self) -> bool {
        self.path != Path::Agent
    }

    fn check(&self, at: RemoteAddress, len: u64, operation: Operation) -> Result<()> {
        table::check(
            &self.segment,
            self.peer.pid(),
            at.rkey,
            at.address,
            len,
            operation.need(),
            operation.name(),
        )
    }

    /// # Safety
    /// `local` is readable (for a write) or writable (for a read) for `len` bytes.
    unsafe fn transfer(
        &self,
        operation: Operation,
        local: *mut u8,
        len: usize,
        at: RemoteAddress,
    ) -> Result<Ticket> {
        let direction = match operation {
            Operation::Write => Direction::Write,
            _ => Direction::Read,
        };
        self.check(at, len as u64, operation)?;
        if len == 0 {
            return Ok(Ticket::DONE);
        }
        match self.path {
            Path::Direct => {
                let here = at.address as usize as *mut u8;
                let (to, from) = match direction {
                    Direction::Write => (here, local),
                    Direction::Read => (local, here),
                };
                // SAFETY: our own table says that `here` is registered memory of this process,
                // which stays mapped while it is registered; `local` is the caller's promise.
                unsafe { copy(to, from, len) };
            }
            Path::CrossMemory => {
                let by_kernel = |bytes: Range<usize>| {
                    let (here, at) = (
                        local.wrapping_add(bytes.start),
                        at.moved(bytes.start as i64),
                    );
                    // The peer may have refused it: what was allowed above may have gone meanwhile.
                    self.check(at, bytes.len() as u64, operation)?;
                    // SAFETY: a part of what the caller promises.
                    unsafe { self.attach(direction, here, at.address, bytes.len()) }
                        .map_err(|stopped| self.stopped(stopped, operation, at, bytes.len()))
                };
                // SAFETY: `local` is the caller's promise.
                unsafe { self.transfer_by_assist(operation, local, len, at, by_kernel)? };
            }
            Path::Agent => {
                for start in (0..len).step_by(SLOT_BYTES) {
                    let part = SLOT_BYTES.min(len - start);
                    let there = local.wrapping_add(start);
                    let (send, receive) = match direction {
                        Direction::Write => (there.cast_const(), std::ptr::null_mut()),
                        Direction::Read => (std::ptr::null(), there),
                    };
                    // SAFETY: a part of the range that the caller vouches for.
                    unsafe { self.ask(Request::of(operation, 0, at, start, part), send, receive)? };
                }
            }
        }
        Ok(Ticket::DONE)
    }

    /// Has the kernel copy. Each of its calls finds the peer anew.
    ///
    /// # Safety
    /// As for [`Course::transfer_part`].
    unsafe fn attach(
        &self,
        direction: Direction,
        local: *mut u8,
        remote: u64,
        len: usize,
    ) -> std::result::Result<(), Stopped> {
        let course = Course::of(direction, local, remote, len);
        let mut buffer = Buffer::default();
        for start in (0..len).step_by(course.at_a_time) {
            let part = (
                local.wrapping_add(start),
                remote.wrapping_add(start as u64),
                course.at_a_time.min(len - start),
            );
            self.peer.reach(|number| {
                // SAFETY: a part of what the caller promises; whoever repeats it has ended it before.
                unsafe { course.transfer_part(number, direction, part, len, &mut buffer) }
            })?;
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Request::ask`].
    unsafe fn ask(&self, request: Request, send: *const u8, receive: *mut u8) -> Result<u64> {
        // SAFETY: the caller's promise.
        if let Some(old) = unsafe { request.ask(&self.segment, &self.peer, send, receive)? } {
            return Ok(old);
        }
        let forbidden = || {
            let call = cross_memory_call(request.operation, request.len);
            Error::os(call, io::Error::from_raw_os_error(libc::EPERM)).with_remedy(FORBIDDEN)
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

    /// Maps the memory of a request whose target has no agent, since all it has can be mapped.
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

    fn stopped(
        &self,
        stopped: Stopped,
        operation: Operation,
        at: RemoteAddress,
        len: usize,
    ) -> Error {
        let call = cross_memory_call(operation, len);
        match stopped {
            Stopped::Gone => self.peer.gone(),
            Stopped::Fault => Error::RemoteAccess {
                need: operation.name(),
                address: at.address,
                len: len as u64,
                pid: self.peer.pid(),
                host: None,
                rkey: at.rkey,
                reason: request::TAKEN_AWAY,
            },
            Stopped::Forbidden(error) => Error::os(call, error).with_remedy(FORBIDDEN),
            Stopped::Failed(error) => Error::os(call, error),
        }
    }

    /// A fetch-and-add or a compare-and-swap of one word.
    ///
    /// # Safety
    /// `old` is writable.
    unsafe fn atomic(
        &self,
        operation: Operation,
        at: RemoteAddress,
        width: Width,
        operands: [u64; 2],
        old: *mut u64,
    ) -> Result<Ticket> {
        let bytes = width.bytes();
        self.check(at, bytes as u64, operation)?;
        if !at.address.is_multiple_of(bytes as u64) {
            return Err(self.misaligned(operation, at, width));
        }
        let found = if self.path == Path::Direct {
            let here = at.address as usize as *mut u8;
            let [first, second] = operands;
            // SAFETY: registered memory of this process, as our own table says.
            let done = unsafe {
                match operation {
                    Operation::FetchAdd => agent::fetch_add(here, bytes, first),
                    _ => agent::compare_swap(here, bytes, first, second),
                }
            };
            done.ok_or_else(|| self.misaligned(operation, at, width))?
        } else {
            let request = Request {
                operands,
                ..Request::of(operation, bytes, at, 0, bytes)
            };
            // SAFETY: no buffers.
            unsafe { self.ask(request, std::ptr::null(), std::ptr::null_mut())? }
        };
        // SAFETY: `old` is the caller's promise.
        unsafe { old.write(found) };
        Ok(Ticket::DONE)
    }

    fn misaligned(&self, operation: Operation, at: RemoteAddress, width: Width) -> Error {
        Error::RemoteAccess {
            need: operation.name(),
            address: at.address,
            len: width.bytes() as u64,
            pid: self.peer.pid(),
            host: None,
            rkey: at.rkey,
            reason: "the word is not aligned to its size",
        }
    }

    /// As [`Endpoint::map`], of a region that is known by its place alone.
    pub(crate) fn map_by_place(&self, region: &RemoteRegion) -> Result<Option<Mapping>> {
        match table::find(&self.segment, region.address, region.len) {
            Some(rkey) => self.map(&RemoteRegion { rkey, ..*region }),
            None => Ok(None),
        }
    }
}

impl Endpoint for SoftEndpoint {
    unsafe fn write(&self, from: *const u8, len: usize, to: RemoteAddress) -> Result<Ticket> {
        // SAFETY: a write only reads `from`.
        unsafe { self.transfer(Operation::Write, from.cast_mut(), len, to) }
    }

    unsafe fn read(&self, to: *mut u8, len: usize, from: RemoteAddress) -> Result<Ticket> {
        // SAFETY: the caller's promise.
        unsafe { self.transfer(Operation::Read, to, len, from) }
    }

    unsafe fn write_batch(&self, batch: &Batch<'_>) -> std::result::Result<Ticket, BatchError> {
        // SAFETY: a write only reads the pieces.
        unsafe { self.transfer_batch(Operation::Write, batch) }
    }

    unsafe fn read_batch(&self, batch: &Batch<'_>) -> std::result::Result<Ticket, BatchError> {
        // SAFETY: the caller's promise.
        unsafe { self.transfer_batch(Operation::Read, batch) }
    }

    unsafe fn write_blocks(&self, blocks: Blocks) -> std::result::Result<Ticket, BatchError> {
        // SAFETY: a write only reads the blocks.
        unsafe { self.transfer_blocks(Operation::Write, blocks) }
    }

    unsafe fn read_blocks(&self, blocks: Blocks) -> std::result::Result<Ticket, BatchError> {
        // SAFETY: the caller's promise.
        unsafe { self.transfer_blocks(Operation::Read, blocks) }
    }

    unsafe fn fetch_add(
        &self,
        at: RemoteAddress,
        width: Width,
        add: u64,
        old: *mut u64,
    ) -> Result<Ticket> {
        // SAFETY: the caller's promise.
        unsafe { self.atomic(Operation::FetchAdd, at, width, [add, 0], old) }
    }

    unsafe fn compare_swap(
        &self,
        at: RemoteAddress,
        width: Width,
        expect: u64,
        new: u64,
        old: *mut u64,
    ) -> Result<Ticket> {
        // SAFETY: the caller's promise.
        unsafe { self.atomic(Operation::CompareSwap, at, width, [expect, new], old) }
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
            for offset in (0..len).step_by(bytes) {
                let word = (at.address as usize + offset) as *mut u8;
                // SAFETY: `values` is the caller's promise; the word lies in registered memory of
                // this process, as our own table says.
                unsafe {
                    let value = width.load(values.add(offset));
                    match update {
                        Update::Add => agent::fetch_add(word, bytes, value),
                        Update::Store => agent::store(word, bytes, value),
                    };
                }
            }
            return Ok(Ticket::DONE);
        }
        for start in (0..len).step_by(SLOT_BYTES) {
            let part = SLOT_BYTES.min(len - start);
            let send = values.wrapping_add(start);
            let request = Request::of(operation, bytes, at, start, part);
            // SAFETY: a part of the values that the caller vouches for.
            unsafe { self.ask(request, send, std::ptr::null_mut())? };
        }
        Ok(Ticket::DONE)
    }

    fn store(&self, at: RemoteAddress, _old: u64, new: u64) -> Result<Ticket> {
        let value = new.to_ne_bytes();
        // SAFETY: a local that outlives the operation, which is complete on return.
        unsafe { self.update_each(at, Width::W8, Update::Store, value.as_ptr(), 1) }
    }

    fn released(&self, _ticket: Ticket) -> Result<bool> {
        Ok(true)
    }

    fn completed(&self, _ticket: Ticket) -> Result<bool> {
        Ok(true)
    }

    fn intact(&self) -> Result<()> {
        Ok(())
    }

    fn has_atomics(&self, region: &RemoteRegion) -> bool {
        // What is gone is found out by the operation.
        table::look_up(&self.segment, region.rkey)
            .is_none_or(|found| found.len == 0 || found.access.allows(Access::ATOMIC))
    }

    fn waiting_threads(&self) -> Option<&dyn WaitingThreads> {
        Some(self)
    }

    fn map(&self, region: &RemoteRegion) -> Result<Option<Mapping>> {
        if !self.options.map || region.len == 0 {
            return Ok(None);
        }
        // A mapping serves loads and stores unchecked, so it takes the rights to both.
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
        // A descriptor number that was closed and used again would name another file: what was
        // opened counts only if the region is still the same.
        self.check(region.at(0), region.len, Operation::Read)?;
        let skip = piece.place_of(region).ok_or_else(elsewhere)?;
        memory_file::must_hold(&file, piece.offset, piece.len).map_err(unreachable)?;
        let range = AddressRange::of_file(&file, piece.offset, piece.len as usize)?;
        range.mark_foreign();
        let base = range.base().wrapping_add(skip);
        Ok(Some(Mapping::new(base, region.len, range)))
    }

    fn via(&self, atomics: bool) -> Via {
        match self.path {
            Path::Direct => Via::Mapped,
            Path::CrossMemory if !atomics => Via::Attached,
            _ => Via::Agent,
        }
    }

    fn liveness(&self) -> Liveness {
        match self.segment.is_closed() {
            true => Liveness::Closed {
                pid: self.peer.pid(),
            },
            false => self.peer.liveness(),
        }
    }
}

impl WaitingThreads for SoftEndpoint {
    unsafe fn add(
        &self,
        at: RemoteAddress,
        number: Number,
        values: *const u8,
        old: *mut u8,
        len: usize,
        otherwise: &dyn Fn(Range<usize>) -> bool,
    ) -> Result<bool> {
        // SAFETY: the caller's promise.
        unsafe { self.add_where_sooner(at, number, (values, old), len, otherwise) }
    }
}
