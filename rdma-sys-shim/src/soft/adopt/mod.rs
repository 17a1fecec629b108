//! Adoption: moving memory that the caller owns into memfds, in place, so that peers can map it;
//! and moving it back.
//!
//! # Contract
//!
//! The caller of [`adopt`] keeps that of [`Device::register`](crate::Device::register): until the
//! share is dropped the memory stays mapped; while adoption and the drop run, no system call of
//! another thread, and no asynchronous one, reads or writes this memory, and no thread changes
//! its mapping; while the share lives, nobody pins it elsewhere. When the last share on a page
//! is dropped, no peer writes to the page any more. A futex that processes share (not the
//! private kind that locks within a process use) has no waiter in it meanwhile. No other process
//! runs in this address space (`CLONE_VM` without `CLONE_THREAD`) but those of `vfork` and
//! `posix_spawn`, whose parent waits.
//!
//! Threads may write to the memory with plain stores and atomics all the while, and may do what
//! they like with the memory around it. The argument why none of these writes is lost:
//!
//! # Why no write is lost
//!
//! A page is moved by copying it into a memfd and then replacing the mapping, which the kernel
//! does in one step: a thread finds the old page or the new one, never neither. So a write is
//! lost only if it comes after its page was copied and before the mapping was replaced.
//!
//! *One thread* (`direct`). The calling thread is the only one, apart from the library's own,
//! which are parked with all signals blocked and touch nothing of it. Only a thread creates a
//! thread, so a count of one remains one. With every signal blocked, between the copy and the
//! replacement this thread runs the few lines of that function and nothing else; these write to
//! the stack (never adopted: the initial one grows downwards, any other contains the stack
//! pointer) and, if a call fails, to `errno` (thread-local, never on an adopted page). The kernel writes to
//! this process's memory by itself in four places: the restartable-sequences area (thread-local
//! as well), signal frames (blocked), the buffers of asynchronous I/O, and memory pinned for
//! devices. The last two cannot concern the region, by the contract; pages at its edges, which
//! hold other memory too, are adopted only while no descriptor and no mapping of such a kind
//! exists. So edge pages are included, and nothing about them can be noticed.
//!
//! *Several threads* (`protected`). Only pages that lie wholly in the region are adopted, so all
//! that is said of the region holds for them. userfaultfd write-protects a chunk of them: from
//! then on a write by any thread waits in the page fault, and earlier writes are in memory,
//! because the kernel flushes the translation caches before the call returns. The chunk is
//! copied while nobody can write, the mapping is replaced, and the waiting threads are woken:
//! their writes are repeated on the new page. A fault that saw the old mapping has queued itself
//! before the replacement can happen (it holds the mapping's lock until it has), so the wake
//! after it misses none. Pages are populated first, as write-protection of kernels before 6.4
//! does not see first writes to pages that do not exist. Between protect and wake this thread
//! does nothing that could wait for another: no lock, no allocation, no signal handler; and it
//! writes to the stack only.
//!
//! *Giving back* mirrors both: fresh private pages are filled from the memfd and replace the
//! shared mapping (with several threads filled aside, under write-protection, and moved over
//! by `mremap`). The memfd keeps everything until that has succeeded; if anything fails it is
//! mapped again, and the pages just stay adopted. Edge pages concern memory that its owner has
//! promised nothing about: with several threads they go back only if system calls that write
//! there wait as well (a privilege of userfaultfd), and otherwise stay adopted. Such pages
//! without a share are orphans. They do no harm: a later share takes them over (after comparing
//! with `/proc/self/maps`, as their owner is free to unmap them), and a fork copies them.
//!
//! *Anything unknown is not adopted*: a mapping must be private, anonymous, readable and writable
//! and carry only flags that are known to be harmless or to be restorable; see `survey`. Peers
//! that use cross-memory attach write at any time, so pages of a region that is not adopted are
//! not adopted for another; see [`adopt`] for what the caller has to serialise.
//!
//! *Fork*: see `fork`. *How much* is adopted: see `limit`.

mod declined;
mod direct;
mod fork;
mod limit;
mod maps;
mod memfd;
mod moves;
mod neighbours;
mod protected;
mod stretch;
mod survey;
mod sys;
mod table;
#[cfg(test)]
mod tests;
mod uffd;
mod way;

use std::ops::Range;
use std::os::fd::RawFd;

pub(crate) use declined::Declined;
use survey::Request;
pub(super) use sys::Refusal;
use table::Table;
use way::Way;

/// Whether the memory of a process with several threads can be adopted here.
pub(super) fn check_userfaultfd() -> Result<(), Refusal> {
    uffd::Uffd::open().map(drop)
}

/// Sees to it that forked children get their own copies of adopted memory before they run handlers
/// (`pthread_atfork`) that are registered after this call: what such a handler writes is then the
/// child's alone. Where that fails, no memory is adopted.
pub fn watch_forks() {
    // The first adoption meets the same failure, and reports it.
    let _ = fork::install();
}

/// Part of adopted memory: `len` bytes at `addr` are backed by `fd` at `offset`. All three are
/// multiples of the page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) addr: usize,
    pub(crate) len: usize,
    /// Valid while the share lives.
    pub(crate) fd: RawFd,
    pub(crate) offset: u64,
}

