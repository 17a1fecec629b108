//! The memory of processes, as an adapter accesses it: whatever the processor does meanwhile, and without their help.

use std::ffi::c_void;
use std::io;

use crate::abi::ibv_sge;

pub(crate) fn own() -> i32 {
    // SAFETY: has no preconditions.
    unsafe { libc::getpid() }
}

/// This thread, by which the kernel finds the memory of this process even if its first thread has ended.
pub(crate) fn own_thread() -> i32 {
    // SAFETY: has no preconditions.
    unsafe { libc::gettid() }
}

/// Whether a process exists. It may have ended, if its parent has not yet taken note.
pub(crate) fn is_there(process: i32) -> bool {
    // SAFETY: signal 0 only asks.
    let code = unsafe { libc::kill(process, 0) };
    code == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Lets every process of this user access this one's memory, where Yama restricts that to parents.
pub(crate) fn admit_all() {
    // SAFETY: it changes who may attach, and nothing else. Kernels without Yama refuse it.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
}

/// Why memory was not accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The process has ended.
    Ended,
    /// There is no such memory.
    Unmapped,
    /// The system does not allow it.
    Forbidden,
}

#[derive(Clone, Copy)]
enum Way {
    In,
    Out,
}

/// Copies from memory of this process to that of a thread's process.
///
/// # Safety
/// The mapped memory in `from` may be read, and that at `to` written: each is a live buffer of this library, or what a
/// program has registered for such accesses.
pub(crate) unsafe fn write(thread: i32, to: u64, from: &[ibv_sge]) -> Result<(), Refusal> {
    // SAFETY: the caller's promise.
    unsafe { copy(thread, to, from, Way::Out) }
}

/// Copies from the memory of a thread's process to that of this process.
///
/// # Safety
/// As for [`write`], the other way round.
pub(crate) unsafe fn read(thread: i32, from: u64, to: &[ibv_sge]) -> Result<(), Refusal> {
    // SAFETY: the caller's promise.
    unsafe { copy(thread, from, to, Way::In) }
}

/// A piece that is a buffer of this library.
pub(crate) fn piece(bytes: &[u8]) -> ibv_sge {
    ibv_sge {
        addr: bytes.as_ptr().expose_provenance() as u64,
        length: bytes.len() as u32,
        lkey: 0,
    }
}

/// As [`piece`], to be written to.
pub(crate) fn piece_mut(bytes: &mut [u8]) -> ibv_sge {
    ibv_sge {
        addr: bytes.as_mut_ptr().expose_provenance() as u64,
        length: bytes.len() as u32,
        lkey: 0,
    }
}

/// # Safety
/// As for [`write`] and [`read`].
unsafe fn copy(thread: i32, there: u64, here: &[ibv_sge], way: Way) -> Result<(), Refusal> {
    let vector = |address: u64, len: u32| libc::iovec {
        iov_base: address as usize as *mut c_void,
        iov_len: len as usize,
    };
    let len: u64 = here.iter().map(|piece| u64::from(piece.length)).sum();
    if len == 0 {
        return Ok(());
    }
    let here: Vec<_> = here
        .iter()
        .map(|piece| vector(piece.addr, piece.length))
        .collect();
    let mut done = 0;
    // The kernel copies at most two gigabytes at once.
    let mut first = 0;
    let mut rest = here;
    while done < len {
        let remote = libc::iovec {
            iov_base: (there + done) as usize as *mut c_void,
            iov_len: (len - done) as usize,
        };
        let local = &rest[first..];
        let (count, pointer) = (local.len() as libc::c_ulong, local.as_ptr());
        // SAFETY: the kernel checks the addresses on both sides, and fails where there is no memory. That the
        // memory may be read or written is the caller's promise.
        let copied = unsafe {
            match way {
                Way::In => libc::process_vm_readv(thread, pointer, count, &remote, 1, 0),
                Way::Out => libc::process_vm_writev(thread, pointer, count, &remote, 1, 0),
            }
        };
        let copied = match u64::try_from(copied) {
            Ok(0) => return Err(Refusal::Unmapped),
            Ok(copied) => copied,
            Err(_) => {
                return Err(match io::Error::last_os_error().raw_os_error() {
                    Some(libc::ESRCH) => Refusal::Ended,
                    Some(libc::EFAULT) => Refusal::Unmapped,
                    _ => Refusal::Forbidden,
                });
            }
        };
        done += copied;
        let mut left = copied as usize;
        while left > 0 {
            let part = &mut rest[first];
            let taken = left.min(part.iov_len);
            part.iov_base = part.iov_base.wrapping_byte_add(taken);
            part.iov_len -= taken;
            left -= taken;
            first += usize::from(part.iov_len == 0);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_copied_piece_by_piece_and_what_is_unmapped_is_told() {
        let mut target = [0_u8; 10];
        let at = piece_mut(&mut target).addr;
        let parts = [piece(b"abc"), piece(b""), piece(b"defgh")];
        // SAFETY: nine bytes of `target`, which nothing else uses meanwhile.
        unsafe { write(own(), at + 1, &parts).unwrap() };
        assert_eq!(&target, b"\0abcdefgh\0");
        let mut halves = [[0_u8; 2]; 2];
        let [one, two] = &mut halves;
        // SAFETY: as above, to two arrays that live as long.
        unsafe { read(own(), at + 1, &[piece_mut(one), piece_mut(two)]).unwrap() };
        assert_eq!(halves, [*b"ab", *b"cd"]);
        // SAFETY: nothing is mapped at this address.
        let refused = unsafe { write(own(), 8, &parts) };
        assert_eq!(refused, Err(Refusal::Unmapped));
    }

    #[test]
    fn a_process_that_has_ended_is_told_from_one_that_lives() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let id = child.id() as i32;
        child.wait().unwrap();
        assert!(!is_there(id) && is_there(own()));
        // SAFETY: the process has no memory.
        let refused = unsafe { write(id, 8, &[piece(b"x")]) };
        assert_eq!(refused, Err(Refusal::Ended));
    }
}
