//! Requests: waiting for one operation, and having its buffer back.

use std::fmt;
use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};

use crate::{Result, raw};

/// An operation that may be in flight, and its buffer `B`: a borrowed slice or a vector (MPI-4.1,
/// section 12.3.5).
///
/// If a request is dropped early and its buffer is borrowed, the buffer stays borrowed to the end
/// of the epoch. If the request owns its buffer, dropping it waits.
#[must_use = "the buffer stays with the operation; `wait` gives it back"]
pub struct Request<'op, B> {
    operation: raw::Request,
    /// `None` once returned. The device may write to memory that a `B` claims exclusively, so until
    /// then it is kept as bytes.
    buffer: Option<MaybeUninit<B>>,
    /// Invariant in `'op`, neither `Send` nor `Sync`.
    marker: PhantomData<*mut &'op ()>,
}

impl<B> Request<'_, B> {
    /// Posts an operation on the elements of `buffer`; `post` gets their address and length in
    /// bytes.
    pub(super) fn start<T>(
        buffer: B,
        post: impl FnOnce(*mut T, usize) -> Result<raw::Request>,
    ) -> Result<Self>
    where
        B: AsMut<[T]>,
    {
        let mut buffer = MaybeUninit::new(buffer);
        // SAFETY: initialised in the line above. From here on only bytes are moved, so the pointer
        // taken here stays valid.
        let elements = unsafe { buffer.assume_init_mut() }.as_mut();
        let (base, len) = (elements.as_mut_ptr(), size_of_val(elements));
        let mut request = Self {
            operation: raw::Request::done(),
            buffer: Some(buffer),
            marker: PhantomData,
        };
        request.operation = post(base, len)?;
        Ok(request)
    }

    /// Local. Returns the buffer once the operation is complete.
    ///
    /// # Errors
    /// The operation failed.
    pub fn wait(mut self) -> Result<B> {
        self.operation.complete()?;
        Ok(self.give_back())
    }

    /// Local. Returns the buffer if the operation is complete, else the request.
    ///
    /// # Errors
    /// The operation failed.
    pub fn test(mut self) -> Result<std::result::Result<B, Self>> {
        if self.operation.test()? {
            return Ok(Ok(self.give_back()));
        }
        Ok(Err(self))
    }

    /// Returns the buffer; the operation is complete.
    fn give_back(mut self) -> B {
        match self.buffer.take() {
            // SAFETY: `start` initialised it, and taking it out keeps it from being taken twice.
            Some(buffer) => unsafe { buffer.assume_init() },
            None => unreachable!("only this function and drop take the buffer, and both end it"),
        }
    }
}

impl<B> Drop for Request<'_, B> {
    fn drop(&mut self) {
        if !mem::needs_drop::<B>() {
            return;
        }
        if let Some(mut buffer) = self.buffer.take() {
            // The close of the epoch reports failures. Here it only matters that the device no
            // longer uses the buffer.
            let _ = self.operation.complete();
            // SAFETY: `start` initialised it, and it was taken out, so it is dropped once. The
            // operation is complete or has failed, and no longer uses it.
            unsafe { buffer.assume_init_drop() };
        }
    }
}

impl<B> fmt::Debug for Request<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.operation.fmt(f)
    }
}
