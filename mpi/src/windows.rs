//! Which of the program's windows are ours. The handle of such a window is that of its carrier.

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use crate::mpi_h::{AtomicNumber, MPI_Aint, MPI_Win, NO_HANDLE, Number};
use transom::raw::Window;

/// A window of ours. This is never freed: after its window is freed, it is reused for another.
pub(crate) struct Ours {
    /// The handle of the carrier, or [`NO_HANDLE`].
    handle: AtomicNumber,
    window: UnsafeCell<Option<Window>>,
    attributes: UnsafeCell<Attributes>,
}

/// The values to which the predefined attributes point.
#[derive(Clone, Copy)]
pub(crate) struct Attributes {
    pub(crate) base: *mut c_void,
    pub(crate) size: MPI_Aint,
    pub(crate) disp_unit: c_int,
    pub(crate) flavor: c_int,
    pub(crate) model: c_int,
}

// SAFETY: the cells change only before the handle is published, and in the call that frees the window. No other thread
// uses them then. All threads may use a window.
unsafe impl Sync for Ours {}
// SAFETY: as above; nothing in it belongs to a particular thread.
unsafe impl Send for Ours {}

const NEAR: usize = 64;

/// The windows used last, indexed by some bits of their handles.
static LATELY: [AtomicPtr<Ours>; NEAR] =
    [const { AtomicPtr::new((&raw const NOBODYS).cast_mut()) }; NEAR];

/// Stands where no window was used, so that the fast path need not test for that.
static NOBODYS: Ours = Ours {
    handle: AtomicNumber::new(NO_HANDLE),
    window: UnsafeCell::new(None),
    attributes: UnsafeCell::new(Attributes {
        base: ptr::null_mut(),
        size: 0,
        disp_unit: 0,
        flavor: 0,
        model: 0,
    }),
};

static ALL: RwLock<Option<HashMap<Number, &'static Ours>>> = RwLock::new(None);

/// Handles are consecutive numbers, or addresses of large structures.
#[inline(always)]
#[allow(clippy::unnecessary_cast, reason = "as wide as the host's handles are")]
fn place(handle: Number) -> usize {
    let handle = match cfg!(handles_are_numbers) {
        true => handle,
        false => handle ^ handle >> 8,
    };
    (handle % NEAR as Number) as usize
}

/// The window of this handle, if it is ours and was used lately.
#[inline(always)]
pub(crate) fn lately(win: MPI_Win) -> Option<&'static Ours> {
    let handle = win.number();
    let lately = LATELY[place(handle)].load(Ordering::Acquire);
    // SAFETY: the pointer is to an entry that was leaked, or to `NOBODYS`.
    let ours = unsafe { NonNull::new_unchecked(lately).as_ref() };
    (ours.handle.load(Ordering::Acquire) == handle).then_some(ours)
}

/// The window of this handle, if it is ours.
#[inline(always)]
pub(crate) fn find(win: MPI_Win) -> Option<&'static Ours> {
    lately(win).or_else(|| find_far(win.number()))
}

/// The window of this handle, even while it is being freed: it still has its attributes then.
pub(crate) fn find_attributes(win: MPI_Win) -> Option<&'static Attributes> {
    let all = ALL.read().unwrap_or_else(PoisonError::into_inner);
    let ours: &'static Ours = all.as_ref()?.get(&win.number())?;
    // SAFETY: the attributes stay until the handle is forgotten.
    Some(unsafe { &*ours.attributes.get() })
}

#[cold]
#[inline(never)]
fn find_far(handle: Number) -> Option<&'static Ours> {
    let all = ALL.read().unwrap_or_else(PoisonError::into_inner);
    let ours = *all.as_ref()?.get(&handle)?;
    if ours.handle.load(Ordering::Acquire) != handle {
        return None;
    }
    LATELY[place(handle)].store(ptr::from_ref(ours).cast_mut(), Ordering::Release);
    Some(ours)
}

/// Entries without a window.
static SPARE: Mutex<Vec<&'static Ours>> = Mutex::new(Vec::new());

/// Puts a new window behind its carrier.
pub(crate) fn insert(carrier: MPI_Win, window: Window, attributes: Attributes) {
    let spare = lock(&SPARE).pop();
    let ours = match spare {
        Some(ours) => {
            // SAFETY: no other thread accesses the cells. The entry has no handle, so a thread that still reaches it
            // through `LATELY` only reads the handle.
            unsafe { *ours.attributes.get() = attributes };
            ours
        }
        None => Box::leak(Box::new(Ours {
            handle: AtomicNumber::new(NO_HANDLE),
            window: UnsafeCell::new(None),
            attributes: UnsafeCell::new(attributes),
        })),
    };
    ours.put_back(carrier, window);
    let mut all = ALL.write().unwrap_or_else(PoisonError::into_inner);
    all.get_or_insert_default().insert(carrier.number(), ours);
}

impl Ours {
    pub(crate) fn window(&self) -> &Window {
        // SAFETY: the program uses the handle, so by MPI's rules no thread frees the window.
        match unsafe { &*self.window.get() } {
            Some(window) => window,
            None => freed(),
        }
    }

    /// The same without a test, where each instruction counts.
    ///
    /// # Safety
    /// This was just found by its handle, and no thread frees the window meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn quick_window(&self) -> &Window {
        // SAFETY: the handle is here only while there is a window: from `put_back` until just before `take` removes it.
        unsafe { (*self.window.get()).as_ref().unwrap_unchecked() }
    }

    pub(crate) fn attributes(&self) -> Attributes {
        // SAFETY: the attributes stay until the handle is forgotten.
        unsafe { *self.attributes.get() }
    }

    /// For the call that frees the window. Until [`Ours::forget`] the handle keeps its attributes. For all other calls
    /// it is the host's.
    pub(crate) fn take(&self) -> Option<Window> {
        self.handle.store(NO_HANDLE, Ordering::Release);
        // SAFETY: no thread uses a window while another frees it.
        unsafe { (*self.window.get()).take() }
    }

    /// For a window that was not freed after all.
    pub(crate) fn put_back(&self, carrier: MPI_Win, window: Window) {
        // SAFETY: as for `take`.
        unsafe { *self.window.get() = Some(window) };
        self.handle.store(carrier.number(), Ordering::Release);
    }

    /// Call it before the host can reuse the handle for another window.
    pub(crate) fn forget(&'static self, carrier: MPI_Win) {
        let handle = carrier.number();
        let mut all = ALL.write().unwrap_or_else(PoisonError::into_inner);
        // The handle may already be another window's.
        if let Some(all) = all.as_mut()
            && all.get(&handle).is_some_and(|&other| ptr::eq(other, self))
        {
            all.remove(&handle);
        }
        lock(&SPARE).push(self);
    }
}

#[cold]
fn freed() -> ! {
    panic!("a window is used while it is freed")
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
