//! The host's own functions: the next ones of the same names in the loader's search order.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::process;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::constants;
use crate::keyval::{Copy, Delete};
use crate::mpi_h::{
    MPI_Aint, MPI_Comm, MPI_Count, MPI_Datatype, MPI_Errhandler, MPI_Group, MPI_Info, MPI_Request,
    MPI_Status, MPI_Win,
};

pub(crate) type Query = unsafe extern "C" fn(*mut c_void, *mut MPI_Status) -> c_int;
pub(crate) type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
pub(crate) type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// A function of the host. It is looked up once.
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

    /// The program was linked against a library with this function. So the function exists, unless this library was
    /// loaded without a host.
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

    /// The address of the host's function, if the host has it.
    pub(crate) fn find(&self) -> Option<*mut c_void> {
        // SAFETY: the name is a C string.
        let at = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.at.store(at, Ordering::Relaxed);
        (!at.is_null()).then_some(at)
    }
}

/// The host's function, for a call.
macro_rules! host {
    ($name:ident($($ty:ty),* $(,)?)) => {{
        static SYMBOL: $crate::host::Symbol = $crate::host::Symbol::new(concat!(stringify!($name), "\0"));
        #[allow(unused_unsafe, reason = "the call often stands in an unsafe block")]
        // SAFETY: the host has a function of this name, with the signature that MPI defines.
        let function = unsafe {
            std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($ty),*) -> std::ffi::c_int>(
                SYMBOL.at(),
            )
        };
        function
    }};
}
pub(crate) use host;

/// Functions of the host, for this library's own calls.
macro_rules! functions {
    ($($name:ident($($arg:ident: $ty:ty),* $(,)?);)+) => {$(
        /// # Safety
        /// MPI's requirements for the function.
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "the standard has them so")]
        pub(crate) unsafe fn $name($($arg: $ty),*) -> c_int {
            // SAFETY: the caller's promise.
            unsafe { host!($name($($ty),*))($($arg),*) }
        }
    )+};
}

