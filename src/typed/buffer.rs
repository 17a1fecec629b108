//! Memory that the device knows already, to put from and get into.

use std::alloc::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::{ptr, slice};

use crate::lower::{Memory, error};
use crate::{Communicator, Element, Misuse, Result};

/// Elements in memory that is registered with the device, made by [`Job::alloc`](crate::Job::alloc). It dereferences to
/// a slice.
///
/// A network adapter reads and writes registered memory only. If the local buffer of an operation is not registered,
/// the library either copies through a registered buffer, which costs a pass over the data, or registers the memory
/// first, which costs a system call and pins its pages. From a `Buffer` the adapter transfers directly. On the soft
/// device it makes no difference.
///
/// Freeing the memory also ends its registration, so keep a buffer and reuse it. A vector that exists can be registered
/// by [`Job::register`](crate::Job::register).
pub struct Buffer<T> {
    memory: Memory,
    len: usize,
    marker: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    pub(crate) fn new(comm: &Communicator, len: usize) -> Result<Self> {
        const { assert!(size_of::<T>() > 0, "an element has more than no bytes") };
        let layout = Layout::array::<T>(len).map_err(|_| {
            let (count, element) = (len as u64, size_of::<T>() as u64);
            error("alloc", Misuse::CountOverflow { count, element })
        })?;
        Ok(Self {
            memory: Memory::allocate(comm, "alloc", layout)?,
            len,
            marker: PhantomData,
        })
    }
}

impl<T> Buffer<T> {
    fn base(&self) -> *mut T {
        match self.len {
            0 => ptr::dangling_mut(),
            _ => self.memory.base().cast(),
        }
    }
}

impl<T> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `new` allocated zeroed memory of this length, aligned for the elements, of which any bytes are a
        // value; it is freed with `self`. No peer was told its address.
        unsafe { slice::from_raw_parts(self.base(), self.len) }
    }
}

impl<T> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and borrowed uniquely.
        unsafe { slice::from_raw_parts_mut(self.base(), self.len) }
    }
}

impl<T> AsRef<[T]> for Buffer<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T> AsMut<[T]> for Buffer<T> {
    fn as_mut(&mut self) -> &mut [T] {
        self
    }
}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} elements)", self.len)
    }
}

/// Threads may share it and move it, as they may a vector.
const _: () = {
    const fn travels<B: Send + Sync>() {}
    travels::<Buffer<u64>>()
};
