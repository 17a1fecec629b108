//! The kernel refuses in the middle: nothing is lost, and what was done stays done.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::*;
use crate::soft::adopt::stretch::CHUNK;
use crate::soft::adopt::sys::page_size;

/// Makes a page one that cannot be read, as a memory failure would. Linux 6.6.
fn poison(page: *mut u8) -> bool {
    const MISSING: u64 = 1;
    const FEATURE_POISON: u64 = 1 << 14;
    let page = page.addr() as u64;
    let size = page_size() as u64;
    // SAFETY: each request goes with its structure: the API version, its features and ioctls;
    // the range, the mode and ioctls; the range, the mode and what was done.
    unsafe {
        let fd = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | 1);
        if fd < 0 {
            return false;
        }
        let fd = OwnedFd::from_raw_fd(fd as RawFd);
        let call = |request: u64, argument: &mut [u64]| {
            libc::ioctl(fd.as_raw_fd(), request as _, argument.as_mut_ptr()) == 0
        };
        call(0xC018_AA3F, &mut [0xAA, FEATURE_POISON, 0])
            && call(0xC020_AA00, &mut [page, size, MISSING, 0])
            && call(0xC020_AA08, &mut [page, size, 0, 0])
    }
}

#[test]
fn a_bad_page_in_the_second_chunk() {
    let page = page_size();
    let work = || {
        let memory = Memory::anonymous(2 * CHUNK);
        fill(memory.base, CHUNK, 1);
        if !poison(memory.at(CHUNK + 2 * page)) {
            eprintln!("no UFFDIO_POISON here");
            return;
        }
        let start = memory.base.addr();
        let share = adopt_all(memory.base, 2 * CHUNK).unwrap();
        assert_eq!(covered(&share), start..start + CHUNK);
        check(memory.base, CHUNK, 1);
        let second = adopt_all(memory.at(CHUNK), CHUNK);
        assert!(
            matches!(second, Err(Declined::Kernel(why)) if why.call == "madvise"),
            "{second:?}"
        );
        drop(share);
        check(memory.base, CHUNK, 1);
        assert_eq!(table::lock().within(&(start..start + 2 * CHUNK)).count(), 0);
    };
    in_child(work);
    if has_userfaultfd() {
        work();
    }
}

fn data_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmData:"));
    let kib: u64 = line
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    kib * 1024
}

fn limit_data(bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the structure is this frame's.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_DATA, &raw const limit) };
    assert_eq!(result, 0);
}

#[test]
fn no_room_to_give_all_chunks_back() {
    let work = || {
        let memory = Memory::anonymous(3 * CHUNK);
        let all = memory.base.addr()..memory.base.addr() + 3 * CHUNK;
        let left = || {
            table::lock()
                .within(&all)
                .map(|(part, _)| part)
                .collect::<Vec<_>>()
        };
        fill(memory.base, 3 * CHUNK, 1);
        let share = adopt_all(memory.base, 3 * CHUNK).unwrap();
        // Private memory counts as data, adopted memory does not.
        limit_data(data_bytes() + (CHUNK + CHUNK / 2) as u64);
        drop(share);
        limit_data(libc::RLIM_INFINITY);
        // One chunk went back, or two: the kernel's check leaves out what a mapping replaces.
        let rest = left();
        assert_eq!((rest.len(), rest[0].end), (1, all.end));
        assert!([CHUNK, 2 * CHUNK].contains(&rest[0].len()), "{rest:?}");
        check(memory.base, 3 * CHUNK, 1);
        // The rest is taken over by the next share, and goes back with it.
        let share = adopt_all(memory.base, 3 * CHUNK).unwrap();
        assert_eq!(covered(&share), all);
        drop(share);
        assert!(left().is_empty());
        check(memory.base, 3 * CHUNK, 1);
    };
    in_child(work);
    if has_userfaultfd() {
        in_child(|| {
            let (stop, stopped) = std::sync::mpsc::channel::<()>();
            let other = std::thread::spawn(move || {
                let _ = stopped.recv();
            });
            work();
            drop(stop);
            other.join().unwrap();
        });
    }
}

#[test]
fn no_mapping_left_to_split() {
    let page = page_size();
    in_child(|| {
        let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
        let limit: usize = limit.trim().parse().unwrap();
        if limit > 200_000 {
            eprintln!("{limit} mappings are too many to fill here");
            return;
        }
        let memory = Memory::anonymous(8 * page);
        fill(memory.base, 8 * page, 1);
        let filler = Memory::map(
            2 * limit * page,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
        );
        for index in 0..limit {
            let at = filler.at(2 * index * page);
            // SAFETY: the memory is the test's.
            if unsafe { libc::mprotect(at.cast(), page, libc::PROT_READ) } != 0 {
                break;
            }
        }
        let refused = adopt_all(memory.at(2 * page), 2 * page);
        assert!(
            matches!(refused, Err(Declined::Kernel(why)) if why.errno == libc::ENOMEM),
            "{refused:?}"
        );
        check(memory.base, 8 * page, 1);
        drop(filler);
        drop(adopt_all(memory.at(2 * page), 2 * page).unwrap());
        check(memory.base, 8 * page, 1);
    });
}
