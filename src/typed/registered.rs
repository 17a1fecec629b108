//! Memory of the program that the device knows for a while.
//!
//! A registration is of pages, and found by addresses. If it outlived its buffer, operations on other memory at the
//! same addresses would transfer the bytes of the old pages. A guard that borrows its buffer could be forgotten, and
//! its buffer freed. So either the guard owns the buffer, which is then forgotten with it, or the registration lasts
//! for a closure.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::lower::register;
use crate::raw::Registration;
use crate::{Communicator, Element, Result};

/// A vector that is registered with the device, made by [`Job::register`](crate::Job::register). It dereferences to a
/// slice. See [`Buffer`](crate::Buffer) for what this saves.
pub struct Registered<T> {
    // Declared first, so that the registration ends before the memory is freed.
    registration: Registration,
    elements: Vec<T>,
}

impl<T: Element> Registered<T> {
    pub(crate) fn new(comm: &Communicator, mut elements: Vec<T>) -> Result<Self> {
        let (base, len) = (elements.as_mut_ptr().cast(), size_of_val(&*elements));
        // SAFETY: the vector is kept beside the registration, which is dropped first. Until then nothing can resize it
        // or take it out, and the allocator has no business in its pages.
        let registration = unsafe { register(comm, "register", base, len, true)? };
        Ok(Self {
            registration,
            elements,
        })
    }
}

impl<T> Registered<T> {
    /// Local. Ends the registration, and returns the vector.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        drop(self.registration);
        self.elements
    }
}

impl<T> Deref for Registered<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.elements
    }
}

impl<T> DerefMut for Registered<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.elements
    }
}

impl<T> AsRef<[T]> for Registered<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T> AsMut<[T]> for Registered<T> {
    fn as_mut(&mut self) -> &mut [T] {
        self
    }
}

impl<T> fmt::Debug for Registered<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registered({} elements)", self.elements.len())
    }
}

/// Runs `body` while `buffer` is registered, as [`Job::while_registered`](crate::Job::while_registered) does.
pub(crate) fn while_registered<'b, T: Element, R>(
    comm: &Communicator,
    buffer: &'b [T],
    body: impl FnOnce(&'b [T]) -> Result<R>,
) -> Result<R> {
    let base = buffer.as_ptr().cast_mut().cast();
    // SAFETY: the buffer is borrowed for longer than this call, at whose end the registration is dropped. The device
    // only reads it.
    let registration =
        unsafe { register(comm, "while_registered", base, size_of_val(buffer), false)? };
    let result = body(buffer);
    drop(registration);
    result
}

/// As [`while_registered`], for a buffer into which operations also transfer.
pub(crate) fn while_registered_mut<T: Element, R>(
    comm: &Communicator,
    buffer: &mut [T],
    body: impl FnOnce(&mut [T]) -> Result<R>,
) -> Result<R> {
    let (base, len) = (buffer.as_mut_ptr().cast(), size_of_val(buffer));
    // SAFETY: as for `while_registered`. The device writes to the buffer only by operations to which `body` lends it.
    let registration = unsafe { register(comm, "while_registered_mut", base, len, true)? };
    let result = body(buffer);
    drop(registration);
    result
}

/// Threads may share it and move it, as they may a vector.
const _: () = {
    const fn travels<B: Send + Sync>() {}
    travels::<Registered<u64>>()
};
