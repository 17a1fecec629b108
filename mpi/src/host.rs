//! The host's own functions: the next ones of their names, in the order in which the loader looks.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::process;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the host, looked for once.
pub(crate) struct Symbol {
    name: &'static CStr,
    at: AtomicPtr<c_void>,
}

impl Symbol {
    /// The name ends with a 0.
    pub(crate) const fn new(name: &'static str) -> Self {
        let Ok(name) = CStr::from_bytes_with_nul(name.as_bytes()) else {
            panic!("a name of C ends with its only 0")
        };
        Self {
            name,
            at: AtomicPtr::new(ptr::null_mut()),
        }
    }

    #[inline(always)]
    pub(crate) fn at(&self) -> *mut c_void {
        let at = self.at.load(Ordering::Relaxed);
        match at.is_null() {
            true => self.look(),
            false => at,
        }
    }

    /// The program was linked against a library that has the name, so that this one is there unless the
    /// library stands in front of nothing.
    #[cold]
    fn look(&self) -> *mut c_void {
        self.find().unwrap_or_else(|| {
            let name = self.name.to_string_lossy();
            eprintln!(
                "transom mpi: no MPI behind this library has {name}; start the program with `transom mpi`, \
                 and name its MPI with --host if it loads one later"
            );
            process::exit(1);
        })
    }

    /// Where the host has it, if it does.
    pub(crate) fn find(&self) -> Option<*mut c_void> {
        // SAFETY: the name is a C string.
        let at = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.at.store(at, Ordering::Relaxed);
        (!at.is_null()).then_some(at)
    }
}

/// The host's function, to be called.
macro_rules! host {
    ($name:ident($($ty:ty),* $(,)?)) => {{
        static SYMBOL: $crate::host::Symbol = $crate::host::Symbol::new(concat!(stringify!($name), "\0"));
        #[allow(unused_unsafe, reason = "the call often stands in an unsafe block")]
        // SAFETY: the host has a function of this signature under the name, as MPI defines it.
        let function = unsafe {
            std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($ty),*) -> std::ffi::c_int>(
                SYMBOL.at(),
            )
        };
        function
    }};
}
pub(crate) use host;

/// What a call of the host returned, if that is no success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostError(pub(crate) c_int);

/// The result of a call that returned `code`. The host has called its error handler then.
#[inline]
pub(crate) fn check(code: c_int) -> Result<(), HostError> {
    match code {
        0 => Ok(()),
        code => Err(HostError(code)),
    }
}

impl HostError {
    /// The host's sentence.
    pub(crate) fn text(self) -> String {
        let mut text = [0 as c_char; 8192];
        let mut len = 0;
        // SAFETY: there is room for the longest string of any host.
        let code = unsafe {
            host!(PMPI_Error_string(c_int, *mut c_char, *mut c_int))(
                self.0,
                text.as_mut_ptr(),
                &raw mut len,
            )
        };
        if code != 0 {
            return format!("error {} of the MPI library", self.0);
        }
        // SAFETY: the host ends it with a 0.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) };
        text.to_string_lossy().into_owned()
    }
}
