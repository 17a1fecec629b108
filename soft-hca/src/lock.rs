//! A lock in memory that processes share. If a process dies while it has the lock, the next one gets it.

use std::cell::UnsafeCell;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

/// A value under a lock. Zeros are a lock that is not prepared yet.
#[repr(C)]
pub(crate) struct SharedLock<T> {
    mutex: UnsafeCell<MaybeUninit<libc::pthread_mutex_t>>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only accessed under the lock.
unsafe impl<T: Send> Sync for SharedLock<T> {}

impl<T> SharedLock<T> {
    /// Makes the lock usable. Nobody may use it meanwhile.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        let mut attributes = MaybeUninit::uninit();
        let attributes: *mut libc::pthread_mutexattr_t = attributes.as_mut_ptr();
        // SAFETY: attributes that are made first, and a mutex that nobody uses yet.
        let codes = unsafe {
            [
                libc::pthread_mutexattr_init(attributes),
                libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED),
                libc::pthread_mutexattr_setrobust(attributes, libc::PTHREAD_MUTEX_ROBUST),
                libc::pthread_mutex_init(self.mutex(), attributes),
                libc::pthread_mutexattr_destroy(attributes),
            ]
        };
        let failed = codes.into_iter().find(|&code| code != 0);
        failed.map_or(Ok(()), |code| Err(io::Error::from_raw_os_error(code)))
    }

    fn mutex(&self) -> *mut libc::pthread_mutex_t {
        self.mutex.get().cast()
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        // SAFETY: a prepared mutex. If its owner has died, this thread has it now, and says that the value is usable:
        // whoever changes it leaves it usable at every step.
        unsafe {
            if libc::pthread_mutex_lock(self.mutex()) == libc::EOWNERDEAD {
                libc::pthread_mutex_consistent(self.mutex());
            }
        }
        Guard {
            lock: self,
            _of_this_thread: PhantomData,
        }
    }
}

pub(crate) struct Guard<'a, T> {
    lock: &'a SharedLock<T>,
    _of_this_thread: PhantomData<*const ()>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread has the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has the lock, and lends the value once.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: this thread has the lock.
        unsafe { libc::pthread_mutex_unlock(self.lock.mutex()) };
    }
}
