//! Several shares in the same pages, orphans, and what is left behind.

use super::*;
use crate::soft::adopt::sys::page_size;

#[test]
fn overlapping_shares_use_one_memfd_and_end_in_either_order() {
    let page = page_size();
    let work = || {
        let memory = Memory::anonymous(8 * page);
        let start = memory.base.addr();
        for first_ends_first in [true, false] {
            fill(memory.at(0), 8 * page, 1);
            let first = adopt_all(memory.at(0), 5 * page).unwrap();
            let second = adopt_all(memory.at(3 * page), 5 * page).unwrap();
            assert_eq!(covered(&first), start..start + 5 * page);
            assert_eq!(covered(&second), start + 3 * page..start + 8 * page);
            // The pages in common are the same pages.
            let (a, b) = (first.pieces()[0], second.pieces()[0]);
            assert_eq!((b.fd, b.addr), (a.fd, a.addr + 3 * page));
            assert_eq!(b.offset, a.offset + 3 * page as u64);
            map_piece(&b)[0] = 0x5A;
            assert_eq!(map_piece(&a)[3 * page], 0x5A);

            fill(memory.at(0), 8 * page, 2);
            let (earlier, later, rest) = if first_ends_first {
                (first, second, 3 * page..8 * page)
            } else {
                (second, first, 0..5 * page)
            };
            drop(earlier);
            check(memory.at(0), 8 * page, 2);
            let adopted: Vec<_> = table::lock()
                .within(&(start..start + 8 * page))
                .map(|(part, _)| part.start - start..part.end - start)
                .collect();
            assert_eq!(adopted.first().map(|r| r.start), Some(rest.start));
            assert_eq!(adopted.last().map(|r| r.end), Some(rest.end));
            for piece in later.pieces() {
                let peer = map_piece(piece);
                assert_eq!(peer[0], pattern(2, piece.addr - start));
            }
            drop(later);
            check(memory.at(0), 8 * page, 2);
            let table = table::lock();
            assert_eq!(table.within(&(start..start + 8 * page)).count(), 0);
        }
    };
    if has_userfaultfd() {
        work();
    }
    in_child(work);
}

#[test]
fn a_hold_keeps_pages_adopted() {
    let page = page_size();
    in_child(|| {
        let memory = Memory::anonymous(4 * page);
        let pages = memory.base.addr()..memory.base.addr() + 4 * page;
        fill(memory.at(0), 4 * page, 1);
        let empty = hold(memory.at(0), 4 * page).unwrap();
        assert!(empty.pieces().is_empty());
        let share = adopt_all(memory.at(page), page).unwrap();
        let held = hold(memory.at(16), 3 * page).unwrap();
        drop(share);
        assert_eq!(table::lock().within(&pages).count(), 1);
        assert_eq!(held.pieces().len(), 1);
        drop(held);
        assert_eq!(table::lock().within(&pages).count(), 0);
        drop(empty);
        check(memory.at(0), 4 * page, 1);
        assert!(hold(memory.at(0), 0).is_none());
    });
}

#[test]
fn without_userfaultfd_pages_stay_adopted_and_are_used_again() {
    if !has_userfaultfd() {
        return;
    }
    let page = page_size();
    let memory = Memory::anonymous(4 * page);
    fill(memory.at(0), 4 * page, 1);
    let share = adopt_all(memory.at(0), 4 * page).unwrap();
    let first = share.pieces()[0];
    restriction::with(uffd::Restriction::Missing, || {
        drop(share);
        check(memory.at(0), 4 * page, 1);
        let again = adopt_all(memory.at(0), 4 * page).unwrap();
        assert_eq!(again.pieces(), [first]);
        drop(again);
    });
    // The next owner takes them over, and can give them back.
    let again = adopt_all(memory.at(0), 4 * page).unwrap();
    drop(again);
    check(memory.at(0), 4 * page, 1);
    let pages = memory.base.addr()..memory.base.addr() + 4 * page;
    assert_eq!(table::lock().within(&pages).count(), 0);
}