/// A share in adopted pages. Dropping the last share on a page gives it back to private memory.
///
/// A forked child's copy of a share is a share in nothing.
#[derive(Debug)]
pub(crate) struct Adopted {
    request: Request,
    pieces: Vec<Piece>,
    /// All adopted pages of the request, `pieces` or not.
    held: Vec<Range<usize>>,
    generation: u64,
}

/// Adopts what can be adopted of `len` bytes at `base`.
///
/// `own_threads` is the number of the library's own threads that run now, parked, with all
/// signals blocked, and not touching this memory. `in_use` says whether another live region, or
/// a part of one, that is not adopted covers any of these pages. It is asked before any lock is
/// taken here.
///
/// The caller serialises this call, [`hold`] and the changes of what `in_use` reads: a region
/// that is not adopted, or not wholly, is entered there before another is adopted, and before a
/// peer knows it.
///
/// # Errors
/// Nothing of it can be adopted. If the region is then registered as it is, it needs a [`hold`].
///
/// # Safety
/// The contract of the module.
pub(crate) unsafe fn adopt(
    base: *mut u8,
    len: usize,
    own_threads: usize,
    in_use: &dyn Fn(Range<usize>) -> bool,
) -> Result<Adopted, Declined> {
    let request = Request::new(base.addr(), len).ok_or(Declined::Empty)?;
    base.expose_provenance();
    fork::install()?;
    let mut pages_in_use = Vec::new();
    survey::pages_in_use(request.pages(), in_use, &mut pages_in_use);

    let mut table = table::lock();
    let pages = request.pages();
    if !table.covers(&pages) {
        limit::allows(len)?;
    } else if !table.has_orphans(&pages) {
        // Who has shares keeps the pages as they are: there is nothing to look at.
        return Ok(Adopted::take(request, &pages, &mut table));
    }
    let way = Way::find(own_threads)?;
    let mappings = survey::mappings(&request.pages())?;
    moves::forget_lost_orphans(&mut table, &request.pages(), &mappings);
    let plan = survey::plan(&request, way.others(), &pages_in_use, &mappings, &table)?;
    // SAFETY: the caller keeps the contract, and the survey found the pages fit for this way.
    let moved = unsafe { moves::into_memfd(&mut table, &way, &plan.fresh) };
    let share = Adopted::take(request, &plan.run, &mut table);
    drop(table);
    match moved {
        Err(why) if share.pieces.is_empty() => Err(why),
        Err(why) => {
            tracing::debug!(%why, "only a part of the memory was adopted");
            Ok(share)
        }
        Ok(()) => Ok(share),
    }
}

/// A share in what is adopted already of `len` bytes at `base`, for a region that is not to be
/// adopted itself: it keeps these pages where they are, as peers may write to the region by
/// cross-memory attach while they would be given back. It may have no pieces. `None` for a
/// region of no bytes.
pub(crate) fn hold(base: *mut u8, len: usize) -> Option<Adopted> {
    let request = Request::new(base.addr(), len)?;
    let pages = request.pages();
    let mut table = table::lock();
    if table.has_orphans(&pages)
        && let Ok(mappings) = survey::mappings(&pages)
    {
        moves::forget_lost_orphans(&mut table, &pages, &mappings);
    }
    Some(Adopted::take(request, &pages, &mut table))
}

impl Adopted {
    /// The largest adopted run that overlaps the request: sorted, contiguous, whole pages, which
    /// may extend past the request on both sides.
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Drops the share while `own_threads` of the library's threads are parked, as for [`adopt`];
    /// a plain drop assumes that none is.
    ///
    /// # Safety
    /// They are.
    pub(crate) unsafe fn release(mut self, own_threads: usize) {
        self.end(own_threads);
    }

    /// Takes a share in all adopted pages of the request. The pieces are the largest part of them
    /// within `run`.
    fn take(request: Request, run: &Range<usize>, table: &mut Table) -> Self {
        let held = table.take_shares(&request.pages());
        let largest = held
            .iter()
            .map(|part| part.start.max(run.start)..part.end.min(run.end))
            .max_by_key(|part| request.overlap(part))
            .unwrap_or(0..0);
        let mut pieces: Vec<Piece> = Vec::new();
        for (part, _) in table.within(&largest) {
            let Some(next) = table.stretch(&part) else {
                continue;
            };
            match pieces.last_mut() {
                Some(last)
                    if last.fd == next.fd && last.offset + last.len as u64 == next.offset =>
                {
                    last.len += next.len;
                }
                _ => pieces.push(Piece {
                    addr: next.addr,
                    len: next.len,
                    fd: next.fd,
                    offset: next.offset,
                }),
            }
        }
        Self {
            request,
            pieces,
            held,
            generation: table.generation(),
        }
    }

    fn end(&mut self, own_threads: usize) {
        let held = std::mem::take(&mut self.held);
        if held.is_empty() {
            return;
        }
        let mut table = table::lock();
        if table.generation() != self.generation {
            return;
        }
        let orphans = table.drop_shares(&held);
        if orphans.is_empty() {
            return;
        }
        // SAFETY: whoever took the share keeps the contract of the module until this returns;
        // nobody else has a share in these pages.
        let left = unsafe { moves::give_back(&mut table, &self.request, &orphans, own_threads) };
        drop(table);
        if left > 0 {
            tracing::debug!(
                bytes = left,
                "window memory stays adopted: it cannot be given back unnoticed"
            );
        }
    }
}

impl Drop for Adopted {
    fn drop(&mut self) {
        self.end(0);
    }
}
