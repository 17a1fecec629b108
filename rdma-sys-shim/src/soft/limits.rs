//! This process's limits on memory files.

use std::io;

use crate::system::{limit, longest_file};
use crate::{Error, Result};

/// The descriptors left to the program and to short uses, such as connecting to a peer. Under a low limit, a quarter is
/// left.
const LEFT: u64 = 16;

/// Fails if a memory file must not be `len` bytes long. To extend a longer file may kill the process, rather than fail.
pub(super) fn check_file_size(len: usize) -> Result<()> {
    if len as u64 <= longest_file() {
        return Ok(());
    }
    let call = format!("ftruncate of a memory file to {len} bytes");
    Err(Error::os(call, io::Error::from_raw_os_error(libc::EFBIG)))
}

/// Fails if a descriptor that is to stay open is one of those left to the program. It was the lowest free one.
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