#[test]
fn orphans_that_were_unmapped_are_forgotten() {
    if !has_userfaultfd() {
        return;
    }
    let page = page_size();
    let memory = Memory::anonymous(6 * page);
    let share = adopt_all(memory.at(0), 6 * page).unwrap();
    let fd = share.pieces()[0].fd;
    restriction::with(uffd::Restriction::Missing, || drop(share));
    // Two pages in the middle become something else.
    // SAFETY: the memory is the test's, and no share of it is left.
    let fresh = unsafe {
        libc::mmap(
            memory.at(2 * page).cast(),
            2 * page,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    assert_ne!(fresh, libc::MAP_FAILED);
    fill(memory.at(0), 6 * page, 9);
    let share = adopt_all(memory.at(0), 6 * page).unwrap();
    let fds: Vec<_> = share.pieces().iter().map(|piece| piece.fd).collect();
    assert_eq!((fds.len(), fds[0], fds[2]), (3, fd, fd));
    assert_ne!(fds[1], fd);
    assert_eq!(covered(&share).len(), 6 * page);
    check(memory.at(0), 6 * page, 9);
    drop(share);
    check(memory.at(0), 6 * page, 9);
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn mappings() -> usize {
    let mut maps = maps::Reader::maps().unwrap();
    let mut count = 0;
    while maps.next_mapping().unwrap().is_some() {
        count += 1;
    }
    count
}

fn rounds_leave_nothing(rounds: usize) {
    let page = page_size();
    let memory = Memory::anonymous(64 * page);
    let privileged = uffd::Uffd::open().is_ok_and(|uffd| uffd.holds_kernel_writes());
    let round = |index: usize| {
        let start = index * 7 % 40 * page + 16;
        let len = (index * 5 % 20 + 2) * page;
        fill(memory.at(start), 64, index as u64);
        let share = adopt_all(memory.at(start), len).unwrap();
        // A page that both have, and the second not wholly, goes back only with the privilege.
        let second = privileged.then(|| adopt_all(memory.at(start + page), len).unwrap());
        drop(share);
        drop(second);
        check(memory.at(start), 64, index as u64);
    };
    (0..100).for_each(round);
    let before = (descriptors(), mappings());
    (100..rounds).for_each(round);
    let after = (descriptors(), mappings());
    assert_eq!(after.0, before.0, "descriptors");
    // Moved pages do not merge with their neighbours, so there can be one mapping a page.
    assert!(
        after.1 <= before.1 + 64,
        "{} mappings, were {}",
        after.1,
        before.1
    );
}

#[test]
fn many_rounds_leave_nothing_behind() {
    in_child(|| rounds_leave_nothing(2000));
    if has_userfaultfd() {
        in_child(|| {
            let (stop, stopped) = std::sync::mpsc::channel::<()>();
            let other = std::thread::spawn(move || {
                let _ = stopped.recv();
            });
            rounds_leave_nothing(2000);
            drop(stop);
            other.join().unwrap();
        });
    }
}

#[test]
fn one_thread_leaves_the_mappings_as_they_were() {
    let page = page_size();
    in_child(|| {
        let memory = Memory::anonymous(64 * page);
        fill(memory.at(0), 64 * page, 1);
        drop(adopt_all(memory.at(3 * page + 16), 20 * page).unwrap());
        let before = mappings();
        for index in 0..500 {
            drop(adopt_all(memory.at(index % 40 * page + 16), 20 * page).unwrap());
        }
        assert!(
            mappings() <= before + 2,
            "{} mappings, were {before}",
            mappings()
        );
        check(memory.at(0), 64 * page, 1);
    });
}

#[test]
fn shares_come_and_go_in_several_threads() {
    if !has_userfaultfd() {
        return;
    }
    let page = page_size();
    let memory = Memory::anonymous(32 * page);
    fill(memory.at(0), 32 * page, 4);
    let base = memory.base.addr();
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            scope.spawn(move || {
                for index in 0..200_usize {
                    let start = (thread * 5 + index * 3) % 16;
                    let base = (base + start * page) as *mut u8;
                    let share = adopt_all(base, 12 * page).unwrap();
                    assert_eq!(covered(&share).len(), 12 * page);
                    let peer = map_piece(&share.pieces()[0]);
                    assert_eq!(peer[5], pattern(4, start * page + 5));
                }
            });
        }
    });
    check(memory.at(0), 32 * page, 4);
    assert_eq!(table::lock().within(&(base..base + 32 * page)).count(), 0);
}
