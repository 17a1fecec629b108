//! Errors. They are reported through the handler of the window or the communicator, like the host's own.

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::sync::Mutex;
use std::time::Duration;

use transom::ErrorClass;

use crate::exported::in_front;
use crate::host::{self, HostError};
use crate::mpi_h::{MPI_Comm, MPI_Errhandler, MPI_Win};
use crate::windows::{self, lock};
use crate::{constants, report, world};

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The window reported it.
    Window(transom::Error),
    /// An argument that only this library checks is wrong.
    Argument(ErrorClass, String),
    /// The host reported it, and has already called its error handler.
    Host(HostError),
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl From<transom::Error> for Failure {
    fn from(error: transom::Error) -> Self {
        Self::Window(error)
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

/// An error for a wrong argument of this class, with the reason.
#[cold]
pub(crate) fn bad(class: ErrorClass, text: impl Into<String>) -> Failure {
    Failure::Argument(class, text.into())
}

/// An error for a null pointer in place of a result.
#[cold]
pub(crate) fn null(what: &str) -> Failure {
    bad(
        ErrorClass::Arg,
        format!("the pointer {what} is null, where a result goes"),
    )
}

impl Failure {
    /// The message.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Window(error) => full(error),
            Self::Argument(_, text) => text.clone(),
            Self::Host(error) => error.text(),
        }
    }

    /// The host's number for the class and the message.
    fn code(&self, call: &str) -> c_int {
        let (class, text) = match self {
            Self::Window(error) => (error.class(), full(error)),
            Self::Argument(class, text) => (*class, text.clone()),
            Self::Host(HostError(code)) => return *code,
        };
        code_of(
            constants::error_class(class),
            &format!("{}{call}: {text}", world::name()),
        )
    }
}

/// An error with its causes.
fn full(error: &transom::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// The host's class of a code.
pub(crate) fn class_of(code: c_int) -> c_int {
    let mut class = code;
    // SAFETY: a local.
    unsafe { host::PMPI_Error_class(code, &raw mut class) };
    class
}

/// Codes exist forever in a host, and their number is limited. Each message gets a code; after this many codes, errors
/// have only a class.
const MOST_CODES: usize = 1024;

/// The codes that were made, by class and message.
static CODES: Mutex<Option<HashMap<(c_int, CString), c_int>>> = Mutex::new(None);

fn code_of(class: c_int, text: &str) -> c_int {
    // The shortest length that any host has room for.
    let mut cut = text.to_owned();
    if cut.len() > 250 {
        let end = (0..=247).rev().find(|&end| cut.is_char_boundary(end));
        cut.truncate(end.unwrap_or(0));
        cut.push_str("...");
    }
    let Ok(sentence) = CString::new(cut) else {
        return class;
    };
    let mut codes = lock(&CODES);
    let codes = codes.get_or_insert_default();
    let key = (class, sentence);
    if let Some(&code) = codes.get(&key) {
        return code;
    }
    if codes.len() == MOST_CODES {
        return class;
    }
    let mut code = class;
    // SAFETY: the code is a local, and the message a C string that the host copies.
    let told = unsafe {
        host::PMPI_Add_error_code(class, &raw mut code) == 0
            && host::PMPI_Add_error_string(code, key.1.as_ptr()) == 0
    };
    match told {
        true => {
            codes.insert(key, code);
            code
        }
        false => class,
    }
}

in_front! {
    // MPICH finds no message for a code that was added to one of its own classes.
    fn MPI_Error_string PMPI_Error_string(code: c_int, text: *mut c_char, len: *mut c_int) or host {
        let codes = lock(&CODES);
        let ours = codes.iter().flatten().find(|&(_, &ours)| ours == code);
        let Some(((_, sentence), _)) = ours else {
            drop(codes);
            return host();
        };
        let bytes = sentence.as_bytes_with_nul();
        // SAFETY: the program has room for the longest string of its host, which is longer than any of ours.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr().cast(), text, bytes.len());
            *len = bytes.len() as c_int - 1;
        }
        0
    }
}

