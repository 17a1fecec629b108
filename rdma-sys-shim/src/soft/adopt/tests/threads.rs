//! Other threads write to the memory and beside it all the while; not one write is lost.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::*;
use crate::soft::adopt::sys::page_size;

/// Words as threads see them that increment without atomic instructions.
fn words(memory: &Memory) -> &'static [AtomicU64] {
    // SAFETY: the memory is aligned to pages and mapped until the end of the test, whose threads
    // access it by atomics only.
    unsafe { std::slice::from_raw_parts(memory.base.cast(), memory.len / 8) }
}

/// Increments every `stride`-th word from `first`, over and over, and returns how often.
fn increment(words: &[AtomicU64], first: usize, stride: usize, stop: &AtomicBool) -> u64 {
    let mut passes = 0;
    while !stop.load(Ordering::Relaxed) {
        for word in words.iter().skip(first).step_by(stride) {
            // A load and a store, both plain on every machine: as fast and as fragile as can be.
            word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        passes += 1;
    }
    passes
}

fn no_increment_is_lost(pages: usize, rounds: usize, offset: usize) {
    const WRITERS: usize = 2;
    let page = page_size();
    let memory = Memory::anonymous(pages * page);
    let words = words(&memory);
    let stop = AtomicBool::new(false);
    let passes: Vec<u64> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn({
                    let stop = &stop;
                    move || increment(words, writer, WRITERS, stop)
                })
            })
            .collect();
        for _ in 0..rounds {
            let share = adopt_all(memory.at(offset), memory.len - 2 * offset).unwrap();
            std::thread::yield_now();
            drop(share);
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|w| w.join().unwrap()).collect()
    });
    assert!(passes.iter().all(|&passes| passes > 0));
    for (index, word) in words.iter().enumerate() {
        assert_eq!(
            word.load(Ordering::Relaxed),
            passes[index % WRITERS],
            "word {index}"
        );
    }
    eprintln!(
        "{} increments over {rounds} rounds of {pages} pages, none lost",
        passes.iter().sum::<u64>() * (words.len() / WRITERS) as u64
    );
}

#[test]
fn increments_inside_and_beside() {
    if !has_userfaultfd() {
        return;
    }
    no_increment_is_lost(3, 600, 16);
    no_increment_is_lost(64, 400, 8);
    no_increment_is_lost(512, 100, 4096);
}

#[test]
fn increments_inside_without_kernel_privilege() {
    if !has_userfaultfd() {
        return;
    }
    restriction::with(uffd::Restriction::UserModeOnly, || {
        no_increment_is_lost(32, 300, 16)
    });
}

#[test]
fn increments_over_more_than_a_chunk() {
    if !has_userfaultfd() {
        return;
    }
    let _quiet = quiet();
    no_increment_is_lost(2 * stretch::CHUNK / page_size() + 3, 10, 16);
}

#[test]
fn first_writes_to_fresh_pages() {
    if !has_userfaultfd() {
        return;
    }
    const PAGES: usize = 128;
    let page = page_size();
    for round in 0..300 {
        let memory = Memory::anonymous(PAGES * page);
        let words = words(&memory);
        let go = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let go = &go;
                scope.spawn(move || {
                    go.fetch_add(1, Ordering::AcqRel);
                    while go.load(Ordering::Acquire) < 3 {
                        std::hint::spin_loop();
                    }
                    for index in 0..PAGES {
                        // The one thread upwards, the other downwards.
                        let at = if thread == 0 {
                            index
                        } else {
                            PAGES - 1 - index
                        };
                        words[at * page / 8 + thread].store(round + 1, Ordering::Relaxed);
                    }
                });
            }
            go.fetch_add(1, Ordering::AcqRel);
            while go.load(Ordering::Acquire) < 3 {
                std::hint::spin_loop();
            }
            drop(adopt_all(memory.at(0), memory.len).unwrap());
        });
        for at in 0..PAGES {
            for thread in 0..2 {
                let found = words[at * page / 8 + thread].load(Ordering::Relaxed);
                assert_eq!(
                    found,
                    round + 1,
                    "round {round}, page {at}, thread {thread}"
                );
            }
        }
    }
}

