//! libpmix, loaded at run time, and its functions with Rust's types. All unsafe code for PMIx is here.
//!
//! The PMIx standard promises for a library of this name, since version 3, that its functions have these types, that
//! several threads may call them, and that they keep nothing of their arguments. `pmix_value_t` has had the size below
//! since that version. `ci/pmix` compares the structs with the C compiler's.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::{MaybeUninit, offset_of};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use libloading::os::unix::{Library as Loaded, RTLD_GLOBAL, RTLD_LAZY};

use super::PmixError;
use super::error::{Status, found};

/// The name of every PMIx library since version 2.
const NAME: &str = "libpmix.so.2";
/// The versions whose structs are known.
const VERSIONS: std::ops::RangeInclusive<u32> = 3..=6;

const MAX_SPACE: usize = 255;
const MAX_KEY: usize = 511;

const SUCCESS: c_int = 0;
const TYPE_BOOL: u16 = 1;
const TYPE_STRING: u16 = 3;
const TYPE_UINT32: u16 = 14;
const TYPE_BYTE_OBJECT: u16 = 27;
/// Visible to all processes of the job, on any node.
const SCOPE_GLOBAL: u8 = 3;
/// Stands for the whole job where a function takes a rank.
const WILDCARD: u32 = u32::MAX - 1;

/// The events that report the loss of the server: of libraries since version 4, and of older ones.
static LOST_CONNECTION: [c_int; 2] = [-61, -101];
/// No other handler needs to be called for an event.
const ACTION_COMPLETE: c_int = -334;

const JOB_SIZE: &CStr = c"pmix.job.size";
const COLLECT: &CStr = c"pmix.collect";
const IMMEDIATE: &CStr = c"pmix.immediate";

/// `pmix_proc_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Process {
    space: [u8; MAX_SPACE + 1],
    pub(super) rank: u32,
}

/// `pmix_byte_object_t`.
#[derive(Clone, Copy)]
#[repr(C)]
struct ByteObject {
    bytes: *mut c_char,
    size: usize,
}

/// The union of `pmix_value_t`, with the members that are used here.
#[derive(Clone, Copy)]
#[repr(C)]
union Data {
    flag: bool,
    number: u32,
    text: *mut c_char,
    bytes: ByteObject,
    whole: [u64; 3],
}

/// `pmix_value_t`.
#[repr(C)]
struct Value {
    ty: u16,
    data: Data,
}

/// `pmix_info_t`.
#[repr(C)]
struct Info {
    key: [u8; MAX_KEY + 1],
    flags: u32,
    value: Value,
}

const _: () = {
    assert!(size_of::<Process>() == 260 && offset_of!(Process, rank) == 256);
    assert!(size_of::<Value>() == 32 && offset_of!(Value, data) == 8);
    assert!(size_of::<Info>() == 552 && offset_of!(Info, flags) == 512);
    assert!(offset_of!(Info, value) == 520);
};

type GetVersion = unsafe extern "C" fn() -> *const c_char;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;
type Init = unsafe extern "C" fn(*mut Process, *mut Info, usize) -> c_int;
type Finalize = unsafe extern "C" fn(*const Info, usize) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type Fence = unsafe extern "C" fn(*const Process, usize, *const Info, usize) -> c_int;
type Get = unsafe extern "C" fn(
    *const Process,
    *const c_char,
    *const Info,
    usize,
    *mut *mut Value,
) -> c_int;
type Abort = unsafe extern "C" fn(c_int, *const c_char, *mut Process, usize) -> c_int;
/// The function that an event handler calls when it is done; the last pointer is its argument.
type Heard = unsafe extern "C" fn(
    c_int,
    *mut Info,
    usize,
    Option<unsafe extern "C" fn(c_int, *mut c_void)>,
    *mut c_void,
    *mut c_void,
);
type Handler = extern "C" fn(
    usize,
    c_int,
    *const Process,
    *mut Info,
    usize,
    *mut Info,
    usize,
    Option<Heard>,
    *mut c_void,
);
type Registered = extern "C" fn(c_int, usize, *mut c_void);
type Register = unsafe extern "C" fn(
    *mut c_int,
    usize,
    *mut Info,
    usize,
    Handler,
    Registered,
    *mut c_void,
) -> c_int;

/// Whether the connection to the server was lost. A process has one connection.
static IS_LOST: AtomicBool = AtomicBool::new(false);

