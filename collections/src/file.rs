//! Arrays in files.

use std::any::type_name;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytemuck::{Pod, Zeroable, bytes_of, bytes_of_mut, cast_slice, cast_slice_mut};
use transom::{Communicator, Element};

use crate::array::zeroed;
use crate::distribution::Layout;
use crate::{DistArray, Distribution, Error, Result, agreement};

const MAGIC: [u8; 8] = *b"transom\n";
const VERSION: u64 = 1;

/// How many bytes are read or written at a time.
const BUFFER: usize = 1 << 20;

/// The header of a file, in the byte order of the machine that wrote it. The elements follow, in global order.
#[derive(Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    version: u64,
    element_bytes: u64,
    len: u64,
    checksum: u64,
    /// Filled up with zeros, or truncated.
    type_name: [u8; 64],
}

/// The result of one rank's part of the work. An error is sent to the other ranks.
type Outcome<R> = std::result::Result<R, String>;

impl<T: Element> DistArray<T> {
    /// Collective. Writes the array to one file, as it is once all ranks have called this.
    /// [`from_file`](Self::from_file) reads it on any number of ranks and in any distribution. Every rank writes a part
    /// of the file, so all ranks need access to it under this path.
    ///
    /// The file is first written under a name that ends in `.part`. It replaces an older file when it is complete and
    /// on the disk: after an error, the older file is unchanged.
    ///
    /// ```
    /// use transom::Job;
    /// use transom_collections::{DistArray, Distribution, Result};
    ///
    /// # fn main() -> Result<()> {
    /// # let folder = std::env::temp_dir().join(format!("transom-doc-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder).unwrap();
    /// # let path = folder.join("squares");
    /// let job = Job::init()?;
    /// let world = job.world();
    /// let squares = DistArray::from_fn(world, 100, Distribution::Block, |index| (index * index) as u64)?;
    /// squares.save(&path)?;
    /// squares.free()?;
    /// // Later, on as many ranks as there are then.
    /// let squares = DistArray::<u64>::from_file(world, &path, Distribution::Cyclic)?;
    /// assert_eq!(squares.get(9)?, 81);
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// squares.free()
    /// # }
    /// ```
    ///
    /// # Errors
    /// On every rank, with the error of the first rank that failed: no such folder, no permission, no space; ranks name
    /// different files; a rank died or left.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        const OPERATION: &str = "DistArray::save";
        let (comm, path) = (self.comm(), path.as_ref());
        agreement::alike(comm, OPERATION, &path.display().to_string())?;
        let part = part_of(path);
        let on_first = |act: &dyn Fn() -> Outcome<()>| match comm.rank() {
            0 => act(),
            _ => Ok(()),
        };
        let sum = |ours: Outcome<u64>| sum_of_all(comm, OPERATION, path, ours);
        sum(on_first(&|| said(File::create(&part)).map(drop)).map(|()| 0))?;
        let saved = sum(self.write_share(&part)).and_then(|checksum| {
            let header = Header {
                checksum,
                ..Header::of::<T>(self.len())
            };
            sum(on_first(&|| complete(&part, path, &header)).map(|()| 0))
        });
        if saved.is_err() && comm.rank() == 0 {
            // If this fails too, the first error is still the one to report.
            let _ = fs::remove_file(&part);
        }
        saved.map(drop)
    }

    /// Collective. Makes an array of a file that [`save`](Self::save) wrote, from any number of ranks and in any
    /// distribution. Every rank reads a part of the file.
    ///
    /// # Errors
    /// On every rank, with the error of the first rank that failed: no such file, or no permission; a file without an
    /// array, of another type of elements (by its name without its path, and size), of another byte order, truncated or
    /// damaged; ranks name different files or distributions; no memory; a rank died or left.
    pub fn from_file(
        comm: &Communicator,
        path: impl AsRef<Path>,
        distribution: Distribution,
    ) -> Result<Self> {
        const OPERATION: &str = "DistArray::from_file";
        let path = path.as_ref();
        agreement::alike(comm, OPERATION, &path.display().to_string())?;
        let opened = open::<T>(path);
        let ours = match &opened {
            Ok((_, header)) => Ok(bytes_of(header)),
            Err(what) => Err(what.clone()),
        };
        let headers = agreement::gather(comm, ours)?.map_err(|failed| {
            let agreement::Failed { rank, message } = failed;
            failed_on(OPERATION, path, rank, &message)
        })?;
        let (file, header) =
            opened.map_err(|what| failed_on(OPERATION, path, comm.rank(), &what))?;
        let other = (0..)
            .zip(&headers)
            .find(|(_, theirs)| **theirs != headers[0]);
        if let Some((rank, _)) = other {
            return Err(failed_on(
                OPERATION,
                path,
                rank,
                "its file is not that of rank 0",
            ));
        }
        let set = |_, _: &mut [T]| Ok(());
        let array = Self::make(OPERATION, comm, header.len as usize, distribution, set)?;
        let read = sum_of_all(comm, OPERATION, path, array.read_share(&file));
        let checked = read.and_then(|sum| match sum == header.checksum {
            true => Ok(()),
            false => Err(Error::File {
                operation: OPERATION,
                path: path.display().to_string(),
                what: "damaged: the elements do not have the checksum that they were written with"
                    .to_owned(),
            }),
        });
        match checked {
            Ok(()) => Ok(array),
            Err(error) => {
                array.free()?;
                Err(error)
            }
        }
    }

    /// Writes this rank's share of a file, and returns its checksum.
    fn write_share(&self, path: &Path) -> Outcome<u64> {
        let file = said(File::options().write(true).open(path))?;
        let checksum = self.each_buffer(|start, elements| {
            said(self.get_range_into(start, elements))?;
            said(file.write_all_at(cast_slice(elements), offset::<T>(start)))
        })?;
        said(file.sync_all())?;
        Ok(checksum)
    }

    /// Reads this rank's share of a file into the array, and returns its checksum.
    fn read_share(&self, file: &File) -> Outcome<u64> {
        self.each_buffer(|start, elements| {
            said(file.read_exact_at(cast_slice_mut(elements), offset::<T>(start)))?;
            said(self.put_range(start, elements))
        })
    }

    /// Calls `act` for one buffer of this rank's share at a time, with the number of its first element and the
    /// elements, which `act` sets or gets. A share is a block of the file, whatever the distribution is, so files are
    /// read and written in long runs.
    fn each_buffer(&self, act: impl Fn(usize, &mut [T]) -> Outcome<()>) -> Outcome<u64> {
        let (comm, len) = (self.comm(), self.len());
        let shares = said(Layout::new("file", len, Distribution::Block, comm.size()))?;
        let mut checksum = 0_u64;
        for share in shares.own_ranges(comm.rank()) {
            let most = (BUFFER / size_of::<T>()).clamp(1, share.len());
            let mut buffer = said(zeroed::<T>("file", most))?;
            for start in share.clone().step_by(most) {
                let elements = &mut buffer[..most.min(share.end - start)];
                act(start, elements)?;
                checksum = checksum.wrapping_add(checksum_of(start, elements));
            }
        }
        Ok(checksum)
    }
}

