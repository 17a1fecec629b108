//! Moving all pages of a request, with the table kept true at every step.

use std::ops::Range;
use std::sync::Arc;

use super::declined::Declined;
use super::maps::Vma;
use super::memfd::Memfd;
use super::neighbours;
use super::stretch::{Attributes, Stretch};
use super::survey::{Request, Verdict};
use super::sys::Refusal;
use super::table::Table;
use super::way::Way;

/// Moves fresh pages into a memfd of their own, in order, as far as it goes.
///
/// # Safety
/// The contract of the module; the pages are fit for this way.
pub(super) unsafe fn into_memfd(
    table: &mut Table,
    way: &Way,
    fresh: &[(Range<usize>, Attributes)],
) -> Result<(), Declined> {
    let total = fresh.iter().map(|(range, _)| range.len()).sum();
    if total == 0 {
        return Ok(());
    }
    let memfd = Arc::new(Memfd::new(total)?);
    let mut offset = 0;
    for (range, attributes) in fresh {
        let whole = Stretch {
            addr: range.start,
            len: range.len(),
            fd: memfd.raw(),
            offset,
            attributes: *attributes,
        };
        let mut done = 0;
        let moved = whole.chunks().try_for_each(|chunk| {
            // SAFETY: the caller keeps the contract.
            unsafe { way.adopt(&chunk)? };
            done += chunk.len;
            Ok::<(), Refusal>(())
        });
        if done > 0 {
            table.insert(&Stretch { len: done, ..whole }, &memfd);
        }
        moved?;
        offset += range.len() as u64;
    }
    Ok(())
}

/// Gives back pages that have no share any more, as far as it goes, and says how many bytes
/// stay adopted.
///
/// # Safety
/// The contract of the module.
pub(super) unsafe fn give_back(
    table: &mut Table,
    request: &Request,
    orphans: &[Range<usize>],
    own_threads: usize,
) -> usize {
    let all: usize = orphans.iter().map(Range::len).sum();
    let Ok(way) = Way::find(own_threads) else {
        return all;
    };
    let whole = request.whole_pages();
    let mut given_back = 0;
    let mut edges = None;
    for orphan in orphans {
        let inner = orphan.start.max(whole.start)..orphan.end.min(whole.end);
        // Without whole pages, all of it is edges.
        let parts = if inner.is_empty() {
            [orphan.clone(), 0..0, 0..0]
        } else {
            [
                orphan.start..inner.start,
                inner.clone(),
                inner.end..orphan.end,
            ]
        };
        for part in parts.iter().filter(|part| !part.is_empty()) {
            let is_edge = *part != inner;
            if is_edge && !*edges.get_or_insert_with(|| way.may_give_back_edges())
                || neighbours::is_near_stack_pointer(part)
            {
                continue;
            }
            let Some(stretch) = table.stretch(part) else {
                continue;
            };
            let mut done = 0;
            for chunk in stretch.chunks() {
                // SAFETY: the caller keeps the contract; adopted pages never hold this thread's
                // stack or storage, and edges were found fit for this way.
                if unsafe { way.give_back(&chunk) }.is_err() {
                    break;
                }
                done += chunk.len;
                table.free(&chunk);
            }
            table.remove(&(part.start..part.start + done));
            given_back += done;
        }
    }
    all - given_back
}

/// Forgets pages without a share that their owner has unmapped since.
pub(super) fn forget_lost_orphans(
    table: &mut Table,
    pages: &Range<usize>,
    mappings: &[(Vma, Verdict)],
) {
    let orphans: Vec<_> = table
        .within(pages)
        .filter(|(_, extent)| extent.is_orphan())
        .map(|(part, extent)| (part, extent.memfd().id()))
        .collect();
    for (part, file) in orphans {
        let Some(stretch) = table.stretch(&part) else {
            continue;
        };
        let mut lost = part.start;
        for (vma, _) in mappings {
            let here = vma.range.start.max(part.start)..vma.range.end.min(part.end);
            let offset = |addr: usize| stretch.offset + (addr - stretch.addr) as u64;
            let is_ours = !here.is_empty()
                && vma.file == file
                && !vma.private
                && vma.offset + (here.start - vma.range.start) as u64 == offset(here.start);
            if is_ours {
                table.remove(&(lost..here.start));
                lost = here.end;
            }
        }
        table.remove(&(lost..part.end));
    }
}
