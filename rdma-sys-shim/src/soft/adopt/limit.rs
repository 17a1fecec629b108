//! How much is adopted. What is moved takes a mapping, mostly two, and a descriptor, and survey and
//! fork read the list of all mappings: 4 µs each time for each region that was moved. Many small
//! regions would cost more than they gain, and could use up the descriptors.

use super::declined::Declined;
use super::memfd;

/// With so many moved, only large ones are: that takes longer than to read the list.
const MANY: usize = 64;
const LARGE: usize = 1 << 20;
/// Half of the descriptors that a process has by default.
const MOST: usize = 512;

/// Whether one more may be moved, of which so many bytes are to be.
pub(super) fn allows(len: usize) -> Result<(), Declined> {
    let moved = memfd::count();
    match moved < MANY || len >= LARGE && moved < MOST {
        true => Ok(()),
        false => Err(Declined::TooMany { moved }),
    }
}