impl Header {
    /// A header without a checksum.
    fn of<T>(len: usize) -> Self {
        let mut named = [0; 64];
        let name = without_paths(type_name::<T>());
        let bytes = name.as_bytes().iter();
        named
            .iter_mut()
            .zip(bytes)
            .for_each(|(to, &byte)| *to = byte);
        Self {
            magic: MAGIC,
            version: VERSION,
            element_bytes: size_of::<T>() as u64,
            len: len as u64,
            checksum: 0,
            type_name: named,
        }
    }

    fn element(&self) -> String {
        let name = String::from_utf8_lossy(&self.type_name);
        let name = name.trim_end_matches('\0');
        format!("{name} of {} bytes", self.element_bytes)
    }

    /// Checks that this is the header of a file of this length, with elements of this type.
    fn check<T>(&self, bytes: u64) -> Outcome<()> {
        let ours = Self::of::<T>(0);
        if self.magic != MAGIC {
            return Err("it is not the file of an array".to_owned());
        }
        if self.version == VERSION.swap_bytes() {
            return Err("it was written by a machine of the other byte order".to_owned());
        }
        if self.version != VERSION {
            let version = self.version;
            return Err(format!(
                "it has version {version}, and {VERSION} is known here"
            ));
        }
        if (self.type_name, self.element_bytes) != (ours.type_name, ours.element_bytes) {
            let (theirs, ours) = (self.element(), ours.element());
            return Err(format!("it has elements of type {theirs}, not {ours}"));
        }
        let expected = (self.element_bytes.checked_mul(self.len))
            .and_then(|bytes| bytes.checked_add(size_of::<Self>() as u64));
        if expected != Some(bytes) {
            let len = self.len;
            return Err(format!(
                "it has {bytes} bytes, which are not those of {len} elements"
            ));
        }
        Ok(())
    }
}

