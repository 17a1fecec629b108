//! What memory holds survives both ways, wherever the memory comes from.

use super::*;
use crate::soft::adopt::sys::page_size;

/// Adopts, checks from both sides, gives back, and returns what was covered.
fn there_and_back(base: *mut u8, len: usize) -> Range<usize> {
    fill(base, len, 1);
    let share = adopt_all(base, len).unwrap();
    let run = covered(&share);
    check(base, len, 1);

    for piece in share.pieces() {
        let mut peer = map_piece(piece);
        let here = piece.addr as *mut u8;
        // Bytes of the piece that are not the region's are not the test's to change.
        let first = piece.addr.max(base.addr()) - piece.addr;
        let last = (piece.addr + piece.len).min(base.addr() + len) - 1 - piece.addr;
        for index in [first, last] {
            // SAFETY: within the region, which is the test's.
            let own = unsafe { here.add(index).read_volatile() };
            assert_eq!(peer[index], own);
            peer[index] = !own;
            // SAFETY: as above.
            assert_eq!(unsafe { here.add(index).read_volatile() }, !own);
            // SAFETY: as above.
            unsafe { here.add(index).write_volatile(own) };
            assert_eq!(peer[index], own);
        }
        for index in first..=last {
            assert_eq!(peer[index], pattern(1, piece.addr + index - base.addr()));
        }
    }

    fill(base, len, 2);
    drop(share);
    check(base, len, 2);
    assert!(!is_adopted(&run), "private again");
    run
}

fn is_adopted(range: &Range<usize>) -> bool {
    let shared_here = survey::mappings(range)
        .unwrap()
        .iter()
        .any(|(vma, _)| !vma.private);
    let in_table = table::lock().within(range).next().is_some();
    assert_eq!(shared_here, in_table);
    in_table
}

fn whole_pages(base: *mut u8, len: usize) -> Range<usize> {
    Request::new(base.addr(), len).unwrap().whole_pages()
}

fn pages(base: *mut u8, len: usize) -> Range<usize> {
    Request::new(base.addr(), len).unwrap().pages()
}

const BIG: usize = 300 << 10;

/// Aligned, as the first bytes of .bss may share a page with .data, which is file-backed.
#[repr(align(4096))]
struct Bss(std::cell::UnsafeCell<[u8; BIG]>);

// SAFETY: each of the two is used by one test alone.
unsafe impl Sync for Bss {}

#[test]
fn several_threads_heap_bss_and_mapped_memory() {
    static BSS: Bss = Bss(std::cell::UnsafeCell::new([0; BIG]));

    let mapped = Memory::anonymous(BIG);
    let mut heap = vec![0_u8; BIG];
    for base in [heap.as_mut_ptr(), BSS.0.get().cast(), mapped.at(0)] {
        for (offset, len) in [(0, BIG), (16, BIG - 16), (4097, BIG - 9000)] {
            let base = base.wrapping_add(offset);
            if has_userfaultfd() {
                assert_eq!(there_and_back(base, len), whole_pages(base, len));
            } else {
                let refused = adopt_all(base, len).unwrap_err();
                assert!(matches!(refused, Declined::NoUserfaultfd(_)), "{refused}");
            }
        }
    }
}

#[test]
fn several_threads_without_kernel_privilege() {
    if !has_userfaultfd() {
        return;
    }
    restriction::with(uffd::Restriction::UserModeOnly, || {
        let memory = Memory::anonymous(BIG);
        assert_eq!(
            there_and_back(memory.at(16), BIG - 16),
            whole_pages(memory.at(16), BIG - 16)
        );
    });
}

#[test]
fn one_thread_heap_bss_and_mapped_memory() {
    static BSS: Bss = Bss(std::cell::UnsafeCell::new([0; BIG]));

    in_child(|| {
        let mapped = Memory::anonymous(BIG);
        let mut heap = vec![0_u8; BIG];
        // SAFETY: grows the program break, which glibc's allocator allows for.
        let brk = unsafe { libc::sbrk(BIG as isize) }.cast();
        for base in [heap.as_mut_ptr(), BSS.0.get().cast(), mapped.at(0), brk] {
            for (offset, len) in [(0, BIG), (16, BIG - 16), (4097, BIG - 9000)] {
                let base = base.wrapping_add(offset);
                assert_eq!(there_and_back(base, len), pages(base, len));
            }
        }
    });
}

#[test]
fn one_thread_small_and_unaligned_regions() {
    in_child(|| {
        let page = page_size();
        let mut heap = vec![0_u8; 4 * page];
        let base = heap.as_mut_ptr();
        let base = base.wrapping_add(base.align_offset(page));
        for (offset, len) in [
            (16, 1),
            (16, 64),
            (0, page),
            (16, page),
            (page - 1, 2),
            (page - 8, page + 16),
            (0, 1),
            (2 * page - 1, 1),
        ] {
            let base = base.wrapping_add(offset);
            assert_eq!(
                there_and_back(base, len),
                pages(base, len),
                "{offset} {len}"
            );
        }
    });
}