/// The functions. They stay valid: the library is never unloaded, because it may have threads.
pub(super) struct Library {
    error_string: ErrorString,
    init: Init,
    finalize: Finalize,
    put: Put,
    commit: Commit,
    fence: Fence,
    get: Get,
    abort: Abort,
    register: Register,
}

/// What a rank has put.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Published {
    Bytes(Vec<u8>),
    Number(u32),
    /// A value of another type, with the type's number.
    Other(u16),
}

impl Library {
    /// Loads the library once.
    pub(super) fn load() -> Result<&'static Self, PmixError> {
        static LIBRARY: OnceLock<Library> = OnceLock::new();
        if let Some(known) = LIBRARY.get() {
            return Ok(known);
        }
        let library = Self::open(NAME)?;
        // If two threads come here, both have loaded the same library.
        Ok(LIBRARY.get_or_init(|| library))
    }

    fn open(name: &'static str) -> Result<Self, PmixError> {
        let unusable = |error: libloading::Error| PmixError::NoLibrary {
            found: found(),
            names: name,
            reason: error.to_string(),
        };
        // Global, because components that the library loads look for its symbols there. SAFETY: a library of this name
        // is PMIx, whose initialisation may run in any process at any time: every MPI program does so.
        let loaded = unsafe { Loaded::open(Some(name), RTLD_LAZY | RTLD_GLOBAL) };
        let loaded = std::mem::ManuallyDrop::new(loaded.map_err(unusable)?);
        macro_rules! function {
            ($name:literal, $ty:ty) => {{
                // SAFETY: the function of this name has this type, as the head of this file says.
                let symbol = unsafe { loaded.get::<$ty>($name) };
                *symbol.map_err(unusable)?
            }};
        }
        let version = function!(b"PMIx_Get_version\0", GetVersion);
        // SAFETY: it needs no initialisation, and returns null or a string that is never freed.
        let version = unsafe { text(version()) }.unwrap_or_default();
        if !(major(&version).is_some_and(|major| VERSIONS.contains(&major))) {
            return Err(PmixError::Version { version });
        }
        Ok(Self {
            error_string: function!(b"PMIx_Error_string\0", ErrorString),
            init: function!(b"PMIx_Init\0", Init),
            finalize: function!(b"PMIx_Finalize\0", Finalize),
            put: function!(b"PMIx_Put\0", Put),
            commit: function!(b"PMIx_Commit\0", Commit),
            fence: function!(b"PMIx_Fence\0", Fence),
            get: function!(b"PMIx_Get\0", Get),
            abort: function!(b"PMIx_Abort\0", Abort),
            register: function!(b"PMIx_Register_event_handler\0", Register),
        })
    }

    /// Initialises the library. Returns the name of this process and its job.
    pub(super) fn init(&self) -> Result<Process, Status> {
        let mut process = MaybeUninit::<Process>::zeroed();
        // SAFETY: there is room for the answer, and no list of infos.
        let code = unsafe { (self.init)(process.as_mut_ptr(), ptr::null_mut(), 0) };
        self.judge(code)?;
        let codes = LOST_CONNECTION.as_ptr().cast_mut();
        let count = LOST_CONNECTION.len();
        let nothing = ptr::null_mut();
        // SAFETY: the codes and both functions are static, and the library only reads the codes. The result is ignored:
        // after a failure, the loss of the server is noticed later.
        unsafe { (self.register)(codes, count, ptr::null_mut(), 0, lost, registered, nothing) };
        // SAFETY: any bytes are a valid process, and these were zero before the call.
        Ok(unsafe { process.assume_init() })
    }

    /// Whether the server has been gone since [`Library::init`].
    pub(super) fn is_lost(&self) -> bool {
        IS_LOST.load(Ordering::Relaxed)
    }

    pub(super) fn finalize(&self) -> Result<(), Status> {
        // SAFETY: an empty list of infos may be null.
        self.judge(unsafe { (self.finalize)(ptr::null(), 0) })
    }

    /// Publishes bytes for all processes of the job; they can get them after the next fence.
    pub(super) fn put(&self, key: &CStr, bytes: &[u8]) -> Result<(), Status> {
        let mut value = Value {
            ty: TYPE_BYTE_OBJECT,
            data: Data { whole: [0; 3] },
        };
        value.data.bytes = ByteObject {
            bytes: bytes.as_ptr().cast_mut().cast(),
            size: bytes.len(),
        };
        // SAFETY: key and value are alive during the call. It copies the bytes and does not write to them, although its
        // C type would allow that.
        self.judge(unsafe { (self.put)(SCOPE_GLOBAL, key.as_ptr(), &raw mut value) })?;
        // SAFETY: it takes nothing.
        self.judge(unsafe { (self.commit)() })
    }

    /// Waits for all processes of the job, and collects what they have put.
    pub(super) fn fence(&self, job: &Process) -> Result<(), Status> {
        let all = job.with_rank(WILDCARD);
        let collect = Info::yes(COLLECT);
        // SAFETY: the pointers are to one process and one info, both alive during the call, which only reads them.
        self.judge(unsafe { (self.fence)(&raw const all, 1, &raw const collect, 1) })
    }

    /// What a process has put, if it is available now. Waits for no process.
    pub(super) fn get(&self, owner: &Process, key: &CStr) -> Result<Published, Status> {
        let immediate = Info::yes(IMMEDIATE);
        let mut value: *mut Value = ptr::null_mut();
        // SAFETY: the pointers are to a process, a key, one info and room for a pointer, all alive during the call,
        // which writes only to the last.
        let code = unsafe {
            let value = &raw mut value;
            (self.get)(owner, key.as_ptr(), &raw const immediate, 1, value)
        };
        self.judge(code)?;
        if value.is_null() {
            return Ok(Published::Other(0));
        }
        // SAFETY: after success the pointer is to a value that the caller owns.
        Ok(unsafe { take(value) })
    }

    /// The number of processes of the job.
    pub(super) fn job_size(&self, job: &Process) -> Result<Published, Status> {
        self.get(&job.with_rank(WILDCARD), JOB_SIZE)
    }

    /// Asks for the end of the whole job.
    pub(super) fn abort(&self, code: i32, message: &CStr) -> Result<(), Status> {
        // SAFETY: the message is alive during the call; no list of processes stands for all.
        self.judge(unsafe { (self.abort)(code, message.as_ptr(), ptr::null_mut(), 0) })
    }

    fn judge(&self, code: c_int) -> Result<(), Status> {
        match code {
            SUCCESS => Ok(()),
            code => Err(self.status(code)),
        }
    }

    fn status(&self, code: c_int) -> Status {
        // SAFETY: it takes any number, and returns null or a string that is never freed.
        let text = unsafe { text((self.error_string)(code)) };
        Status {
            code,
            text: text.unwrap_or_else(|| "an unknown status".to_owned()),
        }
    }

    /// The status of a successful call.
    pub(super) fn success(&self) -> Status {
        self.status(SUCCESS)
    }
}