/// The result of a call on a window of ours.
#[inline(always)]
pub(crate) fn told(call: &'static str, carrier: MPI_Win, result: Result<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(failure) => tell_window(call, carrier, &failure),
    }
}

/// The result of a failed call on a window of ours.
#[cold]
#[inline(never)]
pub(crate) fn tell(call: &'static str, carrier: MPI_Win, error: transom::Error) -> c_int {
    let failure = Failure::Window(error);
    match windows::find(carrier) {
        Some(_) => tell_window(call, carrier, &failure),
        // The window was freed during the operation.
        None => failure.code(call),
    }
}

#[cold]
#[inline(never)]
fn tell_window(call: &str, carrier: MPI_Win, failure: &Failure) -> c_int {
    let code = failure.code(call);
    if !matches!(failure, Failure::Host(_)) {
        if ends_all(Handler::of(carrier).0) {
            end_all(call, failure, constants::comm_world());
        }
        // SAFETY: the carrier is a window of the host that is not freed.
        unsafe { host::PMPI_Win_call_errhandler(carrier, code) };
    }
    code
}

/// A window's error handler.
pub(crate) struct Handler(MPI_Errhandler);

impl Handler {
    /// The handler of a window of the host that is not freed.
    pub(crate) fn of(carrier: MPI_Win) -> Self {
        let mut handler = constants::errors_are_fatal();
        // SAFETY: a local; the host checks the handle.
        unsafe { host::PMPI_Win_get_errhandler(carrier, &raw mut handler) };
        Self(handler)
    }

    pub(crate) fn give_to(&self, carrier: MPI_Win) {
        // SAFETY: the handler is alive; the host checks the window.
        unsafe { host::PMPI_Win_set_errhandler(carrier, self.0) };
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        give_back(self.0);
    }
}

/// Whether the handler is one of the host's that end processes.
fn ends_all(handler: MPI_Errhandler) -> bool {
    // A host without the second has a null handler there, which no window has.
    handler == constants::errors_are_fatal() || handler == constants::errors_abort()
}

fn give_back(mut handler: MPI_Errhandler) {
    // SAFETY: we got this handle from the host.
    unsafe { host::PMPI_Errhandler_free(&raw mut handler) };
}

/// Within this time, launchers forward a process's last output before they learn that it has ended.
const TO_BE_PASSED_ON: Duration = Duration::from_millis(100);

/// Does what the host's handlers that end processes do. Their message would be another, or missing. The job's exit code
/// is the error's class.
#[cold]
pub(crate) fn end_all(call: &str, failure: &Failure, comm: MPI_Comm) -> ! {
    let text = failure.text();
    report::trouble(&format!("{}{call}: {text}", world::name()));
    // Hydra ends all processes at once, and drops output that it has not forwarded yet.
    std::thread::sleep(TO_BE_PASSED_ON);
    let class = class_of(failure.code(call));
    // SAFETY: the communicator is the program's, and alive. All processes that are connected to it are to end.
    unsafe { host::PMPI_Abort(comm, class) };
    std::process::exit(class)
}

/// The result of a call that creates something on a communicator.
pub(crate) fn told_comm(call: &'static str, comm: MPI_Comm, result: Result<()>) -> c_int {
    let Err(failure) = result else { return 0 };
    let code = failure.code(call);
    if !matches!(failure, Failure::Host(_)) {
        // A null communicator has no handler.
        let comm = match comm == constants::comm_null() {
            true => constants::comm_world(),
            false => comm,
        };
        let mut handler = constants::errors_are_fatal();
        // SAFETY: a local; the host checks the handle.
        unsafe { host::PMPI_Comm_get_errhandler(comm, &raw mut handler) };
        if handler == constants::errors_are_fatal() {
            let all = match world::has_begun() {
                true => constants::comm_world(),
                false => comm,
            };
            end_all(call, &failure, all);
        }
        if ends_all(handler) {
            end_all(call, &failure, comm);
        }
        give_back(handler);
        // SAFETY: the host checks the handle.
        unsafe { host::PMPI_Comm_call_errhandler(comm, code) };
    }
    code
}
