use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::memory::{self, Number};

const PAGE: usize = 4096;

/// Pages of this process, of a file if it is given.
struct Pages {
    base: *mut u8,
    len: usize,
}

impl Pages {
    fn new(count: usize, file: Option<libc::c_int>) -> Self {
        let len = count * PAGE;
        let flags = match file {
            Some(_) => libc::MAP_SHARED,
            None => libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        };
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the place.
        let base =
            unsafe { libc::mmap(ptr::null_mut(), len, rights, flags, file.unwrap_or(-1), 0) };
        assert_ne!(base, libc::MAP_FAILED);
        Self {
            base: base.cast(),
            len,
        }
    }

    /// Gives the last page these rights.
    fn protect_last(&self, rights: libc::c_int) {
        let last = self.base.wrapping_add(self.len - PAGE);
        // SAFETY: a page of our own, to which there is no reference.
        assert_eq!(unsafe { libc::mprotect(last.cast(), PAGE, rights) }, 0);
    }

    fn byte(&self, at: usize) -> u8 {
        assert!(at < self.len);
        // SAFETY: inside, and readable where tests ask.
        unsafe { self.base.add(at).read_volatile() }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: our own mapping.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

fn write(to: *mut u8, bytes: &[u8]) -> Result<u64, AccessFault> {
    // SAFETY: copies hold nothing.
    unsafe {
        guarded(to, bytes.len(), || {
            memory::copy(to, bytes.as_ptr(), bytes.len());
            7
        })
    }
}

fn read(from: *const u8, len: usize) -> Result<Vec<u8>, AccessFault> {
    let mut bytes = vec![0xee; len];
    let to = bytes.as_mut_ptr();
    // SAFETY: copies hold nothing; the vector is as long.
    unsafe { guarded(from, len, || memory::copy(to, from, len))? };
    Ok(bytes)
}

fn add(at: *mut u8, value: u64) -> Result<u64, AccessFault> {
    // SAFETY: an atomic of an aligned word.
    unsafe {
        guarded(at, 8, || {
            AtomicU64::from_ptr(at.cast()).fetch_add(value, Ordering::SeqCst)
        })
    }
}

fn add_numbers(at: *mut u8, values: &[f64]) -> Result<(), AccessFault> {
    let len = 8 * values.len();
    // SAFETY: sums hold nothing.
    unsafe {
        guarded(at, len, || {
            Number::F64.add(at, values.as_ptr().cast(), values.len());
        })
    }
}

/// Lengths of each way to copy.
const LENGTHS: [usize; 6] = [1, 8, 31, 100, 1500, PAGE];

#[test]
fn what_is_there_is_accessed_as_ever() {
    let _alone = alone();
    watch();
    let pages = Pages::new(2, None);
    for len in LENGTHS {
        let bytes: Vec<u8> = (0..len).map(|at| at as u8 | 1).collect();
        assert_eq!(write(pages.base, &bytes), Ok(7));
        assert_eq!(read(pages.base, len), Ok(bytes));
    }
    let word = pages.base.wrapping_add(PAGE);
    assert_eq!((add(word, 5), add(word, 1)), (Ok(0), Ok(5)));
    assert_eq!(add_numbers(word, &[0.0; 40]), Ok(()));
}

#[test]
fn memory_without_the_right_is_a_fault_and_no_end() {
    let _alone = alone();
    watch();
    let pages = Pages::new(2, None);
    let last = pages.base.wrapping_add(PAGE);
    for round in 0..3 {
        pages.protect_last(libc::PROT_NONE);
        for len in LENGTHS {
            // Of the second page, and across to it.
            for at in [last, last.wrapping_sub(len / 2)] {
                assert_eq!(
                    read(at, len),
                    Err(AccessFault),
                    "{len} bytes, round {round}"
                );
                assert_eq!(write(at, &vec![1; len]), Err(AccessFault), "{len} bytes");
            }
        }
        assert_eq!(add(last, 1), Err(AccessFault));
        assert_eq!(add_numbers(last, &[1.0; 40]), Err(AccessFault));

        pages.protect_last(libc::PROT_READ);
        assert_eq!(
            read(last, 100),
            Ok(vec![0; 100]),
            "nothing was stored there"
        );
        assert_eq!(write(last, &[1; 100]), Err(AccessFault));
        assert_eq!(add(last, 1), Err(AccessFault));
        assert_eq!(add_numbers(last, &[1.0; 40]), Err(AccessFault));

        pages.protect_last(libc::PROT_READ | libc::PROT_WRITE);
        assert_eq!(write(last, &[0; 100]), Ok(7));
    }
}

#[test]
fn what_was_done_before_a_fault_stays_done() {
    let _alone = alone();
    watch();
    let pages = Pages::new(2, None);
    pages.protect_last(libc::PROT_NONE);
    let base = pages.base;
    // SAFETY: copies hold nothing.
    let outcome = unsafe {
        guarded(base, 2 * PAGE, || {
            for at in (0..2 * PAGE).step_by(8) {
                memory::copy(base.wrapping_add(at), [3_u8; 8].as_ptr(), 8);
            }
        })
    };
    assert_eq!(outcome, Err(AccessFault));
    assert_eq!((pages.byte(0), pages.byte(PAGE - 1)), (3, 3));
}

#[test]
fn a_shorter_file_is_a_fault_and_no_end() {
    let _alone = alone();
    watch();
    // SAFETY: the name is a string; the descriptor is closed below.
    let file = unsafe { libc::memfd_create(c"guarded".as_ptr(), libc::MFD_CLOEXEC) };
    // SAFETY: our own descriptor.
    let resize = |pages: usize| unsafe { libc::ftruncate(file, (pages * PAGE) as libc::off_t) };
    assert_eq!(resize(2), 0);
    let pages = Pages::new(2, Some(file));
    let last = pages.base.wrapping_add(PAGE);
    assert_eq!(write(last, &[5; 64]), Ok(7));
    assert_eq!(resize(1), 0);
    assert_eq!(write(last, &[6; 64]), Err(AccessFault));
    assert_eq!(read(last, 64), Err(AccessFault));
    assert_eq!(add(last, 1), Err(AccessFault));
    assert_eq!(write(pages.base, &[6; 64]), Ok(7), "what is left of it");
    assert_eq!(resize(2), 0);
    assert_eq!(read(last, 64), Ok(vec![0; 64]));
    // SAFETY: as above.
    unsafe { libc::close(file) };
}

#[test]
fn threads_fault_side_by_side() {
    let _alone = alone();
    watch();
    let pages = Pages::new(4, None);
    pages.protect_last(libc::PROT_NONE);
    let first = pages.base.expose_provenance();
    let last = first + 3 * PAGE;
    std::thread::scope(|scope| {
        for which in 0..3 {
            scope.spawn(move || {
                let own = ptr::with_exposed_provenance_mut(first + which * PAGE);
                let gone = ptr::with_exposed_provenance_mut(last);
                for round in 0..500_u64 {
                    assert_eq!(add(own, 1), Ok(round));
                    assert_eq!(add(gone, 1), Err(AccessFault));
                }
            });
        }
    });
}
