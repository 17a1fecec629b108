//! Memory that must stay as it is, and the reason given.

use std::io::Write;
use std::os::fd::AsRawFd;

use super::*;
use crate::soft::adopt::sys::page_size;

/// Both in a process of one thread and of several.
fn both_ways(work: impl Fn()) {
    work();
    in_child(&work);
}

fn reason(base: *mut u8, len: usize) -> Declined {
    adopt_all(base, len).expect_err("adopted")
}

#[test]
fn nothing_and_nonsense() {
    let page = page_size();
    both_ways(|| {
        let memory = Memory::anonymous(page);
        assert_eq!(reason(memory.at(0), 0), Declined::Empty);
        assert_eq!(reason(usize::MAX as *mut u8, 2), Declined::Empty);
        let low = 0x1000 as *mut u8;
        assert_eq!(reason(low, page), Declined::NotMapped);
    });
}

#[test]
fn stacks() {
    let page = page_size();
    both_ways(|| {
        let mut buffer = [0_u8; 64 << 10];
        assert_eq!(reason(buffer.as_mut_ptr(), buffer.len()), Declined::Stack);
    });
    // The initial thread's stack, found by its name.
    let mut maps = maps::Reader::maps().unwrap();
    while let Some(vma) = maps.next_mapping().unwrap() {
        if vma.name == maps::Name::Stack {
            let top = (vma.range.end - 4 * page) as *mut u8;
            assert_eq!(reason(top, 2 * page), Declined::Stack);
            return;
        }
    }
    panic!("no stack in /proc/self/maps");
}

#[test]
fn shared_and_file_backed() {
    let page = page_size();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![1; 4 * page]).unwrap();
    let zero = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/zero")
        .unwrap();
    both_ways(|| {
        for (flags, fd) in [
            (libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1),
            (libc::MAP_SHARED, file.as_raw_fd()),
            (libc::MAP_PRIVATE, file.as_raw_fd()),
            (libc::MAP_SHARED, zero.as_raw_fd()),
            (libc::MAP_PRIVATE, zero.as_raw_fd()),
        ] {
            let memory = Memory::map(4 * page, flags, fd);
            assert_eq!(
                reason(memory.at(0), 4 * page),
                Declined::NotPrivateAnonymous,
                "{flags:#x} {fd}"
            );
        }
        // SAFETY: a segment of the test's own, removed at once and unmapped below.
        unsafe {
            let id = libc::shmget(libc::IPC_PRIVATE, 4 * page, 0o600);
            assert!(id >= 0);
            let base = libc::shmat(id, std::ptr::null(), 0);
            assert_eq!(libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()), 0);
            let why = reason(base.cast(), 4 * page);
            assert_eq!(why, Declined::NotPrivateAnonymous);
            libc::shmdt(base);
        }
    });
}

#[test]
fn marked_by_madvise() {
    let page = page_size();
    both_ways(|| {
        for (advice, expected) in [
            (libc::MADV_DONTFORK, Declined::DontFork),
            (libc::MADV_WIPEONFORK, Declined::WipeOnFork),
            (libc::MADV_SEQUENTIAL, Declined::UnknownFlag),
        ] {
            let memory = Memory::anonymous(4 * page);
            // SAFETY: the memory is the test's.
            let result = unsafe { libc::madvise(memory.base.cast(), 4 * page, advice) };
            assert_eq!(result, 0);
            assert_eq!(reason(memory.at(0), 4 * page), expected);
        }
    });
}

