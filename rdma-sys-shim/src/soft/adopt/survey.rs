//! Which pages of a request may be adopted.

use std::cell::OnceCell;
use std::ops::Range;

use super::declined::Declined;
use super::maps::{Line, Name, Reader, Vma};
use super::neighbours;
use super::stretch::Attributes;
use super::sys::{Refusal, page_size};
use super::table::Table;

/// The memory that a region is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    bytes: Range<usize>,
}

impl Request {
    pub(super) fn new(base: usize, len: usize) -> Option<Self> {
        let end = base.checked_add(len)?;
        end.checked_next_multiple_of(page_size())?;
        (len > 0).then_some(Self { bytes: base..end })
    }

    /// The pages that hold any of it.
    pub(super) fn pages(&self) -> Range<usize> {
        let page = page_size();
        self.bytes.start / page * page..self.bytes.end.next_multiple_of(page)
    }

    /// The pages that hold nothing else; `start` may be past `end`.
    pub(super) fn whole_pages(&self) -> Range<usize> {
        let page = page_size();
        self.bytes.start.next_multiple_of(page)..self.bytes.end / page * page
    }

    /// How many of its bytes lie in `range`.
    pub(super) fn overlap(&self, range: &Range<usize>) -> usize {
        overlap(&self.bytes, range)
    }
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> usize {
    a.end.min(b.end).saturating_sub(a.start.max(b.start))
}

/// What adoption has to do: the run of pages that will be adopted in the end.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) run: Range<usize>,
    /// The parts of it that are not adopted yet.
    pub(super) fresh: Vec<(Range<usize>, Attributes)>,
}

/// The other threads, as they matter to the edge pages and to the way pages are moved.
#[derive(Clone, Copy, Debug)]
pub(super) enum Others {
    None,
    /// Some, whose writes can be held.
    Held,
    /// Some, whose writes cannot be held.
    Unheld(Refusal),
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Adopted,
    Fresh(Attributes),
    Bad(Declined),
}

/// Finds the largest run of pages that are adopted or may be.
pub(super) fn plan(
    request: &Request,
    others: Others,
    in_use: &[Range<usize>],
    mappings: &[(Vma, Verdict)],
    table: &Table,
) -> Result<Plan, Declined> {
    let pages = request.pages();
    let adopted: Vec<Range<usize>> = table.within(&pages).map(|(part, _)| part).collect();
    let whole = request.whole_pages();
    let edges = OnceCell::new();
    let kind = |part: &Range<usize>| {
        let inside = |ranges: &[Range<usize>]| ranges.iter().any(|r| overlap(r, part) > 0);
        if inside(&adopted) {
            return Kind::Adopted;
        }
        if inside(in_use) {
            return Kind::Bad(Declined::InUse);
        }
        let attributes = match mappings
            .iter()
            .find(|(vma, _)| overlap(&vma.range, part) > 0)
        {
            None => return Kind::Bad(Declined::NotMapped),
            Some((_, Err(reason))) => return Kind::Bad(*reason),
            Some((_, Ok(attributes))) => *attributes,
        };
        let is_edge = overlap(&whole, part) == 0;
        let allowed = match others {
            Others::None if is_edge => edges.get_or_init(Edges::survey).may_adopt(part),
            Others::None => Ok(()),
            Others::Held | Others::Unheld(_) if is_edge => Err(Declined::NoWholePage),
            Others::Held => Ok(()),
            Others::Unheld(refusal) => Err(Declined::NoUserfaultfd(refusal)),
        };
        allowed.map_or_else(Kind::Bad, |()| Kind::Fresh(attributes))
    };

    let mut bounds: Vec<usize> = [whole.start, whole.end]
        .into_iter()
        .chain(adopted.iter().flat_map(|r| [r.start, r.end]))
        .chain(in_use.iter().flat_map(|r| [r.start, r.end]))
        .chain(
            mappings
                .iter()
                .flat_map(|(vma, _)| [vma.range.start, vma.range.end]),
        )
        .filter(|at| pages.contains(at))
        .chain([pages.start, pages.end])
        .collect();
    bounds.sort_unstable();
    bounds.dedup();
    let parts = bounds.windows(2).map(|pair| pair[0]..pair[1]);

    let mut best: Option<Plan> = None;
    let mut current: Option<Plan> = None;
    let mut reason = (0, Declined::NotMapped);
    for part in parts {
        let kind = kind(&part);
        if let Kind::Bad(why) = kind {
            let weight = request.overlap(&part);
            if weight > reason.0 {
                reason = (weight, why);
            }
            keep_larger(request, &mut best, current.take());
            continue;
        }
        let plan = current.get_or_insert_with(|| Plan {
            run: part.start..part.start,
            fresh: Vec::new(),
        });
        plan.run.end = part.end;
        if let Kind::Fresh(attributes) = kind {
            match plan.fresh.last_mut() {
                Some((last, same)) if last.end == part.start && *same == attributes => {
                    last.end = part.end;
                }
                _ => plan.fresh.push((part, attributes)),
            }
        }
    }
    keep_larger(request, &mut best, current);
    best.ok_or(reason.1)
}