#[test]
fn one_thread_neighbours_on_the_edges_survive() {
    in_child(|| {
        let page = page_size();
        let memory = Memory::anonymous(4 * page);
        fill(memory.at(0), 4 * page, 7);
        for round in 0..50 {
            let start = 16 + round * 8;
            let share = adopt_all(memory.at(start), 2 * page).unwrap();
            check(memory.at(0), 4 * page, 7);
            drop(share);
            check(memory.at(0), 4 * page, 7);
        }
    });
}

#[test]
fn sixty_four_mebibytes_in_chunks() {
    const LEN: usize = 64 << 20;

    fn words(memory: &Memory) -> &'static mut [u64] {
        // SAFETY: the memory is the test's, mapped until its end, and is aligned to pages.
        unsafe { std::slice::from_raw_parts_mut(memory.base.cast(), memory.len / 8) }
    }

    let work = || {
        let memory = Memory::anonymous(LEN);
        for (index, word) in words(&memory).iter_mut().enumerate() {
            *word = index as u64 * 3;
        }
        let share = adopt_all(memory.at(0), LEN).unwrap();
        assert_eq!(share.pieces().len(), 1);
        assert_eq!(share.pieces()[0].len, LEN);
        for (index, word) in words(&memory).iter_mut().enumerate() {
            assert_eq!(*word, index as u64 * 3);
            *word += 1;
        }
        drop(share);
        for (index, word) in words(&memory).iter().enumerate() {
            assert_eq!(*word, index as u64 * 3 + 1);
        }
    };
    let _quiet = quiet();
    if has_userfaultfd() {
        work();
    }
    in_child(work);
}

#[test]
fn untouched_memory_costs_nothing() {
    const LEN: usize = 1 << 30;

    let work = || {
        let memory = Memory::map(
            LEN,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
        );
        let touched = [0, LEN / 2 + 12_345, LEN - 1];
        for at in touched {
            fill(memory.at(at), 1, at as u64);
        }
        let share = adopt_all(memory.at(0), LEN).unwrap();
        let fd = share.pieces()[0].fd;
        let blocks = || {
            // SAFETY: the structure is plain, and the descriptor is the share's.
            unsafe {
                let mut stat: libc::stat = std::mem::zeroed();
                assert_eq!(libc::fstat(fd, &raw mut stat), 0);
                stat.st_blocks as usize * 512
            }
        };
        assert!(blocks() <= 3 << 16, "{} bytes for three pages", blocks());
        for at in touched {
            check(memory.at(at), 1, at as u64);
        }
        drop(share);
        for at in touched {
            check(memory.at(at), 1, at as u64);
        }
        let resident = survey_resident(&memory);
        assert!(resident <= 3 << 21, "{resident} bytes resident");
    };
    let _quiet = quiet();
    in_child(work);
    if has_userfaultfd() {
        work();
    }
}

/// What smaps says is resident of a mapping.
fn survey_resident(memory: &Memory) -> usize {
    let mut smaps = maps::Reader::smaps().unwrap();
    let (mut inside, mut resident) = (false, 0);
    while let Some(line) = smaps.next().unwrap() {
        match line {
            maps::Line::Mapping(vma) => {
                inside = memory.base.addr() <= vma.range.start
                    && vma.range.end <= memory.base.addr() + memory.len;
            }
            maps::Line::Detail(b"Rss", value) if inside => {
                let kib = value.strip_suffix(b" kB").unwrap();
                resident += maps::decimal(kib).unwrap() as usize * 1024;
            }
            maps::Line::Detail(..) => {}
        }
    }
    resident
}

#[test]
fn advice_given_by_the_owner_comes_back() {
    let page = page_size();
    let work = || {
        let memory = Memory::anonymous(4 * page);
        for advice in [libc::MADV_NOHUGEPAGE, libc::MADV_DONTDUMP] {
            // SAFETY: neither changes what the memory holds.
            let result = unsafe { libc::madvise(memory.base.cast(), 4 * page, advice) };
            assert_eq!(result, 0);
        }
        let attributes = || {
            let found = survey::mappings(&(memory.base.addr()..memory.base.addr() + 4 * page));
            found.unwrap()[0].1
        };
        let before = attributes().unwrap();
        assert!(before.dont_dump && before.huge_pages == Some(false));
        let _ = there_and_back(memory.at(0), 4 * page);
        assert_eq!(attributes().unwrap(), before);
    };
    in_child(work);
    if has_userfaultfd() {
        work();
    }
}