#[test]
fn locked() {
    let page = page_size();
    both_ways(|| {
        let memory = Memory::anonymous(4 * page);
        // SAFETY: the memory is the test's.
        let result = unsafe { libc::mlock(memory.base.cast(), page) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        assert_eq!(reason(memory.at(0), page), Declined::Locked);
    });
}

#[test]
fn protected() {
    let page = page_size();
    both_ways(|| {
        let memory = Memory::anonymous(4 * page);
        for protection in [
            libc::PROT_NONE,
            libc::PROT_READ,
            libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
        ] {
            // SAFETY: the memory is the test's.
            let result = unsafe { libc::mprotect(memory.base.cast(), 4 * page, protection) };
            assert_eq!(result, 0);
            assert_eq!(reason(memory.at(0), 4 * page), Declined::Protection);
        }
    });
}

#[test]
fn with_a_memory_policy() {
    let page = page_size();
    both_ways(|| {
        const MPOL_BIND: i32 = 2;
        let memory = Memory::anonymous(4 * page);
        let nodes = 1_u64;
        // SAFETY: the memory is the test's; the mask is this frame's.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                memory.base,
                4 * page,
                MPOL_BIND,
                &raw const nodes,
                64,
                0,
            )
        };
        if result != 0 {
            eprintln!("no mbind here: {}", std::io::Error::last_os_error());
            return;
        }
        assert_eq!(reason(memory.at(0), 4 * page), Declined::Policy);
    });
}

#[test]
fn registered_with_another_userfaultfd() {
    let page = page_size();
    let Ok(other) = uffd::Uffd::open() else {
        assert!(!has_userfaultfd());
        return;
    };
    let memory = Memory::anonymous(4 * page);
    other.protect(memory.base.addr(), 4 * page).unwrap();
    assert_eq!(reason(memory.at(0), 4 * page), Declined::Userfaultfd);
    other.release(memory.base.addr(), 4 * page);
    if has_userfaultfd() {
        drop(adopt_all(memory.at(0), 4 * page).unwrap());
    }
}

#[test]
fn several_threads_and_no_whole_page() {
    let page = page_size();
    let memory = Memory::anonymous(4 * page);
    assert_eq!(reason(memory.at(16), page), Declined::NoWholePage);
    assert_eq!(reason(memory.at(16), 2 * page - 32), Declined::NoWholePage);
}

#[test]
fn several_threads_and_no_userfaultfd() {
    let page = page_size();
    let memory = Memory::anonymous(4 * page);
    restriction::with(uffd::Restriction::Missing, || {
        let why = reason(memory.at(0), 4 * page);
        assert!(
            matches!(why, Declined::NoUserfaultfd(r) if r.errno == libc::ENOSYS),
            "{why}"
        );
    });
}

#[test]
fn pages_of_another_region() {
    let page = page_size();
    let work = || {
        let memory = Memory::anonymous(8 * page);
        let start = memory.base.addr();
        let other = start + 2 * page..start + 3 * page;
        let in_use = |pages: Range<usize>| pages.start < other.end && other.start < pages.end;
        // SAFETY: the contract of the tests, as above.
        let share = unsafe { adopt(memory.at(0), 8 * page, 0, &in_use) }.unwrap();
        assert_eq!(covered(&share), start + 3 * page..start + 8 * page);
        // SAFETY: as above.
        let refused = unsafe { adopt(memory.at(2 * page), page, 0, &in_use) };
        assert_eq!(refused.unwrap_err(), Declined::InUse);
    };
    if has_userfaultfd() {
        work();
    }
    in_child(work);
}

#[test]
fn the_largest_run_of_several_mappings_is_taken() {
    let page = page_size();
    let work = || {
        let memory = Memory::anonymous(16 * page);
        fill(memory.at(0), 16 * page, 3);
        // SAFETY: the memory is the test's.
        let result =
            unsafe { libc::madvise(memory.at(5 * page).cast(), page, libc::MADV_DONTFORK) };
        assert_eq!(result, 0);
        let share = adopt_all(memory.at(0), 16 * page).unwrap();
        let start = memory.base.addr();
        assert_eq!(covered(&share), start + 6 * page..start + 16 * page);
        drop(share);
        check(memory.at(0), 16 * page, 3);
    };
    if has_userfaultfd() {
        work();
    }
    in_child(work);
}

