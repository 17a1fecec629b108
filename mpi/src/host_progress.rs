//! A place in the host's progress engine. From there, ranks that wait in the host's calls serve others, as ranks do that
//! wait in ours. Where the host has none, the agent alone serves.
//!
//! The host calls [`look`] or [`poll`] in every call that waits or tests: on any thread, on several at once, from our own
//! waits, which let the host make progress, and in its Finalize. They wait for no lock and make no call of MPI, so none
//! of these can end in a deadlock. In a forked child there is nobody to serve.

use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use transom::Job;
use transom::lower::serve_in_passing;

use crate::host::Symbol;
use crate::loaded::{self, Abi};

/// Open MPI's, in its library libopen-pal. They take what the host calls.
static REGISTER: Symbol = Symbol::new("opal_progress_register\0");
static UNREGISTER: Symbol = Symbol::new("opal_progress_unregister\0");
type Look = unsafe extern "C" fn() -> c_int;
type Register = unsafe extern "C" fn(Look) -> c_int;

/// MPICH's. It takes what the host calls, a state for that, and a stream.
static START: Symbol = Symbol::new("PMPIX_Async_start\0");
type Poll = unsafe extern "C" fn(*mut c_void) -> c_int;
type Start = unsafe extern "C" fn(Poll, *mut c_void, c_int) -> c_int;
const MPIX_STREAM_NULL: c_int = 0x3c00_0000;
const MPIX_ASYNC_NOPROGRESS: c_int = 0;
const MPIX_ASYNC_DONE: c_int = 1;

/// How many requests this rank has served from there.
static SERVED: AtomicU64 = AtomicU64::new(0);

static STATE: AtomicU32 = AtomicU32::new(NONE);
/// The host does not call.
const NONE: u32 = 0;
/// The host calls, and peers are served.
const SERVING: u32 = 1;
/// The host may still call, but nobody is served any more. It never serves again.
const ENDING: u32 = 2;

/// Call it when the job has begun. Ranks that share processors leave it to the agent: their waits give the processor
/// away, and have none most of the time.
pub(crate) fn begin(job: &Job) {
    if job.is_oversubscribed() {
        return;
    }
    STATE.store(SERVING, Ordering::Relaxed);
    if !is_accepted() {
        STATE.store(NONE, Ordering::Relaxed);
    }
}

fn is_accepted() -> bool {
    match loaded::abi() {
        Some(Abi::OpenMpi) => REGISTER.find().is_some_and(|register| {
            // SAFETY: Open MPI's function of this name has this type. `look` may be called in every way that the host
            // has, and lives as long as this library, which stays at least until `end`.
            unsafe { mem::transmute::<*mut c_void, Register>(register)(look) == 0 }
        }),
        Some(Abi::Mpich) => START.find().is_some_and(|start| {
            // SAFETY: MPICH's function of this name has this type, in which MPIX_Async_thing is a pointer and
            // MPIX_Stream an int. Otherwise as above; `poll` uses no state.
            unsafe {
                let start = mem::transmute::<*mut c_void, Start>(start);
                start(poll, ptr::null_mut(), MPIX_STREAM_NULL) == 0
            }
        }),
        _ => false,
    }
}

/// For the report: how much this rank has served from there, or that the host does not call.
pub(crate) fn in_words() -> String {
    match is_used() {
        true => format!("{} requests", SERVED.load(Ordering::Relaxed)),
        false => "none, it has no place for that, or ranks share processors".to_owned(),
    }
}

/// Whether the host calls.
fn is_used() -> bool {
    STATE.load(Ordering::Relaxed) != NONE
}

/// Call it before the host's Finalize. MPICH's waits there until each function has answered that it is done, before it
/// tells anyone that it ends. Until the job ends, the agent alone serves.
pub(crate) fn before_finalize() {
    if loaded::abi() == Some(Abi::Mpich) && is_used() {
        STATE.store(ENDING, Ordering::Relaxed);
    }
}

/// Call it before the job ends, when no rank uses windows any more. Another thread may still be in `look`.
pub(crate) fn end() {
    if loaded::abi() == Some(Abi::OpenMpi) && is_used() {
        STATE.store(ENDING, Ordering::Relaxed);
        if let Some(unregister) = UNREGISTER.find() {
            // SAFETY: as in `is_accepted`; both functions have one type.
            unsafe { mem::transmute::<*mut c_void, Register>(unregister)(look) };
        }
    }
}

unsafe extern "C" fn look() -> c_int {
    match STATE.load(Ordering::Relaxed) {
        SERVING => c_int::try_from(serve()).unwrap_or(c_int::MAX),
        _ => 0,
    }
}

unsafe extern "C" fn poll(_: *mut c_void) -> c_int {
    if STATE.load(Ordering::Relaxed) == SERVING {
        serve();
        return MPIX_ASYNC_NOPROGRESS;
    }
    MPIX_ASYNC_DONE
}

fn serve() -> usize {
    let served = serve_in_passing();
    if served > 0 {
        SERVED.fetch_add(served as u64, Ordering::Relaxed);
    }
    served
}