fn keep_larger(request: &Request, best: &mut Option<Plan>, other: Option<Plan>) {
    let size = |plan: &Plan| request.overlap(&plan.run);
    if let Some(other) = other
        && best.as_ref().is_none_or(|best| size(&other) > size(best))
    {
        *best = Some(other);
    }
}

/// What is to be known about edge pages in a process of one thread.
struct Edges {
    kernel: Result<(), Declined>,
    thread_state: Vec<Range<usize>>,
}

impl Edges {
    fn survey() -> Self {
        Self {
            kernel: neighbours::kernel_writes(),
            thread_state: neighbours::thread_state(),
        }
    }

    fn may_adopt(&self, page: &Range<usize>) -> Result<(), Declined> {
        let holds_state = self.thread_state.iter().any(|s| overlap(s, page) > 0)
            || neighbours::may_hold_allocator_state(page.start);
        if holds_state {
            return Err(Declined::EdgeHoldsRuntimeState);
        }
        self.kernel
    }
}

/// Whether a mapping's pages may be adopted, and what they are to get back with them.
pub(super) type Verdict = Result<Attributes, Declined>;

/// The mappings that overlap `pages`, each with the verdict on it.
pub(super) fn mappings(pages: &Range<usize>) -> Result<Vec<(Vma, Verdict)>, Refusal> {
    let here = 0_u8;
    let here = (&raw const here).expose_provenance();
    let mut found: Vec<(Vma, Verdict)> = Vec::new();
    // The verdict on the latest mapping, as far as it is known before its flags are.
    let mut so_far = Ok(());
    // smaps walks the page tables of every mapping that it prints, so it is read no further
    // than needed. Of the cheaper sources none has the flags.
    let mut smaps = Reader::smaps()?;
    while let Some(line) = smaps.next()? {
        match line {
            Line::Mapping(vma) if vma.range.start >= pages.end => break,
            Line::Mapping(vma) if vma.range.end <= pages.start => {}
            Line::Mapping(vma) => {
                so_far = judge_mapping(&vma, here);
                let without_flags = Err(so_far.err().unwrap_or(Declined::UnknownFlag));
                found.push((vma, without_flags));
            }
            Line::Detail(b"ProtectionKey", key) if key != b"0" => {
                so_far = so_far.and(Err(Declined::ProtectionKey));
            }
            Line::Detail(b"VmFlags", flags) => {
                if let Some((vma, verdict)) = found.last_mut() {
                    *verdict = so_far.and_then(|()| {
                        let attributes = judge_flags(flags)?;
                        policy(vma.range.start.max(pages.start))?;
                        Ok(attributes)
                    });
                }
            }
            Line::Detail(..) => {}
        }
    }
    Ok(found)
}

fn judge_mapping(vma: &Vma, stack_pointer: usize) -> Result<(), Declined> {
    if vma.name == Name::Stack || vma.range.contains(&stack_pointer) {
        return Err(Declined::Stack);
    }
    if !vma.private || vma.file.inode != 0 || vma.name != Name::Anonymous {
        return Err(Declined::NotPrivateAnonymous);
    }
    if !vma.readable || !vma.writable || vma.executable {
        return Err(Declined::Protection);
    }
    Ok(())
}