functions! {
    MPII_Win_get_attr(win: MPI_Win, keyval: c_int, value: *mut c_void, flag: *mut c_int, kind: c_int);
    PMPI_Abort(comm: MPI_Comm, code: c_int);
    PMPI_Add_error_code(class: c_int, code: *mut c_int);
    PMPI_Add_error_string(code: c_int, text: *const c_char);
    PMPI_Allgather(send: *const c_void, len: c_int, ty: MPI_Datatype, receive: *mut c_void, each: c_int,
        each_ty: MPI_Datatype, comm: MPI_Comm);
    PMPI_Barrier(comm: MPI_Comm);
    PMPI_Comm_call_errhandler(comm: MPI_Comm, code: c_int);
    PMPI_Comm_create_keyval(copy: Copy<MPI_Comm>, delete: Delete<MPI_Comm>, keyval: *mut c_int, state: *mut c_void);
    PMPI_Comm_free(comm: *mut MPI_Comm);
    PMPI_Comm_free_keyval(keyval: *mut c_int);
    PMPI_Comm_get_errhandler(comm: MPI_Comm, handler: *mut MPI_Errhandler);
    PMPI_Comm_group(comm: MPI_Comm, group: *mut MPI_Group);
    PMPI_Comm_idup(comm: MPI_Comm, new: *mut MPI_Comm, request: *mut MPI_Request);
    PMPI_Comm_rank(comm: MPI_Comm, rank: *mut c_int);
    PMPI_Comm_set_attr(comm: MPI_Comm, keyval: c_int, value: *mut c_void);
    PMPI_Comm_set_errhandler(comm: MPI_Comm, handler: MPI_Errhandler);
    PMPI_Comm_size(comm: MPI_Comm, size: *mut c_int);
    PMPI_Comm_split(comm: MPI_Comm, color: c_int, key: c_int, new: *mut MPI_Comm);
    PMPI_Comm_test_inter(comm: MPI_Comm, flag: *mut c_int);
    PMPI_Errhandler_free(handler: *mut MPI_Errhandler);
    PMPI_Error_class(code: c_int, class: *mut c_int);
    PMPI_Error_string(code: c_int, text: *mut c_char, len: *mut c_int);
    PMPI_Finalized(flag: *mut c_int);
    PMPI_Grequest_complete(request: MPI_Request);
    PMPI_Grequest_start(query: Query, free: Free, cancel: Cancel, state: *mut c_void, request: *mut MPI_Request);
    PMPI_Group_free(group: *mut MPI_Group);
    PMPI_Group_incl(group: MPI_Group, count: c_int, ranks: *const c_int, new: *mut MPI_Group);
    PMPI_Group_size(group: MPI_Group, size: *mut c_int);
    PMPI_Group_translate_ranks(group: MPI_Group, count: c_int, ranks: *const c_int, into: MPI_Group, found: *mut c_int);
    PMPI_Iallgather(send: *const c_void, len: c_int, ty: MPI_Datatype, receive: *mut c_void, each: c_int,
        each_ty: MPI_Datatype, comm: MPI_Comm, request: *mut MPI_Request);
    PMPI_Info_create(info: *mut MPI_Info);
    PMPI_Info_get(info: MPI_Info, key: *const c_char, len: c_int, value: *mut c_char, flag: *mut c_int);
    PMPI_Info_get_nkeys(info: MPI_Info, count: *mut c_int);
    PMPI_Info_get_nthkey(info: MPI_Info, at: c_int, key: *mut c_char);
    PMPI_Info_get_valuelen(info: MPI_Info, key: *const c_char, len: *mut c_int, flag: *mut c_int);
    PMPI_Info_set(info: MPI_Info, key: *const c_char, value: *const c_char);
    PMPI_Initialized(flag: *mut c_int);
    PMPI_Iprobe(source: c_int, tag: c_int, comm: MPI_Comm, flag: *mut c_int, status: *mut MPI_Status);
    PMPI_Irecv(buffer: *mut c_void, count: c_int, ty: MPI_Datatype, source: c_int, tag: c_int, comm: MPI_Comm,
        request: *mut MPI_Request);
    PMPI_Query_thread(provided: *mut c_int);
    PMPI_Request_free(request: *mut MPI_Request);
    PMPI_Status_set_cancelled(status: *mut MPI_Status, flag: c_int);
    PMPI_Status_set_elements(status: *mut MPI_Status, ty: MPI_Datatype, count: c_int);
    PMPI_Test(request: *mut MPI_Request, flag: *mut c_int, status: *mut MPI_Status);
    PMPI_Testany(count: c_int, requests: *mut MPI_Request, index: *mut c_int, flag: *mut c_int, status: *mut MPI_Status);
    PMPI_Testsome(count: c_int, requests: *mut MPI_Request, done: *mut c_int, indices: *mut c_int,
        statuses: *mut MPI_Status);
    PMPI_Type_create_keyval(copy: Copy<MPI_Datatype>, delete: Delete<MPI_Datatype>, keyval: *mut c_int,
        state: *mut c_void);
    PMPI_Type_free(ty: *mut MPI_Datatype);
    PMPI_Type_free_keyval(keyval: *mut c_int);
    PMPI_Type_get_contents(ty: MPI_Datatype, most_integers: c_int, most_addresses: c_int, most_types: c_int,
        integers: *mut c_int, addresses: *mut MPI_Aint, types: *mut MPI_Datatype);
    PMPI_Type_get_contents_c(ty: MPI_Datatype, most_integers: MPI_Count, most_addresses: MPI_Count,
        most_counts: MPI_Count, most_types: MPI_Count, integers: *mut c_int, addresses: *mut MPI_Aint,
        counts: *mut MPI_Count, types: *mut MPI_Datatype);
    PMPI_Type_get_envelope(ty: MPI_Datatype, integers: *mut c_int, addresses: *mut c_int, types: *mut c_int,
        combiner: *mut c_int);
    PMPI_Type_get_envelope_c(ty: MPI_Datatype, integers: *mut MPI_Count, addresses: *mut MPI_Count,
        counts: *mut MPI_Count, types: *mut MPI_Count, combiner: *mut c_int);
    PMPI_Type_get_extent_x(ty: MPI_Datatype, lb: *mut MPI_Count, extent: *mut MPI_Count);
    PMPI_Type_get_name(ty: MPI_Datatype, name: *mut c_char, len: *mut c_int);
    PMPI_Type_set_attr(ty: MPI_Datatype, keyval: c_int, value: *mut c_void);
    PMPI_Type_size(ty: MPI_Datatype, size: *mut c_int);
    PMPI_Win_allocate(size: MPI_Aint, unit: c_int, info: MPI_Info, comm: MPI_Comm, base: *mut c_void,
        win: *mut MPI_Win);
    PMPI_Win_call_errhandler(win: MPI_Win, code: c_int);
    PMPI_Win_free(win: *mut MPI_Win);
    PMPI_Win_get_errhandler(win: MPI_Win, handler: *mut MPI_Errhandler);
    PMPI_Win_set_errhandler(win: MPI_Win, handler: MPI_Errhandler);
}

/// Makes a receive that completes at once and receives nothing. Returns the host's code.
///
/// # Safety
/// `request` is writable.
pub(crate) unsafe fn receive_from_nobody(
    datatype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // One element, since MPICH does not check the type of an empty receive.
    let (mut element, count) = (0_u8, 1);
    // SAFETY: the caller promises that the request is writable; nothing is received into the element.
    unsafe {
        PMPI_Irecv(
            (&raw mut element).cast(),
            count,
            datatype,
            constants::proc_null(),
            0,
            comm,
            request,
        )
    }
}

/// The code that a call of the host returned, if it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostError(pub(crate) c_int);

/// The result of a call that returned `code`. If the call failed, the host has called its error handler.
#[inline]
pub(crate) fn check(code: c_int) -> Result<(), HostError> {
    match code {
        0 => Ok(()),
        code => Err(HostError(code)),
    }
}

impl HostError {
    /// The host's message.
    pub(crate) fn text(self) -> String {
        let mut text = [0 as c_char; 8192];
        let mut len = 0;
        // SAFETY: there is room for the longest string of any host.
        let code = unsafe { PMPI_Error_string(self.0, text.as_mut_ptr(), &raw mut len) };
        if code != 0 {
            return format!("error {} of the MPI library", self.0);
        }
        // SAFETY: the host ends it with a 0.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) };
        text.to_string_lossy().into_owned()
    }
}