fn open<T>(path: &Path) -> Outcome<(File, Header)> {
    let file = said(File::open(path))?;
    let mut header = Header::zeroed();
    let bytes = said(file.metadata())?.len();
    if bytes < size_of::<Header>() as u64 {
        return Err(format!(
            "it is not the file of an array: it has {bytes} bytes"
        ));
    }
    said(file.read_exact_at(bytes_of_mut(&mut header), 0))?;
    header.check::<T>(bytes)?;
    Ok((file, header))
}

/// Completes a file whose elements are written: writes the header, and renames the file.
fn complete(part: &Path, path: &Path, header: &Header) -> Outcome<()> {
    let file = said(File::options().write(true).open(part))?;
    said(file.write_all_at(bytes_of(header), 0))?;
    said(file.sync_all())?;
    said(fs::rename(part, path))
}

/// Collective. The sum of the ranks' values. If one of them failed, its error is returned on all ranks.
fn sum_of_all(
    comm: &Communicator,
    operation: &'static str,
    path: &Path,
    ours: Outcome<u64>,
) -> Result<u64> {
    let ours = ours.map(u64::to_ne_bytes);
    let ours = ours.as_ref().map(|bytes| &bytes[..]);
    match agreement::gather(comm, ours.map_err(Clone::clone))? {
        Ok(all) => {
            let numbers = all.iter().map(|bytes| bytemuck::pod_read_unaligned(bytes));
            Ok(numbers.fold(0, u64::wrapping_add))
        }
        Err(agreement::Failed { rank, message }) => Err(failed_on(operation, path, rank, &message)),
    }
}

#[cold]
fn failed_on(operation: &'static str, path: &Path, rank: u32, what: &str) -> Error {
    Error::File {
        operation,
        path: path.display().to_string(),
        what: format!("rank {rank}: {what}"),
    }
}

fn said<R>(done: std::result::Result<R, impl ToString>) -> Outcome<R> {
    done.map_err(|error| error.to_string())
}

/// The name under which a file is first written.
fn part_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".part");
    name.into()
}

/// The offset of an element in a file.
fn offset<T>(index: usize) -> u64 {
    (size_of::<Header>() + index * size_of::<T>()) as u64
}

/// The checksum of elements, the first of which has number `start`. The sum of the checksums of all elements does not
/// depend on how they are divided.
fn checksum_of<T: Element>(start: usize, elements: &[T]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let of_element = |(index, element): (usize, &T)| {
        let mut mixed = index as u64;
        for bytes in bytes_of(element).chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            mixed = (mixed ^ u64::from_ne_bytes(word)).wrapping_mul(ODD);
            mixed ^= mixed >> 32;
        }
        mixed
    };
    let each = (start..).zip(elements);
    each.map(of_element).fold(0, u64::wrapping_add)
}

/// The name of a type without its modules, so that it stays the same if the type moves.
fn without_paths(name: &str) -> String {
    let is_of_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut short = String::new();
    let mut path_start = 0;
    for c in name.chars() {
        short.push(c);
        if !is_of_path(c) {
            path_start = short.len();
        } else if short.ends_with("::") {
            short.truncate(path_start);
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_paths() {
        for (name, short) in [
            ("u64", "u64"),
            ("my_program::shapes::Point", "Point"),
            (
                "a::Pair<b::c::Left, [d::Right; 3]>",
                "Pair<Left, [Right; 3]>",
            ),
        ] {
            assert_eq!(without_paths(name), short);
        }
    }

    #[test]
    fn checksums_are_of_values_and_places() {
        let all: Vec<[u16; 5]> = (0..100).map(|index| [index, 2, 3, index / 7, 0]).collect();
        let whole = checksum_of(0, &all);
        for cut in [0, 1, 50, 100] {
            let (one, other) = all.split_at(cut);
            let sum = checksum_of(0, one).wrapping_add(checksum_of(cut, other));
            assert_eq!(sum, whole);
        }
        let mut swapped = all.clone();
        swapped.swap(3, 4);
        assert_ne!(checksum_of(0, &swapped), whole);
        let mut changed = all;
        changed[99][4] = 1;
        assert_ne!(checksum_of(0, &changed), whole);
    }
}