/// Adopted by one thread, edges included; given back while others write, some of them by
/// system calls into the edges.
fn edges_adopted_before_there_were_threads(restriction: uffd::Restriction) {
    let page = page_size();
    in_child(|| {
        let memory = Memory::anonymous(4 * page);
        let all = memory.base.addr()..memory.base.addr() + 4 * page;
        let words = words(&memory);
        let (mut calls, mut passes) = (0_u64, 0);
        for _ in 0..200 {
            // A joined thread is listed for a moment longer.
            while neighbours::threads() != Ok(1) {
                std::thread::yield_now();
            }
            let share = adopt_all(memory.at(64), memory.len - 128).unwrap();
            assert_eq!(covered(&share), all);
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let writer = scope.spawn(|| increment(&words[1..], 0, 1, &stop));
                let caller = scope.spawn(|| {
                    let mut calls = 0;
                    while !stop.load(Ordering::Relaxed) {
                        calls += 1;
                        let mut ends = [0; 2];
                        // SAFETY: the first word of the memory is beside the region, and this
                        // thread's.
                        unsafe {
                            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
                            let value = u64::to_ne_bytes(calls);
                            assert_eq!(libc::write(ends[1], value.as_ptr().cast(), 8), 8);
                            let read = libc::read(ends[0], words.as_ptr().cast_mut().cast(), 8);
                            assert_eq!(read, 8, "{}", std::io::Error::last_os_error());
                        }
                        sys::close(ends[0]);
                        sys::close(ends[1]);
                        assert_eq!(words[0].load(Ordering::Relaxed), calls);
                    }
                    calls
                });
                restriction::with(restriction, || drop(share));
                stop.store(true, Ordering::Relaxed);
                passes += writer.join().unwrap();
                calls += caller.join().unwrap();
            });
            let left: usize = table::lock().within(&all).map(|(part, _)| part.len()).sum();
            let edges = if restriction == uffd::Restriction::None {
                0
            } else {
                2 * page
            };
            let privileged = uffd::Uffd::open().is_ok_and(|uffd| uffd.holds_kernel_writes());
            if privileged || restriction != uffd::Restriction::None {
                assert_eq!(left, edges);
            }
        }
        assert!(passes > 0 && calls > 0);
        for (index, word) in words[1..].iter().enumerate() {
            assert_eq!(word.load(Ordering::Relaxed), passes, "word {index}");
        }
    });
}

#[test]
fn edges_given_back_while_threads_write_there() {
    if has_userfaultfd() {
        edges_adopted_before_there_were_threads(uffd::Restriction::None);
    }
}

#[test]
fn edges_stay_adopted_where_calls_would_fail() {
    if has_userfaultfd() {
        edges_adopted_before_there_were_threads(uffd::Restriction::UserModeOnly);
    }
}

/// A signal handler that writes to the memory while it is moved by the thread it interrupts.
#[test]
fn signal_handlers_that_write() {
    static TARGET: AtomicUsize = AtomicUsize::new(0);
    static COUNT: AtomicU64 = AtomicU64::new(0);

    extern "C" fn handler(_: i32) {
        let word = TARGET.load(Ordering::Relaxed) as *mut u64;
        // SAFETY: the test's memory, which stays mapped while the timer runs.
        unsafe { word.write_volatile(word.read_volatile() + 1) };
        COUNT.fetch_add(1, Ordering::Relaxed);
    }

    let page = page_size();
    in_child(|| {
        let memory = Memory::anonymous(64 * page);
        TARGET.store(memory.base.addr() + 8, Ordering::Relaxed);
        let timer = libc::itimerval {
            it_interval: libc::timeval {
                tv_sec: 0,
                tv_usec: 50,
            },
            it_value: libc::timeval {
                tv_sec: 0,
                tv_usec: 50,
            },
        };
        // SAFETY: the handler is async-signal-safe; the structures are this frame's.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as extern "C" fn(i32) as usize;
            action.sa_flags = libc::SA_RESTART;
            assert_eq!(
                libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()),
                0
            );
            assert_eq!(
                libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()),
                0
            );
        }
        for _ in 0..2000 {
            drop(adopt_all(memory.at(0), memory.len).unwrap());
        }
        // SAFETY: stops the timer.
        unsafe {
            let off: libc::itimerval = std::mem::zeroed();
            libc::setitimer(libc::ITIMER_REAL, &raw const off, std::ptr::null_mut());
        }
        let count = COUNT.load(Ordering::Relaxed);
        assert!(count > 100, "{count} signals");
        assert_eq!(words(&memory)[1].load(Ordering::Relaxed), count);
    });
}

/// The library's own threads do not count while they are parked.
#[test]
fn own_threads_that_are_parked() {
    let page = page_size();
    in_child(|| {
        let memory = Memory::anonymous(4 * page);
        let pages = memory.base.addr()..memory.base.addr() + 4 * page;
        fill(memory.base, 4 * page, 1);
        let (stop, parked) = std::sync::mpsc::channel::<()>();
        let own = std::thread::spawn(move || {
            let _ = parked.recv();
        });
        // No userfaultfd: the direct way is the only one.
        restriction::with(uffd::Restriction::Missing, || {
            let refused = adopt_all(memory.base, 4 * page);
            assert!(matches!(refused, Err(Declined::NoUserfaultfd(_))));
            // SAFETY: the one thread besides this waits for the channel.
            let share = unsafe { adopt(memory.at(16), 3 * page, 1, &nothing_in_use) }.unwrap();
            assert_eq!(covered(&share), pages);
            check(memory.base, 4 * page, 1);
            // SAFETY: as above.
            unsafe { share.release(1) };
            assert_eq!(table::lock().within(&pages).count(), 0);
            check(memory.base, 4 * page, 1);
        });
        drop(stop);
        own.join().unwrap();
    });
}
