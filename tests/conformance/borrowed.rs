//! Windows over memory that the program lends, and uses all the while: by other threads, by forked
//! children, by a file.

use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use transom::raw::{Assert, Window, get_address};
use transom::{Info, Job, LockKind, Op};

use crate::case::{Case, Failure, Outcome, cases, check, check_eq};
use crate::ops::{fetch_and_op, get, put};

pub(crate) const CASES: &[Case] = cases!["borrowed":
    threads_write_to_the_window_and_beside_it @ [2],
    a_forked_child_has_its_own_copy @ [1, 2],
    over_mapped_files_and_shared_memory @ [2, 3],
    many_attached_regions @ [2, 3],
];

/// Whole pages of words.
pub(crate) struct Words {
    base: *mut u8,
    len: usize,
}

impl Words {
    pub(crate) fn new(pages: usize) -> Self {
        let len = pages * 4096;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the kernel chooses the place.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, prot, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED);
        Self {
            base: base.cast(),
            len,
        }
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }

    /// In bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn all(&self) -> &[AtomicU64] {
        // SAFETY: mapped, aligned, zero at first, and used as atomics by everybody.
        unsafe { std::slice::from_raw_parts(self.base.cast(), self.len / 8) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: the mapping is our own, and in no window any more.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

/// A thread adds to words in the window and on its edge pages, through many lives of the window;
/// each life, every rank adds to other words of the other's. Nothing is lost.
fn threads_write_to_the_window_and_beside_it(job: &Job) -> Outcome {
    const ROUNDS: u64 = 40;
    let world = job.world();
    let words = Words::new(6);
    let all = words.all();
    let (first, last) = (2, all.len() - 2);
    let of_peers = [0, 511, 1500, last - first - 1];
    let for_peers = |index: usize| of_peers.contains(&index.wrapping_sub(first));
    let (runs, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut passes = 0;
    thread::scope(|scope| -> Outcome {
        let writer = scope.spawn(|| {
            let mut passes = 0;
            runs.store(true, Ordering::Relaxed);
            while !stop.load(Ordering::Relaxed) {
                for (index, word) in all.iter().enumerate() {
                    if !for_peers(index) {
                        word.fetch_add(1, Ordering::Relaxed);
                    }
                }
                passes += 1;
            }
            passes
        });
        // Both processors may have other work at first.
        while !runs.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        let body = || -> Outcome {
            for _ in 0..ROUNDS {
                let base = words.base.wrapping_add(first * 8);
                let size = (last - first) * 8;
                // SAFETY: mapped until the end of the case, and only used by atomics.
                let window = unsafe { Window::create(world, base, size, 8, &Info::new())? };
                window.lock_all(Assert::NONE)?;
                let other = (world.rank() + 1) % world.size();
                for word in of_peers {
                    fetch_and_op(&window, 1_u64 << 40, other, word as u64, Op::Sum)?;
                }
                window.unlock_all()?;
                window.free()?;
            }
            Ok(())
        };
        let outcome = body();
        stop.store(true, Ordering::Relaxed);
        passes = writer.join().unwrap_or(u64::MAX);
        outcome
    })?;
    check!(passes > 0, "the writer ran");
    for (index, word) in all.iter().enumerate() {
        let expected = match for_peers(index) {
            true => ROUNDS << 40,
            false => passes,
        };
        check_eq!(word.load(Ordering::Relaxed), expected, "word {index}");
    }
    Ok(())
}

/// What a child sees is what was there when it was made, and what it writes is its own.
fn a_forked_child_has_its_own_copy(job: &Job) -> Outcome {
    let world = job.world();
    let words = Words::new(5);
    let all = words.all();
    for (number, word) in (1..).zip(all) {
        word.store(number, Ordering::Relaxed);
    }
    let base = words.base.wrapping_add(16);
    // SAFETY: mapped until the end of the case, and only used by atomics and transfers.
    let window = unsafe { Window::create(world, base, words.len - 32, 8, &Info::new())? };
    let other = (world.rank() + 1) % world.size();
    window.lock(LockKind::Exclusive, other, Assert::NONE)?;
    let put_before = 7_000_u64.to_ne_bytes();
    put(&window, &put_before, other, 600)?;
    window.unlock(other)?;
    world.barrier()?;
    let mut pipe = [0; 2];
    // SAFETY: two descriptors are written to the array.
    check_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    // SAFETY: the child calls nothing but atomics, read and _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mut byte = 0_u8;
        // SAFETY: one byte is read, once the parent has changed its own copy.
        unsafe { libc::read(pipe[0], (&raw mut byte).cast(), 1) };
        let as_before = all.iter().enumerate().all(|(index, word)| {
            let expected = if index == 602 {
                7_000
            } else {
                index as u64 + 1
            };
            word.swap(0, Ordering::Relaxed) == expected
        });
        // SAFETY: ends the child.
        unsafe { libc::_exit(if as_before { 0 } else { 1 }) };
    }
    check!(child > 0, "fork");
    world.barrier()?;
    for word in all {
        word.fetch_add(1 << 32, Ordering::Relaxed);
    }
    let mut status = 0;
    // SAFETY: one byte is written, and the status is a local.
    unsafe {
        libc::write(pipe[1], [0_u8].as_ptr().cast(), 1);
        libc::waitpid(child, &raw mut status, 0);
        libc::close(pipe[0]);
        libc::close(pipe[1]);
    }
    check_eq!(status, 0, "the child saw what its parent wrote later");
    let mut seen = [0; 8];
    world.barrier()?;
    window.lock(LockKind::Shared, other, Assert::NONE)?;
    get(&window, &mut seen, other, 600)?;
    window.unlock(other)?;
    check_eq!(
        u64::from_ne_bytes(seen),
        7_000 + (1 << 32),
        "the parent's copy is the window"
    );
    window.free()?;
    for (index, word) in all.iter().enumerate() {
        let before = if index == 602 {
            7_000
        } else {
            index as u64 + 1
        };
        check_eq!(
            word.load(Ordering::Relaxed),
            before + (1 << 32),
            "word {index}"
        );
    }
    Ok(())
}

fn over_mapped_files_and_shared_memory(job: &Job) -> Outcome {
    const LEN: usize = 3 * 4096;
    let world = job.world();
    let mut file = tempfile::tempfile().map_err(Failure::new)?;
    check!(file.write_all(&[9; LEN]).is_ok(), "filling the file");
    let anonymous = libc::MAP_ANONYMOUS;
    for (what, flags, fd) in [
        (
            "a private mapping of a file",
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
        ),
        ("shared memory", libc::MAP_SHARED | anonymous, -1),
        (
            "a shared mapping of a file",
            libc::MAP_SHARED,
            file.as_raw_fd(),
        ),
    ] {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the place.
        let base = unsafe { libc::mmap(ptr::null_mut(), LEN, prot, flags, fd, 0) };
        check!(base != libc::MAP_FAILED, "mapping {what}");
        // SAFETY: mapped until the window is freed.
        let window = unsafe { Window::create(world, base.cast(), LEN, 1, &Info::new())? };
        let other = (world.rank() + 1) % world.size();
        window.lock_all(Assert::NONE)?;
        let fives = [5; 100];
        put(&window, &fives, other, 4090)?;
        fetch_and_op(&window, 3_u32, other, 8000, Op::Replace)?;
        window.flush_all()?;
        let mut back = [0; 100];
        get(&window, &mut back, other, 4090)?;
        window.unlock_all()?;
        check_eq!(back, fives, "{what}");
        window.free()?;
        // SAFETY: our own mapping, which nobody else writes to any more.
        unsafe {
            let bytes = std::slice::from_raw_parts(base.cast::<u8>(), LEN);
            check_eq!(bytes[4090..4190], fives, "{what}");
            check_eq!(bytes[8000..8004], 3_u32.to_ne_bytes(), "{what}");
            libc::munmap(base, LEN);
        }
    }
    let mut content = Vec::new();
    // SAFETY: only moves the file's position.
    unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_SET) };
    check!(file.read_to_end(&mut content).is_ok(), "reading the file");
    check_eq!(
        content[4089..4191],
        [&[9][..], &[5; 100], &[9]].concat(),
        "the file has it"
    );
    Ok(())
}

