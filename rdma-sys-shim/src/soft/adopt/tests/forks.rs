//! A forked child has private copies of adopted pages.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;
use crate::soft::adopt::sys::page_size;

/// Two processes take turns.
struct Turns {
    to_child: [RawFd; 2],
    to_parent: [RawFd; 2],
}

impl Turns {
    fn new() -> Self {
        let (mut to_child, mut to_parent) = ([0; 2], [0; 2]);
        // SAFETY: each array has room for two descriptors.
        unsafe {
            assert_eq!(libc::pipe(to_child.as_mut_ptr()), 0);
            assert_eq!(libc::pipe(to_parent.as_mut_ptr()), 0);
        }
        Self {
            to_child,
            to_parent,
        }
    }

    fn pass(fd: RawFd) {
        // SAFETY: the byte is a constant.
        assert_eq!(unsafe { libc::write(fd, c"".as_ptr().cast(), 1) }, 1);
    }

    fn await_turn(fd: RawFd) {
        let mut byte = [0];
        assert_eq!(sys::read(fd, &mut byte), Ok(1));
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        self.to_child
            .into_iter()
            .chain(self.to_parent)
            .for_each(sys::close);
    }
}

/// A fork whose child runs `work`, which says whether all is well there.
fn fork(work: impl FnOnce() -> bool) -> libc::pid_t {
    // SAFETY: the child calls only what it may, and ends by `_exit`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: no preconditions.
        unsafe { libc::alarm(60) };
        let well = work();
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!well)) };
    }
    pid
}

fn is(base: *const u8, len: usize, seed: u64) -> bool {
    // SAFETY: the memory is the test's.
    (0..len).all(|index| unsafe { base.add(index).read_volatile() } == pattern(seed, index))
}

fn snapshots_are_private() {
    let page = page_size();
    let memory = Memory::anonymous(8 * page);
    let base = memory.base;
    fill(base, 8 * page, 1);
    let share = adopt_all(memory.at(page), 5 * page).unwrap();
    let second = adopt_all(memory.at(3 * page), 5 * page).unwrap();
    let peer = map_piece(&share.pieces()[0]);
    let turns = Turns::new();
    let pid = fork(|| {
        Turns::await_turn(turns.to_child[0]);
        let snapshot = is(base, 8 * page, 1);
        fill(base, 8 * page, 3);
        Turns::pass(turns.to_parent[1]);
        Turns::await_turn(turns.to_child[0]);
        snapshot && is(base, 8 * page, 3)
    });
    fill(base, 8 * page, 2);
    Turns::pass(turns.to_child[1]);
    Turns::await_turn(turns.to_parent[0]);
    check(base, 8 * page, 2);
    assert_eq!(peer[0], pattern(2, page), "still adopted here");
    Turns::pass(turns.to_child[1]);
    assert_eq!(wait_for(pid), 0);
    drop(share);
    drop(second);
    check(base, 8 * page, 2);
}

#[test]
fn snapshots_are_private_with_several_threads() {
    if has_userfaultfd() {
        snapshots_are_private();
    }
}

#[test]
fn snapshots_are_private_with_one_thread() {
    in_child(snapshots_are_private);
}

#[test]
fn a_child_may_drop_and_adopt_by_itself() {
    let page = page_size();
    in_child(|| {
        let memory = Memory::anonymous(4 * page);
        let pages = memory.base.addr()..memory.base.addr() + 4 * page;
        fill(memory.at(0), 4 * page, 1);
        let inherited = adopt_all(memory.at(0), 4 * page).unwrap();
        in_child(|| {
            let own = adopt_all(memory.at(0), 4 * page).unwrap();
            fill(memory.at(0), 4 * page, 2);
            // SAFETY: a copy of the parent's share, as the child of a real program has one. The
            // parent's value is in another process.
            drop(unsafe { std::ptr::read(&raw const inherited) });
            assert_eq!(
                table::lock().within(&pages).count(),
                1,
                "not this child's share"
            );
            assert_eq!(map_piece(&own.pieces()[0])[5], pattern(2, 5));
            in_child(|| check(memory.at(0), 4 * page, 2));
            drop(own);
            assert_eq!(table::lock().within(&pages).count(), 0);
            check(memory.at(0), 4 * page, 2);
        });
        check(memory.at(0), 4 * page, 1);
        drop(inherited);
        check(memory.at(0), 4 * page, 1);
    });
}

