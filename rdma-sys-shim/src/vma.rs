//! What is mapped in this process, and with which rights.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;

use crate::{Access, Error, Result};

/// The rights that all pages of a range have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// A page is not mapped, or cannot be read.
    None,
    Read,
    ReadWrite,
}

/// The rights that every page of `len` bytes at `address` has.
pub(crate) fn rights(address: usize, len: usize) -> std::io::Result<Rights> {
    let Some(end) = address.checked_add(len) else {
        return Ok(Rights::None);
    };
    let maps = File::open("/proc/thread-self/maps")?;
    match ask_kernel(&maps, address, end) {
        Some(rights) => Ok(rights),
        None => read_maps(BufReader::new(maps), address, end),
    }
}

/// Local. The access that peers may have to memory of this process: `wanted`, or only to read if the memory is not
/// writable. A provider calls it to register memory if no device checks that the memory is mapped.
///
/// # Errors
/// [`BadMemory`](crate::Error::BadMemory): part of the memory is not mapped or not readable, or no right of `wanted` is
/// possible.
pub fn allowed(address: usize, len: usize, wanted: Access) -> Result<Access> {
    let bad = |reason| Error::BadMemory {
        address,
        len,
        reason,
    };
    if len == 0 {
        return Ok(wanted);
    }
    if address.checked_add(len).is_none() || len > isize::MAX as usize {
        return Err(bad("it wraps around the address space"));
    }
    match rights(address, len)
        .map_err(|error| Error::os("reading /proc/thread-self/maps", error))?
    {
        Rights::None => Err(bad("not all of it is mapped and readable")),
        // Peers may still read from it; writes are refused.
        Rights::Read if wanted.allows(Access::READ) => Ok(Access::READ),
        Rights::Read => Err(bad("it cannot be written to")),
        Rights::ReadWrite => Ok(wanted),
    }
}

/// `struct procmap_query` of linux/fs.h (Linux 6.11).
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

const VMA_READABLE: u64 = 1;
const VMA_WRITABLE: u64 = 2;
/// `_IOWR('f', 17, struct procmap_query)`
const PROCMAP_QUERY: u64 = (3 << 30) | ((size_of::<Query>() as u64) << 16) | (0x66 << 8) | 17;

/// Makes one system call for each mapping in the range. `None` on kernels before 6.11.
fn ask_kernel(maps: &File, address: usize, end: usize) -> Option<Rights> {
    let mut rights = Rights::ReadWrite;
    let mut at = address;
    while at < end {
        let mut query = Query {
            size: size_of::<Query>() as u64,
            query_addr: at as u64,
            ..Query::default()
        };
        // SAFETY: the kernel reads and writes `size` bytes of the query, which is that large.
        let rc = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY as _, &raw mut query) };
        if rc != 0 {
            return match std::io::Error::last_os_error().raw_os_error() {
                Some(libc::ENOENT) => Some(Rights::None),
                _ => None,
            };
        }
        rights = weaker(
            rights,
            query.vma_flags & VMA_READABLE != 0,
            query.vma_flags & VMA_WRITABLE != 0,
        );
        at = query.vma_end as usize;
    }
    Some(rights)
}

fn weaker(rights: Rights, readable: bool, writable: bool) -> Rights {
    match (readable, writable) {
        (false, _) => Rights::None,
        (true, false) if rights == Rights::ReadWrite => Rights::Read,
        _ => rights,
    }
}

fn read_maps(maps: impl BufRead, address: usize, end: usize) -> std::io::Result<Rights> {
    let mut rights = Rights::ReadWrite;
    let mut at = address;
    for line in maps.lines() {
        let line = line?;
        let Some((from, to, flags)) = parse_line(&line) else {
            continue;
        };
        if to <= at {
            continue;
        }
        if at >= end {
            break;
        }
        if from > at {
            return Ok(Rights::None);
        }
        rights = weaker(rights, flags[0] == b'r', flags[1] == b'w');
        at = to;
    }
    Ok(if at < end { Rights::None } else { rights })
}

fn parse_line(line: &str) -> Option<(usize, usize, &[u8])> {
    let (range, rest) = line.split_once(' ')?;
    let (from, to) = range.split_once('-')?;
    let flags = rest.as_bytes().get(..2)?;
    Some((
        usize::from_str_radix(from, 16).ok()?,
        usize::from_str_radix(to, 16).ok()?,
        flags,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::page_size;

    const MAPS: &str = "\
1000-3000 rw-p 00000000 00:00 0
3000-4000 r--p 00000000 00:00 0 /some file
6000-8000 ---p 00000000 00:00 0
";

    fn of(address: usize, end: usize) -> Rights {
        read_maps(MAPS.as_bytes(), address, end).unwrap()
    }

    #[test]
    fn the_weakest_page_decides() {
        assert_eq!(of(0x1000, 0x3000), Rights::ReadWrite);
        assert_eq!(of(0x1ff0, 0x2010), Rights::ReadWrite);
        assert_eq!(of(0x2fff, 0x3001), Rights::Read);
        assert_eq!(of(0x3fff, 0x4001), Rights::None);
        assert_eq!(of(0x6000, 0x6001), Rights::None);
        assert_eq!(of(0x0fff, 0x1001), Rights::None);
        assert_eq!(of(0x7fff, 0x9000), Rights::None);
    }

    #[test]
    fn kernel_and_text_agree_on_real_memory() {
        let heap = vec![0u8; 100_000];
        let cases = [
            (heap.as_ptr() as usize, heap.len()),
            (MAPS.as_ptr() as usize, MAPS.len()),
            (16, 16),
        ];
        for (address, len) in cases {
            let file = BufReader::new(File::open("/proc/thread-self/maps").unwrap());
            let read = read_maps(file, address, address + len).unwrap();
            assert_eq!(rights(address, len).unwrap(), read, "{address:#x} {len}");
        }
        assert_eq!(rights(usize::MAX - 10, 100).unwrap(), Rights::None);
    }

    #[test]
    fn gaps_and_forbidden_pages_are_found() {
        let page = page_size();
        let mut memory = memmap2::MmapMut::map_anon(3 * page).unwrap();
        let base = memory.as_mut_ptr();
        let of = |at: usize, len| rights(base.addr() + at, len).unwrap();
        assert_eq!(of(1, 3 * page - 1), Rights::ReadWrite);
        // SAFETY: a page of our own mapping, which is mapped again below.
        unsafe { libc::munmap(base.wrapping_add(page).cast(), page) };
        assert_eq!(of(0, page), Rights::ReadWrite);
        assert_eq!(of(0, page + 1), Rights::None);
        assert_eq!(of(0, 3 * page), Rights::None);
        assert_eq!(of(0, isize::MAX as usize), Rights::None);
        assert_eq!(rights(0x10, 8).unwrap(), Rights::None);
        assert_eq!(rights(0xffff_8000_0000_0000, 64).unwrap(), Rights::None);
        let (prot, flags) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let hole = base.wrapping_add(page).cast();
        // SAFETY: fills the gap, so that the mapping is whole when it is dropped.
        unsafe { libc::mmap(hole, page, prot, flags | libc::MAP_FIXED, -1, 0) };
        assert_eq!(of(1, 3 * page - 1), Rights::Read);
        // SAFETY: our own mapping; nobody uses it.
        unsafe { libc::mprotect(base.wrapping_add(2 * page).cast(), page, libc::PROT_NONE) };
        assert_eq!(of(1, 2 * page - 1), Rights::Read);
        assert_eq!(of(1, 2 * page), Rights::None);
    }
}
