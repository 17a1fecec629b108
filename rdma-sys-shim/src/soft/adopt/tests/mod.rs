//! Tests of adoption. libtest runs them in threads, so plain tests take the way for several
//! threads; for the other one a test forks, and goes on in the child.

mod content;
mod declines;
mod failures;
mod forks;
mod measure;
mod shares;
mod threads;

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::sys::page_size;
use super::uffd::restriction;
use super::*;

/// For tests that count what the whole process has.
fn quiet() -> MutexGuard<'static, ()> {
    static QUIET: Mutex<()> = Mutex::new(());
    QUIET.lock().unwrap_or_else(PoisonError::into_inner)
}

fn nothing_in_use(_: Range<usize>) -> bool {
    false
}

fn adopt_all(base: *mut u8, len: usize) -> Result<Adopted, Declined> {
    // SAFETY: the tests keep the memory mapped, make no system calls on it meanwhile, and have
    // no threads of the library's own.
    unsafe { adopt(base, len, 0, &nothing_in_use) }
}

/// Whether several threads' pages can be adopted here; says so if not, as the test then checks
/// the reason instead.
fn has_userfaultfd() -> bool {
    match super::uffd::Uffd::open() {
        Ok(_) => true,
        Err(refusal) => {
            eprintln!("no userfaultfd here ({refusal}): only the refusal is tested");
            false
        }
    }
}

/// Runs `work` in a forked child, a process of one thread, and passes its failure on.
fn in_child(work: impl FnOnce()) {
    // SAFETY: glibc makes its allocator usable in the child, and the child ends by `_exit`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        // libtest would capture the message and never print it.
        std::panic::set_hook(Box::new(|info| {
            let text = format!("in the child: {info}\n");
            // SAFETY: the bytes are there.
            unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
        }));
        // A child that hangs ends by itself.
        // SAFETY: no preconditions.
        unsafe { libc::alarm(60) };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(if outcome.is_ok() { 0 } else { 1 }) };
    }
    assert_eq!(wait_for(pid), 0, "the child failed");
}

/// The status of a child that has ended.
fn wait_for(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: the status is this frame's.
    while unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0 {
        assert_eq!(
            std::io::Error::last_os_error().raw_os_error(),
            Some(libc::EINTR)
        );
    }
    status
}

/// Memory of the tests, unmapped on drop.
struct Memory {
    base: *mut u8,
    len: usize,
}

/// Space that is kept on both sides of a test's memory. The kernel may place a mapping right beside
/// the stack of the thread that tests, where pages are rightly left alone.
const APART: usize = 512 << 10;

impl Memory {
    fn map(len: usize, flags: i32, fd: RawFd) -> Self {
        let mapped = |at: *mut u8, len: usize, prot, flags, fd| {
            // SAFETY: the kernel chooses the place, or it lies in the space that it has chosen.
            let base = unsafe { libc::mmap(at.cast(), len, prot, flags, fd, 0) };
            let error = std::io::Error::last_os_error();
            assert_ne!(base, libc::MAP_FAILED, "{error}");
            base.cast::<u8>()
        };
        let nothing = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let whole = len.next_multiple_of(page_size());
        let space = mapped(
            std::ptr::null_mut(),
            whole + 2 * APART,
            libc::PROT_NONE,
            nothing,
            -1,
        );
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let base = mapped(
            space.wrapping_add(APART),
            len,
            prot,
            flags | libc::MAP_FIXED,
            fd,
        );
        Self { base, len }
    }

    /// Anonymous and private.
    fn anonymous(len: usize) -> Self {
        Self::map(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    }

    fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.len);
        self.base.wrapping_add(offset)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let space = self.base.wrapping_sub(APART);
        let len = self.len.next_multiple_of(page_size()) + 2 * APART;
        // SAFETY: the memory and the space around it are the test's, and no share is left.
        unsafe { libc::munmap(space.cast(), len) };
    }
}

/// A pattern in which every word differs from its neighbours and between seeds.
fn pattern(seed: u64, index: usize) -> u8 {
    let word = (seed + index as u64 / 8 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    word.to_le_bytes()[index % 8]
}

fn fill(base: *mut u8, len: usize, seed: u64) {
    for index in 0..len {
        // SAFETY: the callers pass memory of their own.
        unsafe { base.add(index).write_volatile(pattern(seed, index)) };
    }
}

fn check(base: *const u8, len: usize, seed: u64) {
    for index in 0..len {
        // SAFETY: the callers pass memory of their own.
        let found = unsafe { base.add(index).read_volatile() };
        assert_eq!(found, pattern(seed, index), "byte {index} of {len}");
    }
}

/// A piece as a peer maps it: through `/proc`.
fn map_piece(piece: &Piece) -> memmap2::MmapMut {
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/proc/self/fd/{}", piece.fd))
        .unwrap();
    // SAFETY: the file keeps its size (sealed), and the tests read and write it as they read and
    // write shared memory.
    unsafe {
        memmap2::MmapOptions::new()
            .offset(piece.offset)
            .len(piece.len)
            .map_mut(&file)
            .unwrap()
    }
}

fn covered(share: &Adopted) -> Range<usize> {
    let pieces = share.pieces();
    for pair in pieces.windows(2) {
        assert_eq!(
            pair[0].addr + pair[0].len,
            pair[1].addr,
            "pieces are contiguous"
        );
    }
    match (pieces.first(), pieces.last()) {
        (Some(first), Some(last)) => first.addr..last.addr + last.len,
        _ => 0..0,
    }
}