/// Called by a thread of the library.
extern "C" fn lost(
    _: usize,
    _: c_int,
    _: *const Process,
    _: *mut Info,
    _: usize,
    _: *mut Info,
    _: usize,
    heard: Option<Heard>,
    event: *mut c_void,
) {
    IS_LOST.store(true, Ordering::Relaxed);
    if let Some(heard) = heard {
        let nothing = ptr::null_mut();
        // SAFETY: the library requires that its function is called once, with its own pointer; we pass no result that
        // it could free.
        unsafe { heard(ACTION_COMPLETE, ptr::null_mut(), 0, None, nothing, event) };
    }
}

extern "C" fn registered(_: c_int, _: usize, _: *mut c_void) {}

impl Process {
    /// Another process of the same job.
    pub(super) fn with_rank(&self, rank: u32) -> Self {
        Self { rank, ..*self }
    }
}

impl Info {
    /// A directive with the value true.
    fn yes(name: &CStr) -> Self {
        let mut key = [0; MAX_KEY + 1];
        key[..name.count_bytes()].copy_from_slice(name.to_bytes());
        let mut data = Data { whole: [0; 3] };
        data.flag = true;
        Self {
            key,
            flags: 0,
            value: Value {
                ty: TYPE_BOOL,
                data,
            },
        }
    }
}

/// Copies a value, and frees it as the macro PMIX_VALUE_RELEASE does.
///
/// # Safety
/// `value` came from `PMIx_Get`, and nothing uses it afterwards.
unsafe fn take(value: *mut Value) -> Published {
    // SAFETY: the caller guarantees all of the following. The type says which member of the union is valid, the
    // library's pointers are to as many bytes as it says, and malloc allocated all of it.
    unsafe {
        let Value { ty, data } = value.read();
        let found = match ty {
            TYPE_UINT32 => Published::Number(data.number),
            TYPE_BYTE_OBJECT => {
                let ByteObject { bytes, size } = data.bytes;
                let copy = match bytes.is_null() {
                    true => Vec::new(),
                    false => std::slice::from_raw_parts(bytes.cast::<u8>(), size).to_vec(),
                };
                libc::free(bytes.cast::<c_void>());
                Published::Bytes(copy)
            }
            ty => {
                if ty == TYPE_STRING {
                    libc::free(data.text.cast::<c_void>());
                }
                Published::Other(ty)
            }
        };
        libc::free(value.cast::<c_void>());
        found
    }
}