#[test]
fn orphans_are_copied_too_and_lost_ones_left_alone() {
    if !has_userfaultfd() {
        return;
    }
    let page = page_size();
    let memory = Memory::anonymous(6 * page);
    let base = memory.base;
    let share = adopt_all(base, 6 * page).unwrap();
    restriction::with(uffd::Restriction::Missing, || drop(share));
    // SAFETY: the memory is the test's, and no share of it is left.
    let shared = unsafe {
        libc::mmap(
            memory.at(2 * page).cast(),
            page,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    assert_ne!(shared, libc::MAP_FAILED);
    fill(base, 6 * page, 1);
    let pid = fork(|| {
        let snapshot = is(base, 6 * page, 1);
        fill(base, 6 * page, 2);
        snapshot
    });
    assert_eq!(wait_for(pid), 0);
    check(base, 2 * page, 1);
    for index in 0..page {
        // SAFETY: the memory is the test's.
        let found = unsafe { base.add(2 * page + index).read_volatile() };
        assert_eq!(
            found,
            pattern(2, 2 * page + index),
            "what the owner shares stays shared"
        );
    }
    for index in 3 * page..6 * page {
        // SAFETY: the memory is the test's.
        let found = unsafe { base.add(index).read_volatile() };
        assert_eq!(found, pattern(1, index));
    }
}

#[test]
fn forks_while_other_threads_adopt_and_write() {
    if !has_userfaultfd() {
        return;
    }
    let page = page_size();
    let memory = Memory::anonymous(64 * page);
    let still = Memory::anonymous(16 * page);
    fill(still.base, 16 * page, 5);
    let share = adopt_all(still.base, 16 * page).unwrap();
    // SAFETY: aligned, mapped to the end, accessed by atomics only.
    let words: &[AtomicU64] =
        unsafe { std::slice::from_raw_parts(memory.base.cast(), memory.len / 8) };
    let stop = AtomicBool::new(false);
    let base = memory.base.addr();
    let passes = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut passes = 0;
            while !stop.load(Ordering::Relaxed) {
                for word in words {
                    word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                }
                passes += 1;
            }
            passes
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                drop(adopt_all((base + 16) as *mut u8, 60 * page).unwrap());
            }
        });
        for _ in 0..200 {
            let pid = fork(|| {
                // Whatever the child sees, it is the child's.
                for word in words {
                    word.store(u64::MAX / 2, Ordering::Relaxed);
                }
                let snapshot = is(still.base, 16 * page, 5);
                fill(still.base, 16 * page, 6);
                snapshot
            });
            assert_eq!(wait_for(pid), 0);
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    for (index, word) in words.iter().enumerate() {
        assert_eq!(word.load(Ordering::Relaxed), passes, "word {index}");
    }
    check(still.base, 16 * page, 5);
    drop(share);
    check(still.base, 16 * page, 5);
}

#[test]
fn a_child_without_memory_for_its_copies_ends_and_delays_nobody() {
    let page = page_size();
    in_child(|| {
        let memory = Memory::anonymous(4 * page);
        fill(memory.base, 4 * page, 1);
        let share = adopt_all(memory.base, 4 * page).unwrap();
        // Shared mappings do not count as data, private ones do.
        let little = libc::rlimit {
            rlim_cur: page as u64,
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: the structure is this frame's.
        let result = unsafe { libc::setrlimit(libc::RLIMIT_DATA, &raw const little) };
        assert_eq!(result, 0);
        let start = std::time::Instant::now();
        let pid = fork(|| true);
        assert!(start.elapsed().as_secs() < 5);
        let status = wait_for(pid);
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT);
        check(memory.base, 4 * page, 1);
        assert_eq!(
            map_piece(&share.pieces()[0])[9],
            pattern(1, 9),
            "still adopted"
        );
        // Nor can the pages go back here: they stay as they are.
        drop(share);
        let pages = memory.base.addr()..memory.base.addr() + 4 * page;
        assert_eq!(table::lock().within(&pages).count(), 1);
        check(memory.base, 4 * page, 1);
    });
}

#[test]
fn programs_are_started_as_ever() {
    let page = page_size();
    in_child(|| {
        let memory = Memory::anonymous(4 * page);
        fill(memory.base, 4 * page, 1);
        let share = adopt_all(memory.base, 4 * page).unwrap();
        for _ in 0..20 {
            // The standard library uses posix_spawn.
            let output = std::process::Command::new("echo")
                .arg("here")
                .output()
                .unwrap();
            assert_eq!(output.stdout, b"here\n");
            check(memory.base, 4 * page, 1);
        }
        fill(memory.base, 4 * page, 2);
        assert_eq!(
            map_piece(&share.pieces()[0])[9],
            pattern(2, 9),
            "still adopted"
        );
    });
}