#[test]
fn edges_beside_asynchronous_io() {
    let page = page_size();
    in_child(|| {
        let memory = Memory::anonymous(4 * page);
        let start = memory.base.addr();
        drop(adopt_all(memory.at(16), 64).unwrap());
        let mut context = 0_u64;
        // SAFETY: the context is this frame's.
        let result = unsafe { libc::syscall(libc::SYS_io_setup, 8, &raw mut context) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        assert_eq!(
            reason(memory.at(16), 64),
            Declined::EdgeMayBeWrittenByKernel
        );
        let share = adopt_all(memory.at(16), 3 * page).unwrap();
        assert_eq!(covered(&share), start + page..start + 3 * page);
    });
    in_child(|| {
        let memory = Memory::anonymous(4 * page);
        let mut parameters = [0_u8; 120];
        // SAFETY: the structure of parameters has this size.
        let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, parameters.as_mut_ptr()) };
        if ring < 0 {
            eprintln!("no io_uring here: {}", std::io::Error::last_os_error());
            return;
        }
        assert_eq!(
            reason(memory.at(16), 64),
            Declined::EdgeMayBeWrittenByKernel
        );
        sys::close(ring as RawFd);
        drop(adopt_all(memory.at(16), 64).unwrap());
    });
}

#[test]
fn edges_with_thread_local_storage() {
    thread_local! {
        static LOCAL: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }
    in_child(|| {
        let why = LOCAL.with(|local| reason(local.as_ptr().cast(), 8));
        // A thread's storage may be in the same mapping as its stack.
        assert!(
            matches!(why, Declined::EdgeHoldsRuntimeState | Declined::Stack),
            "{why}"
        );
    });
}

#[test]
fn files_limited_below_the_memory() {
    let page = page_size();
    in_child(|| {
        let memory = Memory::anonymous(4 * page);
        let limit = libc::rlimit {
            rlim_cur: page as u64,
            rlim_max: page as u64,
        };
        // SAFETY: the structure is this frame's.
        let result = unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
        assert_eq!(result, 0);
        assert_eq!(reason(memory.at(0), 4 * page), Declined::FileSizeLimit);
        drop(adopt_all(memory.at(0), page).unwrap());
    });
}

#[test]
fn out_of_descriptors() {
    let page = page_size();
    in_child(|| {
        let memory = Memory::anonymous(4 * page);
        fill(memory.at(0), 4 * page, 1);
        let mut taken = Vec::new();
        while let Ok(file) = std::fs::File::open("/dev/null") {
            taken.push(file);
        }
        assert!(matches!(
            reason(memory.at(0), 4 * page),
            Declined::Kernel(_)
        ));
        check(memory.at(0), 4 * page, 1);
    });
}

/// With many adopted, small ones are left as they are, until some have been given back.
#[test]
fn more_than_pays() {
    let page = page_size();
    in_child(|| {
        let memory = Memory::anonymous(300 * page);
        let large = Memory::anonymous(1 << 20);
        let mut shares = Vec::new();
        let declined = loop {
            match adopt_all(memory.at(2 * shares.len() * page), page) {
                Ok(share) => shares.push(share),
                Err(why) => break why,
            }
        };
        let moved = shares.len();
        assert_eq!(declined, Declined::TooMany { moved });
        assert!((32..=128).contains(&moved), "{moved}");
        // Pages that are adopted take no more; large ones are worth it.
        let first = adopt_all(memory.at(16), 32).unwrap();
        assert_eq!(first.pieces().len(), 1);
        let large = adopt_all(large.at(0), 1 << 20).unwrap();
        assert_eq!(reason(memory.at(250 * page), 8), declined_after(&declined));
        drop(large);
        drop(shares.pop());
        shares.push(adopt_all(memory.at(250 * page), 8).unwrap());
        // A page that is half adopted needs one more.
        drop(first);
        let both = memory.at(0);
        assert_eq!(reason(both, 2 * page), declined);
    });
}

/// With one piece more than there were.
fn declined_after(declined: &Declined) -> Declined {
    match *declined {
        Declined::TooMany { moved } => Declined::TooMany { moved: moved + 1 },
        other => other,
    }
}