/// # Safety
/// `string` is null, or ends with a zero byte and is not changed during the call.
unsafe fn text(string: *const c_char) -> Option<String> {
    if string.is_null() {
        return None;
    }
    // SAFETY: as above.
    let string = unsafe { CStr::from_ptr(string) };
    Some(string.to_string_lossy().into_owned())
}

/// A C string of the text before the first zero byte.
pub(super) fn c_string(text: &str) -> CString {
    let text = text.split('\0').next().unwrap_or_default();
    CString::new(text).expect("no zero byte is left")
}

/// The major version in a text like `OpenPMIx 4.2.2 (PMIx Standard: 4.1, ...)` or `3.2.3, repo rev: ...`.
fn major(version: &str) -> Option<u32> {
    let start = version.find(|c: char| c.is_ascii_digit())?;
    let digits = version[start..]
        .split(|c: char| !c.is_ascii_digit())
        .next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a value as the library does.
    fn value(ty: u16, data: Data) -> *mut Value {
        // SAFETY: malloc is asked for room for one value, which is written before it is read.
        unsafe {
            let value = libc::malloc(size_of::<Value>()).cast::<Value>();
            assert!(!value.is_null());
            value.write(Value { ty, data });
            value
        }
    }

    fn of_malloc(bytes: &[u8]) -> *mut c_char {
        // SAFETY: the room is as long as the bytes that are copied to it.
        unsafe {
            let room = libc::malloc(bytes.len().max(1)).cast::<u8>();
            assert!(!room.is_null());
            ptr::copy_nonoverlapping(bytes.as_ptr(), room, bytes.len());
            room.cast()
        }
    }

    #[test]
    fn values_are_copied_and_freed() {
        let whole = Data { whole: [0; 3] };
        let mut number = whole;
        number.number = 64;
        let object = |bytes, size| {
            let mut data = whole;
            data.bytes = ByteObject { bytes, size };
            data
        };
        let mut string = whole;
        string.text = of_malloc(b"text\0");
        let values = [
            (TYPE_UINT32, number, Published::Number(64)),
            (
                TYPE_BYTE_OBJECT,
                object(of_malloc(b"a\0name"), 6),
                Published::Bytes(b"a\0name".to_vec()),
            ),
            (
                TYPE_BYTE_OBJECT,
                object(ptr::null_mut(), 6),
                Published::Bytes(Vec::new()),
            ),
            (TYPE_STRING, string, Published::Other(TYPE_STRING)),
            (39, whole, Published::Other(39)),
        ];
        for (ty, data, found) in values {
            // SAFETY: the value is made as by the library, and used only here.
            assert_eq!(unsafe { take(value(ty, data)) }, found);
        }
    }

    #[test]
    fn the_version_is_read_from_what_libraries_say() {
        assert_eq!(
            major("OpenPMIx 4.2.2 (PMIx Standard: 4.1, ABI: 0.0)"),
            Some(4)
        );
        assert_eq!(
            major("3.2.3, repo rev: v3.2.3 (PMIx Standard: 3.2)"),
            Some(3)
        );
        assert_eq!(major("PMIx 12"), Some(12));
        for unclear in ["", "PMIx", "99999999999999"] {
            assert_eq!(major(unclear), None);
        }
    }

    #[test]
    fn a_library_that_is_missing_is_named_with_the_remedy() {
        let error = Library::open("libpmix-of-nobody.so.2")
            .map(|_| ())
            .unwrap_err();
        let error = error.to_string();
        for part in [
            "libpmix-of-nobody.so.2",
            "libpmix2",
            "LD_LIBRARY_PATH",
            "PMIX_RANK",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_library_of_something_else_is_refused() {
        let error = Library::open("libc.so.6")
            .map(|_| ())
            .unwrap_err()
            .to_string();
        assert!(error.contains("PMIx_Get_version"), "{error}");
    }

    #[test]
    fn messages_end_at_a_zero_byte() {
        assert_eq!(c_string("the residual\0is NaN").as_bytes(), b"the residual");
        assert_eq!(c_string("").as_bytes(), b"");
    }
}
