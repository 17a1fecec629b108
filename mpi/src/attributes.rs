//! What a window says of itself: the predefined attributes and the hints (MPI-4.1, sections 12.2.6 and 12.2.7).

use std::ffi::{c_int, c_void};
use std::ptr;

use mpi_sys::{MPI_Aint, MPI_Info, MPI_Win};

use crate::errors::Result;
use crate::exported::{exported, on_windows};
use crate::host::{Symbol, host};
use crate::windows::{self, Attributes, Ours};
use crate::{constants, info};

/// What a predefined attribute's value is: a pointer to it, but the base itself.
fn predefined(attributes: &'static Attributes, keyval: c_int) -> Option<*const c_void> {
    Some(if keyval == constants::win_base() {
        attributes.base
    } else if keyval == constants::win_size() {
        (&raw const attributes.size).cast()
    } else if keyval == constants::win_disp_unit() {
        (&raw const attributes.disp_unit).cast()
    } else if keyval == constants::win_create_flavor() {
        (&raw const attributes.flavor).cast()
    } else if keyval == constants::win_model() {
        (&raw const attributes.model).cast()
    } else {
        return None;
    })
}

exported! {
    fn MPI_Win_get_attr PMPI_Win_get_attr(win: MPI_Win, keyval: c_int, value: *mut c_void, flag: *mut c_int) {
        let attributes = windows::find_attributes(win);
        if let Some(found) = attributes.and_then(|attributes| predefined(attributes, keyval)) {
            // SAFETY: the program's own places.
            unsafe {
                value.cast::<*const c_void>().write_unaligned(found);
                *flag = 1;
            }
            return 0;
        }
        // SAFETY: the program's own arguments; the carrier has the program's attributes.
        unsafe {
            host!(PMPI_Win_get_attr(MPI_Win, c_int, *mut c_void, *mut c_int))(win, keyval, value, flag)
        }
    }
}

on_windows! {
    fn MPI_Win_set_info PMPI_Win_set_info(win: MPI_Win, hints: MPI_Info) of win as ours {
        info::from_host(hints).and_then(|hints| Ok(ours.window().set_info(&hints)?))
    }

    fn MPI_Win_get_info PMPI_Win_get_info(win: MPI_Win, hints: *mut MPI_Info) of win as ours {
        // SAFETY: the program's own place.
        unsafe { get_info(ours, hints) }
    }
}

/// What the Fortran wrappers of MPICH and Intel MPI call. Of predefined attributes they want the values, by
/// keyvals that are one more than those of C.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPII_Win_get_attr(
    win: MPI_Win,
    keyval: c_int,
    value: *mut c_void,
    flag: *mut c_int,
    kind: c_int,
) -> c_int {
    if let Some(attributes) = windows::find_attributes(win)
        && let Some(found) = value_of(attributes, keyval.wrapping_sub(1))
    {
        // SAFETY: the wrapper's own places.
        unsafe {
            value.cast::<MPI_Aint>().write_unaligned(found);
            *flag = 1;
        }
        return 0;
    }
    // SAFETY: what the wrapper passed goes on to where it would have gone without us: only hosts that have
    // the function call it.
    unsafe {
        host!(MPII_Win_get_attr(MPI_Win, c_int, *mut c_void, *mut c_int, c_int))(
            win, keyval, value, flag, kind,
        )
    }
}

/// The Fortran function itself, since that of Open MPI calls none that a library could stand in front of.
macro_rules! fortran {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            win: *const c_int,
            keyval: *const c_int,
            value: *mut MPI_Aint,
            flag: *mut c_int,
            code: *mut c_int,
        ) {
            // SAFETY: Fortran passes all arguments by their addresses.
            if let Some(found) = unsafe { value_for_fortran(*win, *keyval) } {
                // SAFETY: as above.
                unsafe {
                    *value = found;
                    *flag = 1;
                    *code = 0;
                }
                return;
            }
            type Arg = *const c_int;
            // SAFETY: what the program passed goes on to where it would have gone without us.
            unsafe { host!($name(Arg, Arg, *mut MPI_Aint, *mut c_int, *mut c_int))(win, keyval, value, flag, code) };
        }
    )*};
}

// The first of `mpif.h` and the module `mpi`, the second of `mpi_f08`.
fortran! { mpi_win_get_attr_ pmpi_win_get_attr_ }

/// For hosts whose `MPI_Win_f2c` is a function: those have the same keyvals in Fortran as in C.
fn value_for_fortran(win: c_int, keyval: c_int) -> Option<MPI_Aint> {
    static F2C: Symbol = Symbol::new("PMPI_Win_f2c\0");
    let at = F2C.find()?;
    // SAFETY: the host has a function of this signature under the name.
    let f2c =
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> MPI_Win>(at) };
    // SAFETY: the host takes any number.
    let attributes = windows::find_attributes(unsafe { f2c(win) })?;
    value_of(attributes, keyval)
}

fn value_of(attributes: &Attributes, keyval: c_int) -> Option<MPI_Aint> {
    Some(if keyval == constants::win_base() {
        attributes.base.addr() as MPI_Aint
    } else if keyval == constants::win_size() {
        attributes.size
    } else if keyval == constants::win_disp_unit() {
        attributes.disp_unit as MPI_Aint
    } else if keyval == constants::win_create_flavor() {
        attributes.flavor as MPI_Aint
    } else if keyval == constants::win_model() {
        attributes.model as MPI_Aint
    } else {
        return None;
    })
}

/// # Safety
/// `place` is writable.
unsafe fn get_info(ours: &Ours, place: *mut MPI_Info) -> Result<()> {
    let made = info::to_host(&ours.window().info())?;
    debug_assert!(!ptr::eq(place, ptr::null()));
    // SAFETY: the caller's promise.
    unsafe { *place = made };
    Ok(())
}