/// All of them are reached, and come and go.
fn many_attached_regions(job: &Job) -> Outcome {
    const REGIONS: usize = 200;
    let world = job.world();
    let words = Words::new(2 * REGIONS);
    let window = Window::create_dynamic(world, &Info::new())?;
    let place = |number: usize| words.base.wrapping_add(8192 * number + 64);
    // SAFETY: the memory outlives the window, and is used as atomics.
    let attach = |number: usize| unsafe { window.attach(place(number), 4032) };
    (0..REGIONS).try_for_each(attach)?;
    let all = world.allgather(&[get_address(words.base)])?;
    let rounds = u64::from(world.size());
    for round in 1..=2_u64 {
        window.lock_all(Assert::NONE)?;
        for (target, &there) in (0..).zip(&all) {
            for number in 0..REGIONS as u64 {
                let disp = there + 8192 * number + 64;
                fetch_and_op(&window, number, target, disp, Op::Sum)?;
                put(&window, &round.to_ne_bytes(), target, disp + 8)?;
                window.flush(target)?;
                let mut found = [0; 8];
                get(&window, &mut found, target, disp + 8)?;
                window.flush(target)?;
                check_eq!(u64::from_ne_bytes(found), round);
            }
        }
        window.unlock_all()?;
        world.barrier()?;
        for number in 0..REGIONS {
            let word = &words.all()[1024 * number + 8];
            let wanted = round * rounds * number as u64;
            check_eq!(word.load(Ordering::SeqCst), wanted, "region {number}");
        }
        for number in (0..REGIONS).rev() {
            window.detach(place(number))?;
        }
        (0..REGIONS).rev().try_for_each(attach)?;
        world.barrier()?;
    }
    window.free()?;
    Ok(())
}