/// Judges the two-letter codes of `VmFlags`.
fn judge_flags(flags: &[u8]) -> Verdict {
    let mut attributes = Attributes::default();
    for flag in flags.split(|&c| c == b' ').filter(|flag| !flag.is_empty()) {
        match flag {
            // Readable, writable, and that they may be; accounted; soft-dirty.
            b"rd" | b"wr" | b"mr" | b"mw" | b"me" | b"ac" | b"sd" => {}
            b"nr" => attributes.no_reserve = true,
            b"dd" => attributes.dont_dump = true,
            b"hg" => attributes.huge_pages = Some(true),
            b"nh" => attributes.huge_pages = Some(false),
            b"gd" => return Err(Declined::Stack),
            b"lo" | b"lf" => return Err(Declined::Locked),
            b"dc" => return Err(Declined::DontFork),
            b"wf" => return Err(Declined::WipeOnFork),
            b"um" | b"uw" | b"ui" => return Err(Declined::Userfaultfd),
            b"sh" | b"ms" | b"ht" | b"io" | b"pf" => return Err(Declined::NotPrivateAnonymous),
            _ => return Err(Declined::UnknownFlag),
        }
    }
    Ok(attributes)
}

/// Whether the mapping at `addr` follows the process's memory policy rather than its own.
fn policy(addr: usize) -> Result<(), Declined> {
    /// From `linux/mempolicy.h`: of the mapping at an address, not of the process.
    const MPOL_F_ADDR: libc::c_ulong = 1 << 1;

    let mut mode: libc::c_int = -1;
    // SAFETY: `mode` is this frame's; the node mask is absent; the address is only looked up.
    let result = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut mode,
            std::ptr::null_mut::<libc::c_ulong>(),
            0,
            addr,
            MPOL_F_ADDR,
        )
    };
    if result == 0 {
        return if mode == libc::MPOL_DEFAULT {
            Ok(())
        } else {
            Err(Declined::Policy)
        };
    }
    match Refusal::of("get_mempolicy").errno {
        // A kernel without NUMA has no policies.
        libc::ENOSYS => Ok(()),
        // Containers often forbid the call.
        _ => policy_in_numa_maps(addr),
    }
}

fn policy_in_numa_maps(addr: usize) -> Result<(), Declined> {
    use std::io::BufRead;

    let file = std::fs::File::open("/proc/self/numa_maps").map_err(|_| Declined::Policy)?;
    let mut latest = Err(Declined::Policy);
    for line in std::io::BufReader::new(file).lines() {
        let line = line.map_err(|_| Declined::Policy)?;
        let mut fields = line.split(' ');
        let start = fields
            .next()
            .and_then(|f| usize::from_str_radix(f, 16).ok());
        let policy = fields.next().unwrap_or_default();
        if start.ok_or(Declined::Policy)? > addr {
            break;
        }
        latest = if policy == "default" {
            Ok(())
        } else {
            Err(Declined::Policy)
        };
    }
    latest
}

/// The parts of `pages` for which `in_use` holds, found by halving.
pub(super) fn pages_in_use(
    pages: Range<usize>,
    in_use: &dyn Fn(Range<usize>) -> bool,
    found: &mut Vec<Range<usize>>,
) {
    if !in_use(pages.clone()) {
        return;
    }
    let count = pages.len() / page_size();
    if count > 1 {
        let middle = pages.start + count / 2 * page_size();
        pages_in_use(pages.start..middle, in_use, found);
        pages_in_use(middle..pages.end, in_use, found);
        return;
    }
    match found.last_mut() {
        Some(last) if last.end == pages.start => last.end = pages.end,
        _ => found.push(pages),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_judged() {
        let plain = judge_flags(b"rd wr mr mw me ac sd").unwrap();
        assert_eq!(plain, Attributes::default());
        let hinted = judge_flags(b"rd wr mr mw me nr dd hg").unwrap();
        assert!(hinted.no_reserve && hinted.dont_dump && hinted.huge_pages == Some(true));
        assert_eq!(judge_flags(b"rd wr lo ac"), Err(Declined::Locked));
        assert_eq!(judge_flags(b"rd wr gd"), Err(Declined::Stack));
        assert_eq!(judge_flags(b"rd wr uw"), Err(Declined::Userfaultfd));
        assert_eq!(judge_flags(b"rd wr zz"), Err(Declined::UnknownFlag));
    }

    #[test]
    fn pages_in_use_are_found_by_halving() {
        let page = page_size();
        let used = [3 * page..5 * page, 9 * page..10 * page];
        let in_use = |range: Range<usize>| used.iter().any(|u| overlap(u, &range) > 0);
        let mut found = Vec::new();
        pages_in_use(0..16 * page, &in_use, &mut found);
        assert_eq!(found, used);
    }

    #[test]
    fn this_process_has_no_policy_of_its_own_anywhere() {
        let word = 0_u64;
        assert_eq!(policy((&raw const word) as usize), Ok(()));
        assert_eq!(policy_in_numa_maps((&raw const word) as usize), Ok(()));
    }
}
