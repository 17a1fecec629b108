//! This process's limits on memory files.

use std::io;

use crate::system::{limit, longest_file};
use crate::{Error, Result};

/// So many descriptors are left to the program and to what opens a file for a moment, connecting to a
/// peer among it. Of a low limit, a quarter.
const LEFT: u64 = 16;

/// Whether a memory file may be `len` bytes long: the kernel does not merely refuse to make a longer one.
pub(super) fn check_file_size(len: usize) -> Result<()> {
    if len as u64 <= longest_file() {
        return Ok(());
    }
    let call = format!("ftruncate of a memory file to {len} bytes");
    Err(Error::os(call, io::Error::from_raw_os_error(libc::EFBIG)))
}

/// Whether a descriptor that is to stay open, the lowest that was free, is one of those that are left to
/// the program.
pub(super) fn check_descriptor(fd: libc::c_int) -> Result<()> {
    let limit = limit(libc::RLIMIT_NOFILE);
    let left = LEFT.min(limit / 4);
    match u64::try_from(fd).unwrap_or(0) < limit - left {
        true => Ok(()),
        false => Err(Error::os(
            format!(
                "keeping one more file open, so that {left} of {limit} are left to the program,"
            ),
            io::Error::from_raw_os_error(libc::EMFILE),
        )),
    }
}
