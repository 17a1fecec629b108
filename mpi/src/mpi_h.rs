//! The types of the host's `mpi.h`. Handles are numbers in MPICH's family, and addresses in Open MPI and in the ABI of
//! MPI-5; `build.rs` finds out which. Only the host knows which object a handle names.

#![allow(
    non_camel_case_types,
    reason = "these are the names that the standard has"
)]

#[cfg(handles_are_numbers)]
type Handle = std::ffi::c_int;
#[cfg(not(handles_are_numbers))]
type Handle = *mut std::ffi::c_void;

/// A handle as a number, for tables. It has the handle's width, so that calls pass it on unchanged.
#[cfg(handles_are_numbers)]
pub(crate) type Number = u32;
#[cfg(not(handles_are_numbers))]
pub(crate) type Number = usize;

/// A [`Number`] that several threads use.
#[cfg(handles_are_numbers)]
pub(crate) type AtomicNumber = std::sync::atomic::AtomicU32;
#[cfg(not(handles_are_numbers))]
pub(crate) type AtomicNumber = std::sync::atomic::AtomicUsize;

/// A value that is no handle of any host: no program has this address, and no kind of handle has these bits.
pub(crate) const NO_HANDLE: Number = 1 << (Number::BITS - 1) | 1;

macro_rules! handles {
    ($($name:ident)+) => {$(
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(transparent)]
        pub(crate) struct $name(pub(crate) Handle);

        // SAFETY: a handle is a number, or an address that only the host dereferences. The host lets all threads use
        // it.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}

        impl $name {
            #[inline(always)]
            #[allow(dead_code, reason = "some are in no table")]
            pub(crate) fn number(self) -> Number {
                self.0 as Number
            }
        }
    )+};
}

handles! {
    MPI_Comm
    MPI_Datatype
    MPI_Errhandler
    MPI_Group
    MPI_Info
    MPI_Op
    MPI_Request
    MPI_Win
}

/// As wide as `constants.c` expects.
pub(crate) type MPI_Aint = isize;
pub(crate) type MPI_Count = i64;

/// An opaque status. The host's header says how long it is, and where its error is.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct MPI_Status([u8; 0]);
